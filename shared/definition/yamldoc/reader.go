package yamldoc

import (
	"fmt"

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
	nodes  map[string]ast.Node // every value by its path
}

// Report reports what is wrong with a node.
func (r *Reader) Report(n ast.Node, path, code, format string, args ...any) {
	if len(r.issues) >= MaxIssues {
		return
	}
	i := workflow.Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)}
	if t := firstToken(n); t != nil && t.Position != nil {
		i.Line, i.Column = t.Position.Line, max(t.Position.Column, 1)
	}
	r.issues = append(r.issues, i)
}

// reportToken reports an issue at a place that has no path yet.
func (r *Reader) reportToken(t *token.Token, code, message string) {
	if len(r.issues) < MaxIssues {
		r.issues = append(r.issues, workflow.Issue{Line: t.Position.Line, Column: max(t.Position.Column, 1), Code: code, Message: message})
	}
}

// firstToken is the token at which a node begins, nil if there is none: of a mapping
// in a block its first key, where the library has the colon.
func firstToken(n ast.Node) *token.Token {
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

// ReportAt reports an issue at a path, with its line if the document has a value there.
func (r *Reader) ReportAt(path, code, format string, args ...any) {
	r.Report(r.nodes[path], path, code, format, args...)
}

// Has reports whether the document has a value at a path.
func (r *Reader) Has(path string) bool {
	_, ok := r.nodes[path]
	return ok
}

// Mapping is the pairs of a mapping node; anything else is an issue.
func (r *Reader) Mapping(n ast.Node, path string) ([]*ast.MappingValueNode, bool) {
	if !IsObject(n) {
		r.Report(n, path, "type", "want an object")
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

// JoinPath is the path of a field.
func JoinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
