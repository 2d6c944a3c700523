// Package eventpattern decides whether an event matches a pattern of EventBridge, limited to the
// part of the language that docs/triggers.md lists. Anything else is an error when the pattern is
// read, so that no event is silently missed.
package eventpattern

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Limits of a pattern.
const (
	MaxBytes  = 2048
	maxLevels = 16
)

// Issue is a problem at a place of a pattern.
type Issue struct {
	Path    string // relative to the pattern, such as .detail.state[0]
	Code    string // pattern; or unsupported if EventBridge knows it and this package does not
	Message string
}

// Pattern is a pattern that has been read.
type Pattern struct{ root object }

// object matches an object: every field has to match, and one of each list of alternatives.
type object struct {
	fields []field
	either [][]object // one of each list, as $or has them
}

type field struct {
	name   string
	nested *object  // the value is an object, or a list of objects
	values []tester // or it is one of these, or a list that has one
}

// tester tests a value that is neither an object nor a list. present is false if there is no value.
type tester func(v any, present bool) bool

// Parse reads a pattern.
func Parse(raw json.RawMessage) (*Pattern, []Issue) {
	if len(raw) > MaxBytes {
		return nil, []Issue{{Code: "limit", Message: fmt.Sprintf("the pattern has %d bytes, and may have %d", len(raw), MaxBytes)}}
	}
	v, err := Decode(raw)
	if err != nil {
		return nil, []Issue{{Code: "pattern", Message: "this is not JSON"}}
	}
	var p parser
	root := p.object(v, "", 0)
	if len(p.issues) == 0 && len(root.fields)+len(root.either) == 0 {
		p.report("", "pattern", "an empty pattern matches nothing: name a field, such as source")
	}
	if len(p.issues) > 0 {
		return nil, p.issues
	}
	return &Pattern{*root}, nil
}

// Decode decodes an event. Numbers keep their notation.
func Decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// Matches reports whether an event that [Decode] has decoded matches.
func (p *Pattern) Matches(event any) bool { return p.root.matches(event) }

// matches matches an object, or a list of objects, one of which must match as a whole.
func (o *object) matches(v any) bool {
	if list, ok := v.([]any); ok && len(list) > 0 {
		return slices.ContainsFunc(list, o.matches)
	}
	m, _ := v.(map[string]any) // nil, without fields, for anything else
	for _, f := range o.fields {
		v, present := m[f.name]
		if f.nested != nil {
			if !f.nested.matches(v) {
				return false
			}
		} else if !f.tests(v, present) {
			return false
		}
	}
	return !slices.ContainsFunc(o.either, func(list []object) bool {
		return !slices.ContainsFunc(list, func(o object) bool { return o.matches(v) })
	})
}

func (f *field) tests(v any, present bool) bool {
	switch list := v.(type) {
	case []any:
		if len(list) > 0 {
			return slices.ContainsFunc(list, func(v any) bool { return f.tests(v, true) })
		}
		v, present = nil, false // as EventBridge has it: an empty list has no values
	case map[string]any:
		v, present = nil, false // nor has an object, apart from its fields
	}
	return slices.ContainsFunc(f.values, func(test tester) bool { return test(v, present) })
}

type parser struct{ issues []Issue }

func (p *parser) report(path, code, format string, args ...any) {
	p.issues = append(p.issues, Issue{path, code, fmt.Sprintf(format, args...)})
}

func (p *parser) object(v any, path string, level int) *object {
	o := &object{}
	m, ok := v.(map[string]any)
	switch {
	case !ok:
		p.report(path, "pattern", "want an object of fields")
		return o
	case level > maxLevels:
		p.report(path, "limit", "a pattern has at most %d levels", maxLevels)
		return o
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := path + "." + name
		switch v := m[name].(type) {
		case map[string]any:
			if len(v) == 0 {
				p.report(at, "pattern", "want a list of values, or an object of fields")
			}
			o.fields = append(o.fields, field{name: name, nested: p.object(v, at, level+1)})
		case []any:
			if len(v) == 0 {
				p.report(at, "pattern", "an empty list matches nothing")
			}
			if name == "$or" {
				o.either = append(o.either, p.alternatives(v, at, level))
				continue
			}
			f := field{name: name}
			for i, one := range v {
				f.values = append(f.values, p.value(one, at+"["+strconv.Itoa(i)+"]"))
			}
			o.fields = append(o.fields, f)
		default:
			p.report(at, "pattern", "want a list of values, such as [%s], or an object of fields", sample(v))
		}
	}
	return o
}

func sample(v any) string {
	raw, _ := workflow.EncodeJSON(v) // it was decoded from JSON
	return string(raw)
}

func (p *parser) alternatives(list []any, path string, level int) (all []object) {
	if len(list) < 2 {
		p.report(path, "pattern", "want two patterns or more")
	}
	for i, one := range list {
		all = append(all, *p.object(one, path+"["+strconv.Itoa(i)+"]", level+1))
	}
	return all
}

// value reads one of the values that a field may have.
func (p *parser) value(v any, path string) tester {
	m, ok := v.(map[string]any)
	if !ok {
		if _, list := v.([]any); list {
			p.report(path, "pattern", "want a text, a number, true, false, null or a comparison")
		}
		return func(got any, present bool) bool { return present && same(got, v) }
	}
	if len(m) != 1 {
		p.report(path, "pattern", "want one comparison, such as {prefix: a}")
		return nil
	}
	for name, operand := range m {
		return p.comparison(name, operand, path+"."+name)
	}
	return nil
}

// Comparisons lists the supported ones, besides $or.
var Comparisons = []string{"prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "exists"}

// unsupported are further comparisons of EventBridge.
var unsupported = []string{"wildcard", "cidr"}

func (p *parser) comparison(name string, operand any, path string) tester {
	switch name {
	case "exists":
		want, ok := operand.(bool)
		if !ok {
			p.report(path, "pattern", "want true or false")
		}
		return func(_ any, present bool) bool { return present == want }
	case "numeric":
		return p.numeric(operand, path)
	case "anything-but":
		return p.anythingBut(operand, path)
	case "prefix", "suffix", "equals-ignore-case":
		return p.text(name, operand, path)
	}
	if slices.Contains(unsupported, name) {
		p.report(path, "unsupported", "%s is not known here: want one of %s", name, strings.Join(Comparisons, ", "))
	} else {
		p.report(path, "pattern", "there is no comparison %q: want one of %s", name, strings.Join(Comparisons, ", "))
	}
	return nil
}

// text reads a comparison of texts.
func (p *parser) text(name string, operand any, path string) tester {
	fold := name == "equals-ignore-case"
	if m, ok := operand.(map[string]any); ok && !fold && len(m) == 1 && m["equals-ignore-case"] != nil {
		operand, fold = m["equals-ignore-case"], true
		path += ".equals-ignore-case"
	}
	want, ok := operand.(string)
	if !ok {
		p.report(path, "pattern", "want a text")
		return nil
	}
	equal := func(a string) bool { return a == want }
	if fold {
		equal = func(a string) bool { return strings.EqualFold(a, want) }
	}
	return func(v any, _ bool) bool {
		got, ok := v.(string)
		if !ok {
			return false
		}
		// A text and the same text in other case may differ in bytes, but not in runes.
		runes, n := []rune(got), len([]rune(want))
		switch {
		case name == "equals-ignore-case":
			return equal(got)
		case n > len(runes):
			return false
		case name == "prefix":
			return equal(string(runes[:n]))
		}
		return equal(string(runes[len(runes)-n:]))
	}
}

// anythingBut reads the opposite of one or more values, or of a comparison of texts. A missing
// field has no value, and does not match.
func (p *parser) anythingBut(operand any, path string) tester {
	list, ok := operand.([]any)
	if !ok {
		list = []any{operand}
	}
	if len(list) == 0 {
		p.report(path, "pattern", "an empty list excludes nothing")
	}
	var excluded []tester
	for i, one := range list {
		at := path
		if ok {
			at += "[" + strconv.Itoa(i) + "]"
		}
		m, isComparison := one.(map[string]any)
		if !isComparison {
			excluded = append(excluded, p.value(one, at))
			continue
		}
		if len(m) != 1 || ok {
			p.report(at, "pattern", "want a value, a list of values, or one comparison of texts")
			continue
		}
		for name, operand := range m {
			if slices.Contains([]string{"prefix", "suffix", "equals-ignore-case"}, name) {
				excluded = append(excluded, p.texts(name, operand, at+"."+name)...)
			} else {
				p.comparison(name, operand, at+"."+name) // says what is wrong with it
				p.report(at+"."+name, "unsupported", "anything-but excludes values, prefix, suffix and equals-ignore-case")
			}
		}
	}
	return func(v any, present bool) bool {
		return present && !slices.ContainsFunc(excluded, func(test tester) bool { return test(v, true) })
	}
}

// texts reads a comparison with one text, or with each of a list.
func (p *parser) texts(name string, operand any, path string) (all []tester) {
	list, ok := operand.([]any)
	if !ok {
		return []tester{p.text(name, operand, path)}
	}
	for i, one := range list {
		all = append(all, p.text(name, one, path+"["+strconv.Itoa(i)+"]"))
	}
	return all
}

// numeric reads one comparison with a number, or two: an interval.
func (p *parser) numeric(operand any, path string) tester {
	list, _ := operand.([]any)
	if len(list) != 2 && len(list) != 4 {
		p.report(path, "pattern", `want a comparison and a number, or two of them, such as [">", 0, "<=", 5]`)
		return nil
	}
	var all []func(*big.Float) bool
	for i := 0; i < len(list); i += 2 {
		operator, _ := list[i].(string)
		want := number(list[i+1])
		if want == nil || !slices.Contains([]string{"=", "<", "<=", ">", ">="}, operator) {
			p.report(path+"["+strconv.Itoa(i)+"]", "pattern", "want =, <, <=, > or >=, and a number after it")
			continue
		}
		all = append(all, func(got *big.Float) bool {
			c := got.Cmp(want)
			return c == 0 && strings.Contains(operator, "=") || c < 0 && strings.HasPrefix(operator, "<") || c > 0 && strings.HasPrefix(operator, ">")
		})
	}
	return func(v any, _ bool) bool {
		got := number(v)
		return got != nil && !slices.ContainsFunc(all, func(test func(*big.Float) bool) bool { return !test(got) })
	}
}

// maxDigits bounds the text of a number. A sender may write one as long as an event, which would
// make each comparison expensive.
const maxDigits = 64

// number returns a value as a number; nil if it is none, or too long. 128 bits distinguish all
// numbers that a JSON number of usual length can hold.
func number(v any) *big.Float {
	n, ok := v.(json.Number)
	if !ok || len(n) > maxDigits {
		return nil
	}
	f, _, err := big.ParseFloat(n.String(), 10, 128, big.ToNearestEven)
	if err != nil {
		return nil
	}
	return f
}

// same compares values that are neither objects nor lists. Numbers are the same whatever their
// notation.
func same(a, b any) bool {
	if x, y := number(a), number(b); x != nil && y != nil {
		return x.Cmp(y) == 0
	}
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
