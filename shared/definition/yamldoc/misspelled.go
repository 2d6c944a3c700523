package yamldoc

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// readMisspelled reads a value under the name that its misspelled key was meant to be, so that one
// typing error is one issue and later checks find the field.
func (r *Reader) readMisspelled(n ast.Node, field Field, path string) {
	r.IndexAs(n, path)
	field.read(n, path)
}

// IndexAs records a value and everything in it under another path.
func (r *Reader) IndexAs(n ast.Node, path string) {
	r.nodes[path] = n
	if s, ok := n.(*ast.SequenceNode); ok {
		for i, v := range s.Values {
			r.IndexAs(v, path+"["+strconv.Itoa(i)+"]")
		}
	}
	for _, v := range pairs(n) {
		r.IndexAs(v.Value, JoinPath(path, KeyOf(v)))
	}
}
