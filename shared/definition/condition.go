package definition

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
)

var (
	variableNameRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	contextPathRE  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}(\.([A-Za-z_][A-Za-z0-9_]{0,63}|0|[1-9][0-9]{0,5})){0,14}$`)
)

// operator is an operator of a written condition. Its expression, in CEL, has %[1]s for the value
// at the path and %[2]s for the given value as JSON.
type operator struct {
	expr     string
	negative bool // it is true if there is no value at the path
	unary    bool // it takes no value
}

// operators are the operators of written conditions, by name.
var operators = map[string]operator{
	"eq":         {expr: `%[1]s == %[2]s`},
	"neq":        {expr: `%[1]s == %[2]s`, negative: true},
	"gt":         {expr: `%[1]s > %[2]s`},
	"gte":        {expr: `%[1]s >= %[2]s`},
	"lt":         {expr: `%[1]s < %[2]s`},
	"lte":        {expr: `%[1]s <= %[2]s`},
	"in":         {expr: `%[1]s in %[2]s`},
	"nin":        {expr: `%[1]s in %[2]s`, negative: true},
	"contains":   {expr: `(type(%[1]s) == string ? %[1]s.contains(dyn(%[2]s)) : %[2]s in %[1]s)`},
	"startsWith": {expr: `%[1]s.startsWith(%[2]s)`},
	"endsWith":   {expr: `%[1]s.endsWith(%[2]s)`},
	"matches":    {expr: `%[1]s.matches(%[2]s)`},
	"exists":     {unary: true},
	"notExists":  {unary: true, negative: true},
}

var operatorNames = []string{
	"eq", "neq", "gt", "gte", "lt", "lte", "in", "nin", "contains", "startsWith", "endsWith", "exists", "notExists", "matches",
}

// when reads a condition: an expression, or {path, op, value}, which it converts to one.
func (r *reader) when(into *string) yamldoc.Field {
	var path, op string
	var value json.RawMessage
	written := r.Object(yamldoc.Fields{
		"path":  r.contextPath(&path).Required("name what to compare"),
		"op":    yamldoc.Enum(r.Reader, &op, operatorNames...).Required("name the operator"),
		"value": r.Raw(&value, false),
	}).Finally(func(n ast.Node, at string) {
		o, known := operators[op]
		switch has := r.Has(at + ".value"); {
		case !known || path == "":
			return
		case o.unary && has:
			r.ReportAt(at+".value", "conflict", "%s takes no value", op)
		case !o.unary && !has:
			r.Report(n, at+".value", "required", "%s needs a value", op)
		case slices.Contains([]string{"in", "nin"}, op) && !strings.HasPrefix(string(value), "["):
			r.ReportAt(at+".value", "type", "%s needs a list", op)
		default:
			*into = conditionExpr(path, o, value)
		}
	})
	return yamldoc.ScalarOr(r.expr(into), written)
}

// conditionExpr returns the expression for a written condition. If there is no value at the path, a
// negative operator is true, and any other is not. The same holds for a value of another type,
// except that eq and neq compare any two.
func conditionExpr(path string, o operator, value json.RawMessage) string {
	test := existsExpr(path)
	if !o.unary {
		test += " && " + fmt.Sprintf(o.expr, contextExpr(path), value)
	}
	if o.negative {
		return "!(" + test + ")"
	}
	return test
}

// contextExpr returns the expression that reads a path of the context.
func contextExpr(path string) string {
	at := "context"
	for _, name := range strings.Split(path, ".") {
		at += "[" + indexOf(name) + "]"
	}
	return at
}

// existsExpr returns the expression that is true if there is a value at the path.
func existsExpr(path string) string {
	var tests []string
	at := "context"
	for i, name := range strings.Split(path, ".") {
		index := indexOf(name)
		switch {
		case isPosition(name):
			tests = append(tests, fmt.Sprintf("type(%s) == list && size(%s) > %s", at, at, index))
		case i == 0:
			tests = append(tests, fmt.Sprintf("%s in %s", index, at))
		default:
			tests = append(tests, fmt.Sprintf("type(%s) == map && %s in %s", at, index, at))
		}
		at += "[" + index + "]"
	}
	return strings.Join(tests, " && ")
}

// indexOf returns a part of a path as it stands in brackets: a position, or a name in quotes.
func indexOf(name string) string {
	if isPosition(name) {
		return name
	}
	return `"` + name + `"`
}

func isPosition(name string) bool { return name[0] >= '0' && name[0] <= '9' }
