package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A kilobyte of schema can ask for years: definitions that refer to the next one
// twice, twenty times over, or an object whose field is the schema itself by two
// ways. What a schema makes of one value is bounded when it is checked, and what
// it makes of a whole value before it validates that.
const (
	maxFanOut      = 10_000  // schemas that one value is held against
	maxEvaluations = 500_000 // schemas that a value and all in it are held against
	maxDepth       = 100     // of a value
	maxDigits      = 400     // of a number, and its exponent
)

// CheckValue looks for what no validation can work with, nor anything behind it: a
// number that is no float64, whose exact value may be larger than any memory, and
// what nests too deep. v is as json.Decoder gives it with UseNumber. It is nil if
// there is nothing of the kind.
func CheckValue(v any, path string) *workflow.Issue { return checkValue(v, path, 0) }

func checkValue(v any, path string, depth int) *workflow.Issue {
	if depth > maxDepth {
		return &workflow.Issue{Path: path, Code: "depth", Message: fmt.Sprintf("nests deeper than %d", maxDepth)}
	}
	switch v := v.(type) {
	case json.Number:
		if !numberInRange(string(v)) {
			return &workflow.Issue{Path: path, Code: "number", Message: "the number is out of range"}
		}
	case []any:
		for i, item := range v {
			if bad := checkValue(item, path+"["+strconv.Itoa(i)+"]", depth+1); bad != nil {
				return bad
			}
		}
	case map[string]any:
		for name, item := range v {
			if bad := checkValue(item, yamldoc.JoinPath(path, name), depth+1); bad != nil {
				return bad
			}
		}
	}
	return nil
}

func numberInRange(number string) bool {
	if len(number) > maxDigits {
		return false
	}
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		if n, err := strconv.Atoi(strings.TrimPrefix(number[e+1:], "+")); err != nil || n < -maxDigits || n > maxDigits {
			return false
		}
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// inPlaceSubschemas are the schemas that a schema holds the same value against.
func inPlaceSubschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}
	all = append(all, s.AllOf...)
	all = append(all, s.AnyOf...)
	all = append(all, s.OneOf...)
	for _, d := range s.DependentSchemas {
		all = append(all, d)
	}
	for _, d := range s.Dependencies {
		if d, ok := d.(*jsonschema.Schema); ok {
			all = append(all, d)
		}
	}
	return all
}

// childSubschemas are the schemas for what a value holds; ones for which it is not known
// which item they are for are for all of them.
func childSubschemas(s *jsonschema.Schema) (fields map[string]*jsonschema.Schema, each []*jsonschema.Schema) {
	each = []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	for _, p := range s.PatternProperties {
		each = append(each, p)
	}
	each = append(each, s.PrefixItems...)
	for _, other := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch other := other.(type) {
		case *jsonschema.Schema:
			each = append(each, other)
		case []*jsonschema.Schema:
			each = append(each, other...)
		}
	}
	return s.Properties, each
}

// fanOut checks how many schemas each schema holds one value against, by
// multiplying out what refers to what.
type fanOut struct {
	known   map[*jsonschema.Schema]int
	visited map[*jsonschema.Schema]bool
}

func (p *fanOut) check(s *jsonschema.Schema) error {
	if s == nil || p.visited[s] {
		return nil
	}
	p.visited[s] = true
	if s.RecursiveRef != nil || s.DynamicRef != nil && s.DynamicRef.Anchor != "" {
		return errors.New("$dynamicRef and $recursiveRef are not supported; use $ref")
	}
	if p.count(s) > maxFanOut {
		return fmt.Errorf("%s refers to more than %d schemas for one value, each counted as often as it is referred to", schemaLocation(s), maxFanOut)
	}
	fields, next := childSubschemas(s)
	for _, f := range fields {
		next = append(next, f)
	}
	if s.DynamicRef != nil {
		next = append(next, s.DynamicRef.Ref)
	}
	for _, n := range append(next, inPlaceSubschemas(s)...) {
		if err := p.check(n); err != nil {
			return err
		}
	}
	return nil
}

// count is how many schemas one holds a value against, itself included. A circle
// ends where it closes, as it does for the library.
func (p *fanOut) count(s *jsonschema.Schema) int {
	if s == nil {
		return 0
	}
	if n, ok := p.known[s]; ok {
		return n
	}
	p.known[s] = 1 // on the way
	total := 1
	for _, n := range inPlaceSubschemas(s) {
		total = min(total+p.count(n), maxFanOut+1)
	}
	if s.DynamicRef != nil {
		total = min(total+p.count(s.DynamicRef.Ref), maxFanOut+1)
	}
	p.known[s] = total
	return total
}

func schemaLocation(s *jsonschema.Schema) string {
	_, at, _ := strings.Cut(s.Location, "#")
	if at == "" {
		return "the schema"
	}
	return at
}

// withinBudget counts the schemas that a value and all in it are held against, and is
// false beyond what is left.
func withinBudget(s *jsonschema.Schema, v any, remaining *int, active map[*jsonschema.Schema]bool) bool {
	if s == nil || active[s] {
		return true
	}
	if *remaining--; *remaining < 0 {
		return false
	}
	active[s] = true
	defer delete(active, s)
	if s.DynamicRef != nil && !withinBudget(s.DynamicRef.Ref, v, remaining, active) {
		return false
	}
	for _, n := range inPlaceSubschemas(s) {
		if !withinBudget(n, v, remaining, active) {
			return false
		}
	}
	fields, each := childSubschemas(s)
	evaluate := func(against *jsonschema.Schema, v any) bool {
		return against == nil || withinBudget(against, v, remaining, map[*jsonschema.Schema]bool{})
	}
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			if !evaluate(fields[name], item) {
				return false
			}
			for _, n := range each {
				if !evaluate(n, item) {
					return false
				}
			}
		}
	case []any:
		for _, item := range v {
			for _, n := range each {
				if !evaluate(n, item) {
					return false
				}
			}
		}
	}
	return true
}
