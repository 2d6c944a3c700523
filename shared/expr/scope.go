package expr

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Results are the results of earlier steps by label, then by entity id. A global step has its
// result under the empty id.
type Results map[string]map[string]json.RawMessage

// StepContext is what all jobs of one step have in common. Its JSON is decoded at most once. It is
// safe for concurrent use.
type StepContext struct {
	rawParameters json.RawMessage
	parameters    func() any
	results       Results
	lists         map[string]func() any // LABEL.results
	steps         map[string]any
	execution     any
	values        map[string]func() any // of the variables of the flow, by name
	fields        map[string]func() any // LABEL, for steps whose output is an object with result and other fields
}

// NewStepContext makes a context. steps has the status of each step by label.
func NewStepContext(parameters json.RawMessage, results Results, steps map[string]string, execution map[string]any) *StepContext {
	c := &StepContext{
		rawParameters: parameters,
		parameters:    sync.OnceValue(func() any { return adaptValue(decodeJSON(parameters, map[string]any{})) }),
		results:       results, lists: map[string]func() any{}, steps: map[string]any{}, execution: adaptValue(execution),
	}
	for label, byID := range results {
		c.lists[label] = decodedResults(byID)
	}
	for label, status := range steps {
		c.steps[label] = map[string]any{"status": status}
	}
	return c
}

// WithErrors returns the context with the failures of steps, by label: steps.LABEL.error.
func (c *StepContext) WithErrors(failures map[string]json.RawMessage) *StepContext {
	if len(failures) == 0 {
		return c
	}
	next := *c
	next.steps = maps.Clone(c.steps)
	for label, raw := range failures {
		step := map[string]any{"error": adaptValue(decodeJSON(raw, nil))}
		if known, ok := c.steps[label].(map[string]any); ok {
			maps.Copy(step, known)
		}
		next.steps[label] = step
	}
	return &next
}

// WithFields returns the context with the outputs of steps without jobs, by label: an object with
// result and perhaps other fields.
func (c *StepContext) WithFields(fields map[string]json.RawMessage) *StepContext {
	if len(fields) == 0 {
		return c
	}
	next := *c
	next.fields = make(map[string]func() any, len(fields))
	for label, raw := range fields {
		next.fields[label] = sync.OnceValue(func() any { return adaptValue(decodeJSON(raw, map[string]any{})) })
	}
	return &next
}

// WithValues returns the context with the values of variables of the flow, by name. vars is an
// object; any other variable has a value only where it exists. The variable context is the
// parameters, overlaid by vars.
func (c *StepContext) WithValues(values map[string]json.RawMessage) *StepContext {
	next := *c
	next.values = make(map[string]func() any, len(values)+1)
	for name, raw := range values {
		next.values[name] = sync.OnceValue(func() any { return adaptValue(decodeJSON(raw, nil)) })
	}
	next.values["context"] = sync.OnceValue(func() any { return adaptValue(overlay(c.rawParameters, values["vars"])) })
	return &next
}

// overlay returns the parameters, with variables replacing those of the same name.
func overlay(parameters, vars json.RawMessage) map[string]any {
	all, _ := decodeJSON(parameters, map[string]any{}).(map[string]any)
	if all == nil {
		all = map[string]any{}
	}
	own, _ := decodeJSON(vars, map[string]any{}).(map[string]any)
	maps.Copy(all, own)
	return all
}

// decodedResults returns the results of one step, decoded when they are first read.
func decodedResults(byID map[string]json.RawMessage) func() any {
	return sync.OnceValue(func() any {
		all := make(map[string]any, len(byID))
		for id, raw := range byID {
			if id != "" {
				all[id] = decodeJSON(raw, nil)
			}
		}
		return adaptValue(all)
	})
}

// WithResults returns the context with other results for some steps. It shares everything else,
// decoded or not.
func (c *StepContext) WithResults(changed Results) *StepContext {
	if len(changed) == 0 {
		return c
	}
	next := *c
	next.results, next.lists = maps.Clone(c.results), maps.Clone(c.lists)
	for label, byID := range changed {
		next.results[label], next.lists[label] = byID, decodedResults(byID)
	}
	return &next
}

// ValueOf returns a JSON value as one of [Scope.Variables].
func ValueOf(raw json.RawMessage) any { return adaptValue(decodeJSON(raw, nil)) }

// Entity is an entity as expressions see it: its attributes, its type and its id. Type and id hide
// attributes of these names. Queries also see its groups, unless an attribute has that name.
type Entity struct {
	Type, ID   string
	Attributes json.RawMessage
	Groups     []string
}

// Scope is what one evaluation sees. Entity is nil in a global step. Variables and LookupEntity are
// for expressions outside steps.
type Scope struct {
	Context      *StepContext
	Entity       *Entity
	Variables    map[string]any // further variables by name
	LookupEntity func(entityType, id string) (attributes json.RawMessage, ok bool)
	Cost         *uint64 // if not nil, the cost of each evaluation is added to it
}

// activation is a scope during one evaluation. It decodes what the expression reads, on
// the first read.
type activation struct {
	Scope
	refs    *References
	entity  any
	labels  map[string]any
	lookups map[string]ref.Val // entities read from the inventory, by type/id
}

func (s Scope) activation(refs *References) *activation {
	if s.Context == nil {
		s.Context = emptyContext
	}
	return &activation{Scope: s, refs: refs}
}

var emptyContext = NewStepContext(nil, nil, nil, nil)

// Parent returns nil. The interpreter's interface requires the method.
func (a *activation) Parent() interpreter.Activation { return nil }

// ResolveName returns the value of a variable.
func (a *activation) ResolveName(name string) (any, bool) {
	if value, ok := a.Variables[name]; ok && !slices.Contains(a.refs.Labels, name) {
		return value, true
	}
	if (slices.Contains(flowNames, name) || slices.Contains(a.refs.Names, name)) && !slices.Contains(a.refs.Labels, name) {
		if value, ok := a.Context.values[name]; ok {
			return value(), true
		}
		if name == "vars" {
			return map[string]any{}, true
		}
		if name == "context" {
			return a.Context.parameters(), true
		}
		return nil, false
	}
	switch name {
	case "parameters":
		return a.Context.parameters(), true
	case "steps":
		return a.Context.steps, true
	case "execution":
		return a.Context.execution, true
	case "entity":
		if a.entity == nil {
			a.entity = adaptValue(a.Entity.attributesWithIdentity())
		}
		return a.entity, true
	}
	if fields, ok := a.Context.fields[name]; ok {
		return fields(), true
	}
	if known, ok := a.labels[name]; ok {
		return known, true
	}
	if a.labels == nil {
		a.labels = map[string]any{}
	}
	a.labels[name] = a.stepResults(name)
	return a.labels[name], true
}

// stepResults returns a step's results as far as the expression reads them. If there is no result,
// the map lacks the key, so that reading it is an error that names the key.
func (a *activation) stepResults(name string) map[string]any {
	label := map[string]any{}
	if slices.Contains(a.refs.OwnResults, name) {
		byID := a.Context.results[name]
		raw, ok := byID[""]
		if !ok && a.Entity != nil {
			raw, ok = byID[a.Entity.ID]
		}
		if ok {
			label["result"] = adaptValue(decodeJSON(raw, nil))
		}
	}
	if slices.Contains(a.refs.AllResults, name) {
		label["results"] = map[string]any{}
		if list := a.Context.lists[name]; list != nil {
			label["results"] = list()
		}
	}
	return label
}

// attributesWithIdentity returns the entity's attributes with its type and id. They are empty for a
// nil entity.
func (e *Entity) attributesWithIdentity() map[string]any {
	if e == nil {
		return map[string]any{}
	}
	v, _ := decodeJSON(e.Attributes, nil).(map[string]any)
	if v == nil {
		v = map[string]any{}
	}
	v["id"], v["type"] = e.ID, e.Type // they name what is locked, whatever the attributes say
	if _, taken := v["groups"]; !taken && e.Groups != nil {
		v["groups"] = e.Groups
	}
	return v
}
