package document

import (
	"maps"
	"slices"
)

// Shape is a JSON Schema.
type Shape map[string]any

// Shapes collects the shapes that have a name, and so may hold themselves.
type Shapes struct{ named map[string]Shape }

// Named is a field whose shape stands under a name among the schema's $defs. A
// field that may hold itself has one.
func Named(name string, f Field) Field {
	shape := f.shape
	f.shape = func(s *Shapes) Shape {
		if _, begun := s.named[name]; !begun {
			s.named[name] = nil
			s.named[name] = shape(s)
		}
		return Shape{"$ref": "#/$defs/" + name}
	}
	return f
}

// SchemaOf is the JSON Schema (2020-12) of a field.
func SchemaOf(f Field) Shape {
	s := &Shapes{map[string]Shape{}}
	all := Shape{"$schema": "https://json-schema.org/draft/2020-12/schema"}
	maps.Copy(all, f.shape(s))
	if len(s.named) > 0 {
		all["$defs"] = s.named
	}
	return all
}

func (f Fields) shape(s *Shapes) Shape {
	properties, required := map[string]Shape{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		field := f[name]
		if field.shape == nil {
			continue
		}
		properties[name] = field.shape(s)
		if field.required != "" {
			required = append(required, name)
		}
	}
	all := Shape{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		all["required"] = required
	}
	return all
}
