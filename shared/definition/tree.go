package definition

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxIssues bounds a report; maxDepth the nesting of a document.
const maxIssues, maxDepth = 100, 32

// reader collects issues while it walks the tree.
type reader struct {
	issues []workflow.Issue
	places map[string]ast.Node // by path, for issues found after reading
}

func (r *reader) issue(n ast.Node, path, code, format string, args ...any) {
	if len(r.issues) >= maxIssues {
		return
	}
	i := workflow.Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		i.Line, i.Column = n.GetToken().Position.Line, n.GetToken().Position.Column
	}
	r.issues = append(r.issues, i)
}

// at reports an issue at a path that has been read.
func (r *reader) at(path, code, format string, args ...any) {
	r.issue(r.places[path], path, code, format, args...)
}

// field reads one field of an object.
type field func(n ast.Node, path string)

// planned marks fields that are promised and not built yet.
func (r *reader) planned(n ast.Node, path string) {
	r.issue(n, path, string(workflow.CodeNotImplemented), "this is not supported yet")
}

// object reads a mapping: every key must have a field, once.
func (r *reader) object(n ast.Node, path string, fields map[string]field) {
	values, ok := r.mapping(n, path)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for _, v := range values {
		key := keyOf(v)
		at := join(path, key)
		read, known := fields[key]
		switch {
		case seen[key]:
			r.issue(v.Key, at, "duplicate", "this field is given twice")
		case !known:
			r.issue(v.Key, at, "unknown_field", "there is no field %q here%s", key, nearest(key, fields))
		default:
			r.places[at] = v.Value
			read(v.Value, at)
		}
		seen[key] = true
	}
}

// mapping is the pairs of a mapping node; anything else is an issue.
func (r *reader) mapping(n ast.Node, path string) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	r.issue(n, path, "type", "want an object")
	return nil, false
}

func keyOf(v *ast.MappingValueNode) string {
	if s, ok := v.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return v.Key.String()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// nearest suggests a field that differs by case or by an s.
func nearest(key string, fields map[string]field) string {
	plain := func(s string) string {
		return strings.TrimSuffix(strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)), "s")
	}
	for name := range fields {
		if plain(name) == plain(key) {
			return fmt.Sprintf("; did you mean %q?", name)
		}
	}
	return ""
}

// list reads a sequence item by item.
func (r *reader) list(n ast.Node, path string, limit int, item field) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.issue(n, path, "type", "want a list")
		return
	}
	if len(s.Values) > limit {
		r.issue(n, path, "limit", "at most %d, not %d", limit, len(s.Values))
		return
	}
	for i, v := range s.Values {
		at := path + "[" + strconv.Itoa(i) + "]"
		r.places[at] = v
		item(v, at)
	}
}

// text reads a string. Numbers and booleans are not taken for one: 1.10 would
// arrive as 1.1.
func (r *reader) text(into *string) field {
	return func(n ast.Node, path string) {
		switch n := n.(type) {
		case *ast.StringNode:
			*into = n.Value
		case *ast.LiteralNode:
			*into = n.Value.Value
		default:
			r.issue(n, path, "type", "want a text; put it in quotes")
		}
	}
}

// choice reads a string that is one of a few.
func choice[S ~string](r *reader, into *S, of ...S) field {
	return func(n ast.Node, path string) {
		var s string
		before := len(r.issues)
		r.text(&s)(n, path)
		if len(r.issues) > before {
			return
		}
		for _, c := range of {
			if S(s) == c {
				*into = c
				return
			}
		}
		r.issue(n, path, "enum", "want one of %v", of)
	}
}

func (r *reader) flag(into *bool) field {
	return func(n ast.Node, path string) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.issue(n, path, "type", "want true or false")
			return
		}
		*into = b.Value
	}
}

func (r *reader) integer(into *int, low, high int) field {
	return func(n ast.Node, path string) {
		v, ok := numberOf(n)
		if !ok || v != math.Trunc(v) {
			r.issue(n, path, "type", "want a whole number")
			return
		}
		if v < float64(low) || v > float64(high) {
			r.issue(n, path, "range", "want %d to %d", low, high)
			return
		}
		*into = int(v)
	}
}

func (r *reader) number(into *float64, low, high float64) field {
	return func(n ast.Node, path string) {
		v, ok := numberOf(n)
		if !ok {
			r.issue(n, path, "type", "want a number")
			return
		}
		if v < low || v > high {
			r.issue(n, path, "range", "want %g to %g", low, high)
			return
		}
		*into = v
	}
}

func numberOf(n ast.Node) (float64, bool) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			return float64(v), true
		case uint64:
			return float64(v), true
		}
	case *ast.FloatNode:
		return n.Value, true
	}
	return 0, false
}

// raw reads any value as JSON. object asks for an object.
func (r *reader) raw(into *json.RawMessage, object bool) field {
	return func(n ast.Node, path string) {
		if object {
			if _, ok := r.mapping(n, path); !ok {
				return
			}
		}
		var v any
		if err := yaml.NodeToValue(n, &v); err != nil {
			r.issue(n, path, "value", "this cannot be read: %v", firstLine(err))
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			r.issue(n, path, "value", "this has no JSON form: %v", err)
			return
		}
		*into = out
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
