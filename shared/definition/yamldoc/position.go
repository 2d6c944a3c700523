package yamldoc

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// AddPath makes a node known under a path besides its own.
func (r *Reader) AddPath(path string, n ast.Node) { r.nodes[path] = n }

// ReportAtText reports an issue at a line and column within a source that stands in
// the value at a path: at the very place, if the document's text holds that line
// of the source as it is, without escapes and not folded; else at the value.
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
		at++ // it begins in the line after its mark
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

// ReportAtNode reports an issue of a path at the value that stands at another one.
func (r *Reader) ReportAtNode(at, path, code, format string, args ...any) {
	r.Report(r.nodes[at], path, code, format, args...)
}
