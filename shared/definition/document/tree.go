package document

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxIssues bounds a report.
const MaxIssues = 100

// Reader takes one document apart and collects issues meanwhile. Its zero value
// has no document, and reports issues without a line.
type Reader struct {
	issues []workflow.Issue
	lines  []string            // of the text
	places map[string]ast.Node // every value by its path
}

// Issue reports what is wrong with a node.
func (r *Reader) Issue(n ast.Node, path, code, format string, args ...any) {
	if len(r.issues) >= MaxIssues {
		return
	}
	i := workflow.Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)}
	if t := start(n); t != nil && t.Position != nil {
		i.Line, i.Column = t.Position.Line, max(t.Position.Column, 1)
	}
	r.issues = append(r.issues, i)
}

// token reports an issue at a place that has no path yet.
func (r *Reader) token(t *token.Token, code, message string) {
	if len(r.issues) < MaxIssues {
		r.issues = append(r.issues, workflow.Issue{Line: t.Position.Line, Column: max(t.Position.Column, 1), Code: code, Message: message})
	}
}

// start is the token at which a node begins, nil if there is none: of a mapping
// in a block its first key, where the library has the colon.
func start(n ast.Node) *token.Token {
	if n == nil {
		return nil
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && m.Start.Type == token.MappingValueType {
		return m.Values[0].Key.GetToken()
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return v.Key.GetToken()
	}
	return n.GetToken()
}

// At reports an issue at a path, with its line if the document has a value there.
func (r *Reader) At(path, code, format string, args ...any) {
	r.Issue(r.places[path], path, code, format, args...)
}

// Field reads one field of an object.
type Field func(n ast.Node, path string)

// Planned is a field that is promised and not built yet.
var Planned Field

// NotYet reports a value that is promised and not built yet.
func (r *Reader) NotYet(n ast.Node, path string) {
	r.Issue(n, path, string(workflow.CodeNotImplemented), "this is not supported yet")
}

// Object reads a mapping, whose every key must have a field.
func (r *Reader) Object(n ast.Node, path string, fields map[string]Field) {
	values, ok := r.Mapping(n, path)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for _, v := range values {
		key := KeyOf(v)
		read, known := fields[key]
		switch at := Join(path, key); {
		case seen[key]: // this has been reported
		case !known:
			r.Issue(v.Key, at, "unknown_field", "there is no field %q here%s", key, nearest(key, fields))
		case read == nil:
			r.NotYet(v.Key, at)
		default:
			read(v.Value, at)
		}
		seen[key] = true
	}
}

// Given reports whether the document has a value at a path.
func (r *Reader) Given(path string) bool {
	_, ok := r.places[path]
	return ok
}

// Mapping is the pairs of a mapping node; anything else is an issue.
func (r *Reader) Mapping(n ast.Node, path string) ([]*ast.MappingValueNode, bool) {
	if !IsObject(n) {
		r.Issue(n, path, "type", "want an object")
		return nil, false
	}
	return pairs(n), true
}

// IsObject reports whether a node is a mapping.
func IsObject(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// pairs are the pairs of a mapping, none of anything else.
func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// KeyOf is the key of a pair as text.
func KeyOf(v *ast.MappingValueNode) string {
	key := ast.Node(v.Key)
	if k, ok := key.(*ast.MappingKeyNode); ok {
		key = k.Value
	}
	if s, ok := key.(*ast.StringNode); ok {
		return s.Value
	}
	return key.GetToken().Value
}

// Join is the path of a field.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// nearest suggests a field that differs by case or by an s.
func nearest(key string, fields map[string]Field) string {
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

// List reads a sequence item by item.
func (r *Reader) List(n ast.Node, path string, limit int, item Field) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.Issue(n, path, "type", "want a list")
		return
	}
	if len(s.Values) > limit {
		r.Issue(n, path, "limit", "at most %d, not %d", limit, len(s.Values))
		return
	}
	for i, v := range s.Values {
		item(v, path+"["+strconv.Itoa(i)+"]")
	}
}

// Text reads a string. Numbers and booleans are not taken for one: 1.10 would
// arrive as 1.1.
func (r *Reader) Text(into *string) Field {
	return func(n ast.Node, path string) {
		switch n := n.(type) {
		case *ast.StringNode:
			*into = n.Value
		case *ast.LiteralNode:
			*into = n.Value.Value
		default:
			r.Issue(n, path, "type", "want a text; put it in quotes")
		}
	}
}

// Choice reads a string that is one of a few.
func Choice[S ~string](r *Reader, into *S, of ...S) Field {
	return func(n ast.Node, path string) {
		var s string
		before := len(r.issues)
		r.Text(&s)(n, path)
		if len(r.issues) > before {
			return
		}
		for _, c := range of {
			if S(s) == c {
				*into = c
				return
			}
		}
		r.Issue(n, path, "enum", "want one of %v", of)
	}
}

// Flag reads true or false.
func (r *Reader) Flag(into *bool) Field {
	return func(n ast.Node, path string) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.Issue(n, path, "type", "want true or false")
			return
		}
		*into = b.Value
	}
}

// Integer reads a whole number within bounds.
func (r *Reader) Integer(into *int, low, high int) Field {
	return func(n ast.Node, path string) {
		v, ok := NumberOf(n)
		if !ok || v != math.Trunc(v) {
			r.Issue(n, path, "type", "want a whole number")
			return
		}
		if v < float64(low) || v > float64(high) {
			r.Issue(n, path, "range", "want %d to %d", low, high)
			return
		}
		*into = int(v)
	}
}

// Number reads a number within bounds.
func (r *Reader) Number(into *float64, low, high float64) Field {
	return func(n ast.Node, path string) {
		v, ok := NumberOf(n)
		if !ok {
			r.Issue(n, path, "type", "want a number")
			return
		}
		if v < low || v > high {
			r.Issue(n, path, "range", "want %g to %g", low, high)
			return
		}
		*into = v
	}
}
