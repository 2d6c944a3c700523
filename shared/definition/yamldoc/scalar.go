package yamldoc

import (
	"math"

	"github.com/goccy/go-yaml/ast"
)

// Text reads a string. Numbers and booleans are not taken for one: 1.10 would
// arrive as 1.1.
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

// textHint says what to do with a value that is no text: quotes make one of a
// number, and of nothing else.
func textHint(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "want a text, not a list"
	case *ast.NullNode:
		return "want a text, and there is none"
	}
	if IsObject(n) {
		return "want a text, not an object"
	}
	return "want a text; put it in quotes"
}

// Enum reads a string that is one of a few.
func Enum[S ~string](r *Reader, into *S, values ...S) Field {
	var s string
	return r.Text(&s).WithSchema(Schema{"enum": values}).Then(r, func(n ast.Node, path string) {
		for _, c := range values {
			if S(s) == c {
				*into = c
				return
			}
		}
		r.Report(n, path, "enum", "want one of %v", values)
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

// Integer reads a whole number within bounds.
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

// Number reads a number within bounds.
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
