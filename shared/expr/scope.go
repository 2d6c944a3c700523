package expr

import (
	"encoding/json"
	"slices"
	"sync"

	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/lockstep-run/lockstep/shared/expr/values"
)

// Results are what earlier steps returned: by label, then by entity id; the
// result of a global step is under the empty id.
type Results map[string]map[string]json.RawMessage

// Context is what all jobs of one step see alike. Its JSON is decoded at most
// once. It is safe for concurrent use.
type Context struct {
	parameters func() any
	results    Results
	lists      map[string]func() any // LABEL.results
	steps      map[string]any
	execution  any
}

// NewContext makes a context. steps are the statuses of steps by label.
func NewContext(parameters json.RawMessage, results Results, steps map[string]string, execution map[string]any) *Context {
	c := &Context{
		parameters: sync.OnceValue(func() any { return shared(values.Decode(parameters, map[string]any{})) }),
		results:    results, lists: map[string]func() any{}, steps: map[string]any{}, execution: shared(execution),
	}
	for label, byID := range results {
		c.lists[label] = sync.OnceValue(func() any {
			all := make(map[string]any, len(byID))
			for id, raw := range byID {
				if id != "" {
					all[id] = values.Decode(raw, nil)
				}
			}
			return shared(all)
		})
	}
	for label, status := range steps {
		c.steps[label] = map[string]any{"status": status}
	}
	return c
}

// shared is a value that many evaluations read, adapted once: the library keeps
// the measured size of large values with them.
func shared(v any) any { return values.Adapt(v) }

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
	Context   *Context
	Entity    *Entity
	Given     map[string]any // more names and their values
	Inventory func(entityType, id string) (attributes json.RawMessage, ok bool)
}

// activation is a scope during one evaluation: it decodes what the expression
// asks for, when it does, and once.
type activation struct {
	Scope
	refs   *References
	entity any
	labels map[string]any
	looked map[string]ref.Val // entities of the inventory, by type/id
}

func (s Scope) activation(refs *References) *activation {
	if s.Context == nil {
		s.Context = noContext
	}
	return &activation{Scope: s, refs: refs}
}

var noContext = NewContext(nil, nil, nil, nil)

// Parent makes this an activation of the interpreter; there is none.
func (a *activation) Parent() interpreter.Activation { return nil }

// ResolveName is the value of a variable.
func (a *activation) ResolveName(name string) (any, bool) {
	if given, ok := a.Given[name]; ok {
		return given, true
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
			a.entity = shared(a.Entity.value())
		}
		return a.entity, true
	}
	if known, ok := a.labels[name]; ok {
		return known, true
	}
	if a.labels == nil {
		a.labels = map[string]any{}
	}
	a.labels[name] = a.label(name)
	return a.labels[name], true
}

// label is a step's results as far as the expression reads them. A step that has
// no result here is a map without that key, so that reading it is an error that
// names it.
func (a *activation) label(name string) map[string]any {
	label := map[string]any{}
	if slices.Contains(a.refs.Own, name) {
		byID := a.Context.results[name]
		raw, ok := byID[""]
		if !ok && a.Entity != nil {
			raw, ok = byID[a.Entity.ID]
		}
		if ok {
			label["result"] = shared(values.Decode(raw, nil))
		}
	}
	if slices.Contains(a.refs.All, name) {
		label["results"] = map[string]any{}
		if list := a.Context.lists[name]; list != nil {
			label["results"] = list()
		}
	}
	return label
}

// value is the entity's attributes with its type and id; of no entity, nothing.
func (e *Entity) value() map[string]any {
	if e == nil {
		return map[string]any{}
	}
	v, _ := values.Decode(e.Attributes, nil).(map[string]any)
	if v == nil {
		v = map[string]any{}
	}
	v["id"], v["type"] = e.ID, e.Type // whatever its attributes say: it is what is locked and worked on
	if _, taken := v["groups"]; !taken && e.Groups != nil {
		v["groups"] = e.Groups
	}
	return v
}
