package yamldoc

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Raw reads any value as JSON. With object it must be an object.
func (r *Reader) Raw(into *json.RawMessage, object bool) Field {
	schema := Schema{}
	if object {
		schema["type"] = "object"
	}
	return Value(schema, func(n ast.Node, path string) {
		if object {
			if _, ok := r.Mapping(n, path); !ok {
				return
			}
		}
		before := len(r.issues)
		v := r.jsonValue(n, path)
		if len(r.issues) > before {
			return
		}
		out, err := workflow.EncodeJSON(v)
		if err != nil {
			r.Report(n, path, "value", "this has no JSON form: %v", err)
			return
		}
		*into = out
	})
}

// SortKeys sorts the keys of every object. Numbers keep their notation.
func SortKeys(raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return workflow.EncodeJSON(v)
}

// jsonValue converts a node to a JSON value.
func (r *Reader) jsonValue(n ast.Node, path string) any {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		all := map[string]any{}
		for _, v := range pairs(n) {
			all[KeyOf(v)] = r.jsonValue(v.Value, JoinPath(path, KeyOf(v)))
		}
		return all
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, v := range n.Values {
			list[i] = r.jsonValue(v, path+"["+strconv.Itoa(i)+"]")
		}
		return list
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode:
		return nil
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode:
		if t := n.Token; t.Type == token.OctetIntegerType && !strings.Contains(t.Value, "o") {
			r.Report(n, path, "value", "%s is octal to some readers and decimal to others; write 0o for octal, or put it in quotes", t.Value)
		}
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.StringNode:
		return r.stringOrNumber(n, path)
	}
	r.Report(n, path, "value", "this has no JSON form")
	return nil
}

var jsonNumberRE = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$`)

// stringOrNumber returns a string, or a JSON number that the parser reads as a string: one with an
// exponent, or a whole number beyond 64 bits, which keeps all its digits.
func (r *Reader) stringOrNumber(n *ast.StringNode, path string) any {
	if n.Token.Type != token.StringType || !jsonNumberRE.MatchString(n.Value) {
		return n.Value
	}
	if !strings.ContainsAny(n.Value, ".eE") {
		return json.Number(n.Value)
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		r.Report(n, path, "value", "the number is too large")
	}
	return f
}

// NumberOf returns the value of a node that is a number.
func NumberOf(n ast.Node) (float64, bool) {
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
	case *ast.StringNode:
		if n.Token.Type == token.StringType && jsonNumberRE.MatchString(n.Value) {
			v, err := strconv.ParseFloat(n.Value, 64)
			return v, err == nil && !math.IsInf(v, 0)
		}
	}
	return 0, false
}
