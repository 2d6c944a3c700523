package yamldoc

import (
	"maps"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Field is one value of a document: how it is read, and what a JSON Schema says
// of it. Both come from one declaration, so that they cannot drift apart. The
// zero Field is one that is promised and not built yet: it is refused by name,
// and the schema does not have it.
type Field struct {
	read     func(n ast.Node, path string)
	schema   func(*SchemaDefs) Schema
	required string // what is said where it is missing
}

// Unsupported is a field that is promised and not built yet.
var Unsupported Field

// Fields are the fields of an object by name.
type Fields map[string]Field

// Value is a field of a shape that holds no other.
func Value(schema Schema, read func(n ast.Node, path string)) Field {
	return Field{read: read, schema: func(*SchemaDefs) Schema { return maps.Clone(schema) }}
}

// Read reads the field from a node.
func (f Field) Read(n ast.Node, path string) { f.read(n, path) }

// Required is the field, which every object has; message is said of one without.
func (f Field) Required(message string) Field {
	f.required = message
	return f
}

// Before reads the field only if the check lets it.
func (f Field) Before(check func(n ast.Node, path string) bool) Field {
	read := f.read
	f.read = func(n ast.Node, path string) {
		if check(n, path) {
			read(n, path)
		}
	}
	return f
}

// Then checks what was read, unless reading it has reported an issue.
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

// Finally checks an object once it has been read, whatever reading it has reported.
func (f Field) Finally(check func(n ast.Node, path string)) Field {
	read := f.read
	f.read = func(n ast.Node, path string) {
		if read(n, path); IsObject(n) {
			check(n, path)
		}
	}
	return f
}

// WithSchema is the field with more in its shape.
func (f Field) WithSchema(more Schema) Field {
	schema := f.schema
	f.schema = func(s *SchemaDefs) Schema {
		all := schema(s)
		maps.Copy(all, more)
		return all
	}
	return f
}

// ScalarOr is a field of two forms, one of which is a scalar.
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

// Optional is a field of which there is none unless it is given.
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

// List is a sequence, read item by item.
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

// Object is a mapping, whose every key must have a field.
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
		case seen[key]: // this has been reported
		case !known:
			names := slices.Sorted(maps.Keys(fields))
			r.Report(v.Key, at, "unknown_field", "there is no field %q here%s", key, Suggest(key, names))
			if name := closestWord(key, names); name != "" && !present[name] && !seen[name] {
				r.readMisspelled(v.Value, fields[name], JoinPath(path, name))
				seen[name] = true
			}
		case field.read == nil:
			r.reportUnsupported(v.Key, at)
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

// reportUnsupported reports a value that is promised and not built yet.
func (r *Reader) reportUnsupported(n ast.Node, path string) {
	r.Report(n, path, string(workflow.CodeNotImplemented), "this is not supported yet")
}
