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
)

// Raw reads any value as JSON. object asks for an object.
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
		out, err := Marshal(v)
		if err != nil {
			r.Report(n, path, "value", "this has no JSON form: %v", err)
			return
		}
		*into = out
	})
}

// Marshal writes JSON with < and > as they are.
func Marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// SortKeys is JSON with the keys of every object in order, and its numbers as they
// are.
func SortKeys(raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return Marshal(v)
}

// jsonValue is what a node is in JSON.
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
			r.Report(n, path, "value", "some read %s as octal and some as decimal; write 0o for octal, or quotes for text", t.Value)
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

// stringOrNumber is a string, or one of the numbers that JSON has and the parser takes
// for text: those with an exponent, and whole numbers beyond 64 bits, of which
// no digit is lost.
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

// NumberOf is the number that a node is, if it is one.
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
