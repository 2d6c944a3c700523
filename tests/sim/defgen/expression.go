package defgen

import (
	"fmt"
	"strings"
)

// Expression is an expression of a definition: its text, and its meaning written once more in Go. A
// test that compares both does not call the code that evaluates the text.
type Expression struct {
	Text string
	// Value returns the value of the expression. ok is false if it has none because it reads
	// something that is missing.
	Value func(Values) (value any, ok bool)
	// OfEntity means that it reads the entity, or a result for it.
	OfEntity bool
	// CrossEntity are the labels of the steps whose results for other entities it reads.
	CrossEntity []string
}

// Values are what an expression can read. Numbers are float64, as in decoded JSON.
type Values struct {
	Entity     map[string]any // its attributes, id and type; nil in a global step
	Parameters map[string]any
	// Result returns the result of an earlier step: for the entity, or of a global step. ok is
	// false if there is none. Results returns the results for all entities, by ID.
	Result  func(label string) (result any, ok bool)
	Results func(label string) map[string]any
}

// True reports whether an expression is true. Without a value it is not.
func (e *Expression) True(v Values) (is, ok bool) {
	value, ok := e.Value(v)
	is, _ = value.(bool)
	return ok && is, ok
}

// attribute reads an attribute of the entity.
func attribute(name string) *Expression {
	return &Expression{Text: "entity." + name, OfEntity: true, Value: func(v Values) (any, bool) {
		value, ok := v.Entity[name]
		return value, ok
	}}
}

// attributeOr reads an attribute of the entity, and falls back to another text.
func attributeOr(name, otherwise string) *Expression {
	return &Expression{Text: fmt.Sprintf("has(entity.%s) ? entity.%s : %q", name, name, otherwise), OfEntity: true, Value: func(v Values) (any, bool) {
		if value, ok := v.Entity[name]; ok {
			return value, true
		}
		return otherwise, true
	}}
}

// hasAttribute is true if the entity has an attribute.
func hasAttribute(name string) *Expression {
	return &Expression{Text: "has(entity." + name + ")", OfEntity: true, Value: func(v Values) (any, bool) {
		_, ok := v.Entity[name]
		return ok, true
	}}
}

// parameter reads a parameter of the definition.
func parameter(name string) *Expression {
	return &Expression{Text: "parameters." + name, Value: func(v Values) (any, bool) {
		value, ok := v.Parameters[name]
		return value, ok
	}}
}

// resultField reads a field of the result of an earlier step. ofEntity means that the step has one
// result for each entity.
func resultField(label, field string, ofEntity bool) *Expression {
	return &Expression{Text: label + ".result." + field, OfEntity: ofEntity, Value: func(v Values) (any, bool) {
		result, ok := v.Result(label)
		if !ok {
			return nil, false
		}
		fields, _ := result.(map[string]any)
		value, ok := fields[field]
		return value, ok
	}}
}

// allResults reads the results of an earlier step, by entity.
func allResults(label string) *Expression {
	return &Expression{Text: label + ".results", CrossEntity: []string{label}, Value: func(v Values) (any, bool) {
		return v.Results(label), true
	}}
}

// compare compares an expression with a constant: ==, !=, <, >.
func compare(e *Expression, operator string, with any) *Expression {
	text := fmt.Sprint(with)
	if s, ok := with.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	next := *e
	next.Text = e.Text + " " + operator + " " + text
	next.Value = func(v Values) (any, bool) {
		value, ok := e.Value(v)
		if !ok {
			return nil, false
		}
		order, comparable := compareValues(value, with)
		switch operator {
		case "==":
			return comparable && order == 0, true
		case "!=":
			return !comparable || order != 0, true
		case "<":
			return order < 0, comparable
		case ">":
			return order > 0, comparable
		}
		panic("defgen: unknown operator " + operator)
	}
	return &next
}

// compareValues compares two values of the same type. Whole numbers of a definition are ints.
func compareValues(a, b any) (order int, comparable bool) {
	if n, ok := b.(int); ok {
		b = float64(n)
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok
	case float64:
		b, ok := b.(float64)
		switch {
		case !ok:
			return 0, false
		case a < b:
			return -1, true
		case a > b:
			return 1, true
		}
		return 0, true
	case bool:
		b, ok := b.(bool)
		if a == b {
			return 0, ok
		}
		return 1, ok
	}
	return 0, false
}

// Parameter is a parameter that a step passes on.
type Parameter struct {
	Name  string
	Text  string // with ${...}
	Reads *Expression
	value func(Values) (any, bool)
}

// Value returns the value that is passed on; ok is false if there is none.
func (p *Parameter) Value(v Values) (value any, ok bool) { return p.value(v) }

// whole passes on the value of an expression, with its type.
func whole(name string, e *Expression) Parameter {
	return Parameter{Name: name, Text: "${" + e.Text + "}", Reads: e, value: e.Value}
}

// within passes on a text that contains the value of an expression, which is a text.
func within(name, before string, e *Expression, after string) Parameter {
	return Parameter{Name: name, Text: before + "${" + e.Text + "}" + after, Reads: e, value: func(v Values) (any, bool) {
		value, ok := e.Value(v)
		return before + fmt.Sprint(value) + after, ok
	}}
}

// quote writes a text as a YAML scalar.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// formatParameters writes the parameters as a field of a step.
func formatParameters(all []Parameter) string {
	fields := make([]string, len(all))
	for i := range all {
		fields[i] = all[i].Name + ": " + quote(all[i].Text)
	}
	return "parameters: {" + strings.Join(fields, ", ") + "}"
}
