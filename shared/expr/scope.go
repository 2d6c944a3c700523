package expr

import (
	"encoding/json"
	"slices"
	"sync"

	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Results are what earlier steps returned: by label, then by entity id; the
// result of a global step is under the empty id.
type Results map[string]map[string]json.RawMessage

// StepContext is what all jobs of one step see alike. Its JSON is decoded at most
// once. It is safe for concurrent use.
type StepContext struct {
	parameters func() any
	results    Results
	lists      map[string]func() any // LABEL.results
	steps      map[string]any
	execution  any
}

// NewStepContext makes a context. steps are the statuses of steps by label.
func NewStepContext(parameters json.RawMessage, results Results, steps map[string]string, execution map[string]any) *StepContext {
	c := &StepContext{
		parameters: sync.OnceValue(func() any { return adapted(decodeJSON(parameters, map[string]any{})) }),
		results:    results, lists: map[string]func() any{}, steps: map[string]any{}, execution: adapted(execution),
	}
	for label, byID := range results {
		c.lists[label] = sync.OnceValue(func() any {
			all := make(map[string]any, len(byID))
			for id, raw := range byID {
				if id != "" {
					all[id] = decodeJSON(raw, nil)
				}
			}
			return adapted(all)
		})
	}
	for label, status := range steps {
		c.steps[label] = map[string]any{"status": status}
	}
	return c
}

// adapted is a value that many evaluations read, adapted once: the library keeps
// the measured size of large values with them.
func adapted(v any) any { return adaptValue(v) }

// Entity is an entity as expressions see it: its attributes, and its type and id,
// which hide attributes of these names; and, in queries, its groups, where no
// attribute has that name.
type Entity struct {
	Type, ID   string
	Attributes json.RawMessage
	Groups     []string
}

// Scope is what one evaluation sees. Entity is nil in a global step. Given and
// Inventory are for the languages of expressions that stand in no step.
type Scope struct {
	Context      *StepContext
	Entity       *Entity
	Variables    map[string]any // more names and their values
	LookupEntity func(entityType, id string) (attributes json.RawMessage, ok bool)
}

// activation is a scope during one evaluation: it decodes what the expression
// asks for, when it does, and once.
type activation struct {
	Scope
	refs    *References
	entity  any
	labels  map[string]any
	lookups map[string]ref.Val // entities of the inventory, by type/id
}

func (s Scope) activation(refs *References) *activation {
	if s.Context == nil {
		s.Context = emptyContext
	}
	return &activation{Scope: s, refs: refs}
}

var emptyContext = NewStepContext(nil, nil, nil, nil)

// Parent makes this an activation of the interpreter; there is none.
func (a *activation) Parent() interpreter.Activation { return nil }

// ResolveName is the value of a variable.
func (a *activation) ResolveName(name string) (any, bool) {
	if value, ok := a.Variables[name]; ok {
		return value, true
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
			a.entity = adapted(a.Entity.attributesWithIdentity())
		}
		return a.entity, true
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

// stepResults is a step's results as far as the expression reads them. A step that has
// no result here is a map without that key, so that reading it is an error that
// names it.
func (a *activation) stepResults(name string) map[string]any {
	label := map[string]any{}
	if slices.Contains(a.refs.OwnResults, name) {
		byID := a.Context.results[name]
		raw, ok := byID[""]
		if !ok && a.Entity != nil {
			raw, ok = byID[a.Entity.ID]
		}
		if ok {
			label["result"] = adapted(decodeJSON(raw, nil))
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

// attributesWithIdentity is the entity's attributes with its type and id; of no entity, nothing.
func (e *Entity) attributesWithIdentity() map[string]any {
	if e == nil {
		return map[string]any{}
	}
	v, _ := decodeJSON(e.Attributes, nil).(map[string]any)
	if v == nil {
		v = map[string]any{}
	}
	v["id"], v["type"] = e.ID, e.Type // whatever its attributes say: it is what is locked and worked on
	if _, taken := v["groups"]; !taken && e.Groups != nil {
		v["groups"] = e.Groups
	}
	return v
}
