package yamldoc

import (
	"maps"
	"slices"
)

// Schema is a JSON Schema.
type Schema map[string]any

// SchemaDefs collects the shapes that have a name, and so may hold themselves.
type SchemaDefs struct{ named map[string]Schema }

// Named is a field whose shape stands under a name among the schema's $defs. A
// field that may hold itself has one.
func Named(name string, f Field) Field {
	schema := f.schema
	f.schema = func(s *SchemaDefs) Schema {
		if _, defined := s.named[name]; !defined {
			s.named[name] = nil
			s.named[name] = schema(s)
		}
		return Schema{"$ref": "#/$defs/" + name}
	}
	return f
}

// SchemaOf is the JSON Schema (2020-12) of a field.
func SchemaOf(f Field) Schema {
	s := &SchemaDefs{map[string]Schema{}}
	all := Schema{"$schema": "https://json-schema.org/draft/2020-12/schema"}
	maps.Copy(all, f.schema(s))
	if len(s.named) > 0 {
		all["$defs"] = s.named
	}
	return all
}

func (f Fields) schema(s *SchemaDefs) Schema {
	properties, required := map[string]Schema{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		field := f[name]
		if field.schema == nil {
			continue
		}
		properties[name] = field.schema(s)
		if field.required != "" {
			required = append(required, name)
		}
	}
	all := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		all["required"] = required
	}
	return all
}
