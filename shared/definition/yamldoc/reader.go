// Package yamldoc reads YAML and JSON with positions. It knows nothing about definitions.
// Their reader uses it to read a document field by field, and to collect everything that
// is wrong with it, each issue with its path, line and column.
//
//   - reader.go parses a document, finds values by path and collects issues.
//   - syntax.go explains what is no YAML.
//   - limits.go refuses what no document needs, before the parser works on it.
//   - field.go declares fields: how each is read, and its JSON Schema.
//   - json.go converts values of any shape to JSON.
//   - suggest.go finds the name that a misspelled key was meant to be.
package yamldoc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxIssues bounds the issues that are reported.
const MaxIssues = 100

// Reader reads one document and collects issues. The zero value has no document and
// reports issues without a line.
type Reader struct {
	issues []workflow.Issue
	lines  []string            // of the text
	nodes  map[string]ast.Node // every value by its path
}

// Parse parses a text. If root is nil, the reader's issues say why.
func Parse(source []byte) (r *Reader, root ast.Node) {
	r = &Reader{nodes: map[string]ast.Node{}}
	return r, r.parse(bytes.TrimPrefix(source, []byte("\ufeff")))
}

// Issues returns the issues in the order of the text.
func (r *Reader) Issues() []workflow.Issue {
	slices.SortStableFunc(r.issues, func(a, b workflow.Issue) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return r.issues
}

// IssueCount returns the number of issues so far. It shows whether reading added one.
func (r *Reader) IssueCount() int { return len(r.issues) }

// parse parses the text into its one document and checks what every document must
// fulfil. The library's parser reads whatever an author sends. If it panics, the text is
// reported as invalid.
func (r *Reader) parse(source []byte) (root ast.Node) {
	defer func() {
		if recover() != nil {
			root = nil
			r.Report(nil, "", "syntax", notYAML)
		}
	}()
	if !utf8.Valid(source) {
		r.Report(nil, "", "encoding", "the text is not UTF-8")
		return nil
	}
	r.lines = strings.Split(string(source), "\n")
	tokens := lexer.Tokenize(string(source))
	if !r.withinLimits(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // indexNodes reports them with their path
	if err != nil {
		r.reportSyntax(err)
		return nil
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d)
		}
	}
	switch {
	case len(docs) == 0:
		r.Report(nil, "", "required", "the document is empty")
		return nil
	case len(docs) > 1:
		r.Report(docs[1].Body, "", "syntax", "want one document, not several")
		return nil
	}
	if !r.indexNodes(docs[0].Body, "", 0) {
		return nil
	}
	return docs[0].Body
}

const notYAML = "this cannot be read as YAML"

// reportSyntax reports an error of the parser. Printing the whole error would include the
// text around it, which takes long and is not needed here.
func (r *Reader) reportSyntax(err error) {
	i := workflow.Issue{Code: "syntax"}
	var e yaml.Error
	if errors.As(err, &e) {
		i.Message = strings.TrimSuffix(e.GetMessage(), ". map key-value is pre-defined")
		if tok := e.GetToken(); tok != nil && tok.Position != nil {
			i.Line, i.Column = tok.Position.Line, max(tok.Position.Column, 1)
			if i.Line <= len(r.lines) {
				if why := explain(i.Message, r.lines[i.Line-1], i.Column); why != "" {
					i.Message += ": " + why
				}
			}
		}
	} else {
		i.Message = notYAML
	}
	r.issues = append(r.issues, i)
}

// Report adds an issue at a node. With a nil node the issue has no line.
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

// reportToken adds an issue at a token, before paths are known.
func (r *Reader) reportToken(t *token.Token, code, message string) {
	if len(r.issues) < MaxIssues {
		r.issues = append(r.issues, workflow.Issue{Line: t.Position.Line, Column: max(t.Position.Column, 1), Code: code, Message: message})
	}
}

// firstToken returns the token at which a node begins, nil if there is none. For a block mapping
// that is its first key, while the library returns the colon.
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

// ReportAt adds an issue at a path, with its line if the document has a value there.
func (r *Reader) ReportAt(path, code, format string, args ...any) {
	r.Report(r.nodes[path], path, code, format, args...)
}

// AddPath makes a node known under a further path.
func (r *Reader) AddPath(path string, n ast.Node) { r.nodes[path] = n }

// ReportAtText adds an issue at a line and column of a source that is part of the value at a path.
// The issue has the exact position if the document contains that line of the source unescaped and
// not folded, and otherwise the position of the value.
func (r *Reader) ReportAtText(path, source string, line, column int, code, format string, args ...any) {
	before := len(r.issues)
	r.ReportAt(path, code, format, args...)
	if len(r.issues) == before || line < 1 {
		return
	}
	if l, c := r.locate(path, strings.Split(source, "\n"), line, column); l > 0 {
		r.issues[before].Line, r.issues[before].Column = l, c
	}
}

func (r *Reader) locate(path string, source []string, line, column int) (int, int) {
	n, ok := r.nodes[path]
	if !ok {
		return 0, 0
	}
	position := n.GetToken().Position
	at := position.Line + line - 1
	if _, block := n.(*ast.LiteralNode); block {
		at++ // the text begins in the line after | or >
	}
	if line > len(source) || at > len(r.lines) {
		return 0, 0
	}
	text, from := r.lines[at-1], 0
	for range position.Column - 1 { // columns count characters
		if at != position.Line || from >= len(text) {
			break
		}
		_, size := utf8.DecodeRuneInString(text[from:])
		from += size
	}
	offset := strings.Index(text[from:], source[line-1])
	if offset < 0 {
		return 0, 0
	}
	return at, utf8.RuneCountInString(text[:from+offset]) + column
}

// ReportAtNode adds an issue about path, with the position of the value at another path.
func (r *Reader) ReportAtNode(at, path, code, format string, args ...any) {
	r.Report(r.nodes[at], path, code, format, args...)
}

// Has reports whether the document has a value at a path.
func (r *Reader) Has(path string) bool {
	_, ok := r.nodes[path]
	return ok
}

// Mapping returns the pairs of a mapping. Any other node is an issue.
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

// pairs returns the pairs of a mapping, none for any other node.
func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// KeyOf returns the key of a pair as a string.
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

// JoinPath returns the path of a field of the object at path.
func JoinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
