package yamldoc

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Field is one value of a document: how it is read, and its JSON Schema. Both come from one
// declaration, so that they agree. The zero Field is planned and not built yet: it is refused by
// name, and is not in the schema.
type Field struct {
	read     func(n ast.Node, path string)
	schema   func(*SchemaDefs) Schema
	required string // message if the field is missing; "" if it is optional
}

// Fields are the fields of an object by name.
type Fields map[string]Field

// Value returns a field whose schema refers to no other.
func Value(schema Schema, read func(n ast.Node, path string)) Field {
	return Field{read: read, schema: func(*SchemaDefs) Schema { return maps.Clone(schema) }}
}

// Read reads the field from a node.
func (f Field) Read(n ast.Node, path string) { f.read(n, path) }

// Required makes the field required. message is the issue of an object without it.
func (f Field) Required(message string) Field {
	f.required = message
	return f
}

// Before reads the field only if the check allows it.
func (f Field) Before(check func(n ast.Node, path string) bool) Field {
	read := f.read
	f.read = func(n ast.Node, path string) {
		if check(n, path) {
			read(n, path)
		}
	}
	return f
}

// Then checks the value after it was read without an issue.
func (f Field) Then(r *Reader, check func(n ast.Node, path string)) Field {
	read := f.read
	f.read = func(n ast.Node, path string) {
		before := r.IssueCount()
		if read(n, path); r.IssueCount() == before {
			check(n, path)
		}
	}
	return f
}

// Finally checks an object after it was read, with or without issues.
func (f Field) Finally(check func(n ast.Node, path string)) Field {
	read := f.read
	f.read = func(n ast.Node, path string) {
		if read(n, path); IsObject(n) {
			check(n, path)
		}
	}
	return f
}

// WithSchema adds keywords to the field's schema.
func (f Field) WithSchema(more Schema) Field {
	schema := f.schema
	f.schema = func(s *SchemaDefs) Schema {
		all := schema(s)
		maps.Copy(all, more)
		return all
	}
	return f
}

// ScalarOr returns a field with two forms, one of which is a scalar.
func ScalarOr(scalar, other Field) Field {
	return Field{
		read: func(n ast.Node, path string) {
			if _, is := n.(ast.ScalarNode); is {
				scalar.read(n, path)
				return
			}
			other.read(n, path)
		},
		schema: func(s *SchemaDefs) Schema { return Schema{"anyOf": []Schema{scalar.schema(s), other.schema(s)}} },
	}
}

// Either returns a field with two forms. pick chooses the first form for a node.
func Either(pick func(n ast.Node) bool, first, second Field) Field {
	return Field{
		read: func(n ast.Node, path string) {
			if pick(n) {
				first.read(n, path)
				return
			}
			second.read(n, path)
		},
		schema: func(s *SchemaDefs) Schema { return Schema{"anyOf": []Schema{first.schema(s), second.schema(s)}} },
	}
}

// HasKey reports whether a node is an object with the key.
func HasKey(n ast.Node, key string) bool {
	for _, v := range pairs(n) {
		if KeyOf(v) == key {
			return true
		}
	}
	return false
}

// Optional returns a field whose value is nil unless it is given.
func Optional[T any](into **T, field func(*T) Field) Field {
	return Field{
		read: func(n ast.Node, path string) {
			v := new(T)
			field(v).read(n, path)
			*into = v
		},
		schema: func(s *SchemaDefs) Schema { return field(new(T)).schema(s) },
	}
}

// List returns a sequence of at most limit items.
func List[T any](r *Reader, into *[]T, limit int, item func(*T) Field) Field {
	return Field{
		read: func(n ast.Node, path string) {
			s, ok := n.(*ast.SequenceNode)
			if !ok {
				r.Report(n, path, "type", "want a list")
				return
			}
			if len(s.Values) > limit {
				r.Report(n, path, "limit", "at most %d, not %d", limit, len(s.Values))
				return
			}
			for i, node := range s.Values {
				v := new(T)
				item(v).read(node, path+"["+strconv.Itoa(i)+"]")
				*into = append(*into, *v)
			}
		},
		schema: func(s *SchemaDefs) Schema {
			return Schema{"type": "array", "maxItems": limit, "items": item(new(T)).schema(s)}
		},
	}
}

// Object returns a mapping. Every key must have a field.
func (r *Reader) Object(fields Fields) Field {
	return Field{read: func(n ast.Node, path string) { r.readObject(n, path, fields) }, schema: fields.schema}
}

func (r *Reader) readObject(n ast.Node, path string, fields Fields) {
	values, ok := r.Mapping(n, path)
	if !ok {
		return
	}
	present, seen := map[string]bool{}, map[string]bool{}
	for _, v := range values {
		present[KeyOf(v)] = true
	}
	for _, v := range values {
		key := KeyOf(v)
		field, known := fields[key]
		switch at := JoinPath(path, key); {
		case seen[key]: // reported as a duplicate
		case !known:
			names := slices.Sorted(maps.Keys(fields))
			r.Report(v.Key, at, "unknown_field", "there is no field %q here%s", key, workflow.DidYouMean(key, names))
			if name := workflow.Closest(key, names); name != "" && !present[name] && !seen[name] {
				r.readMisspelled(v.Value, fields[name], JoinPath(path, name))
				seen[name] = true
			}
		default:
			field.read(v.Value, at)
		}
		seen[key] = true
	}
	for name, field := range fields {
		if field.required != "" && !seen[name] {
			r.Report(n, JoinPath(path, name), "required", "%s", field.required)
		}
	}
}

// Text reads a string. It refuses numbers and booleans, because 1.10 would arrive as 1.1.
func (r *Reader) Text(into *string) Field {
	return Value(Schema{"type": "string"}, func(n ast.Node, path string) {
		switch n := n.(type) {
		case *ast.StringNode:
			*into = n.Value
		case *ast.LiteralNode:
			*into = n.Value.Value
		default:
			r.Report(n, path, "type", "%s", textHint(n))
		}
	})
}

// textHint explains what is wrong with a value that is not a string. Quotes help only with a number
// or a boolean.
func textHint(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "want a string, not a list"
	case *ast.NullNode:
		return "want a string, not null"
	}
	if IsObject(n) {
		return "want a string, not an object"
	}
	return "want a string; put it in quotes"
}

// Enum reads a string that is one of the values.
func Enum[S ~string](r *Reader, into *S, values ...S) Field {
	var s string
	return r.Text(&s).WithSchema(Schema{"enum": values}).Then(r, func(n ast.Node, path string) {
		for _, c := range values {
			if S(s) == c {
				*into = c
				return
			}
		}
		names := make([]string, len(values))
		for i, c := range values {
			names[i] = string(c)
		}
		r.Report(n, path, "enum", "want one of %s", strings.Join(names, ", "))
	})
}

// Bool reads true or false.
func (r *Reader) Bool(into *bool) Field {
	return Value(Schema{"type": "boolean"}, func(n ast.Node, path string) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.Report(n, path, "type", "want true or false")
			return
		}
		*into = b.Value
	})
}

// Integer reads a whole number from low to high.
func (r *Reader) Integer(into *int, low, high int) Field {
	return Value(Schema{"type": "integer", "minimum": low, "maximum": high}, func(n ast.Node, path string) {
		v, ok := NumberOf(n)
		if !ok || v != math.Trunc(v) {
			r.Report(n, path, "type", "want a whole number")
			return
		}
		if v < float64(low) || v > float64(high) {
			r.Report(n, path, "range", "want %d to %d", low, high)
			return
		}
		*into = int(v)
	})
}

// Number reads a number from low to high.
func (r *Reader) Number(into *float64, low, high float64) Field {
	return Value(Schema{"type": "number", "minimum": low, "maximum": high}, func(n ast.Node, path string) {
		v, ok := NumberOf(n)
		if !ok {
			r.Report(n, path, "type", "want a number")
			return
		}
		if v < low || v > high {
			r.Report(n, path, "range", "want %g to %g", low, high)
			return
		}
		*into = v
	})
}

// Schema is a JSON Schema.
type Schema map[string]any

// SchemaDefs collects the schemas that have a name, which may refer to themselves.
type SchemaDefs struct{ named map[string]Schema }

// Named returns a field whose schema has a name in $defs. A field that may contain itself needs
// one.
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

// SchemaOf returns the JSON Schema (2020-12) of a field.
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
