package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A kilobyte of schema can ask for years of work: definitions that each refer to the next one
// twice, twenty times over, or an object that contains itself in two fields. The work for one value
// is bounded when the schema is checked. The work for a value and everything in it is bounded
// before that value is validated.
const (
	maxFanOut      = 10_000  // schemas that one value is validated against
	maxEvaluations = 500_000 // schemas that a value and everything in it are validated against
)

// inPlaceSubschemas returns the schemas that a schema applies to the same value.
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

// childSubschemas returns the schemas that apply to the contents of a value: fields by name, and
// each for those that may apply to any item.
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

// fanOut bounds how many schemas a schema applies to one value, by following all
// references.
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

// count returns how many schemas s applies to one value, including itself. A cycle ends where it
// closes, as it does in the library.
func (p *fanOut) count(s *jsonschema.Schema) int {
	if s == nil {
		return 0
	}
	if n, ok := p.known[s]; ok {
		return n
	}
	p.known[s] = 1 // while it is being counted
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

// withinBudget counts down the schemas that v and everything in it are validated
// against, and reports whether remaining was enough. active are the schemas that are
// being applied to v.
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
