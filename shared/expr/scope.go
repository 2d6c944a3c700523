package expr

import (
	"encoding/json"
	"sync"

	"cel.dev/cel-go/interpreter"
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
	execution  map[string]any
}

// NewContext makes a context. steps are the statuses of steps by label.
func NewContext(parameters json.RawMessage, results Results, steps map[string]string, execution map[string]any) *Context {
	c := &Context{
		parameters: sync.OnceValue(func() any { return decodeOr(parameters, map[string]any{}) }),
		results:    results, lists: map[string]func() any{}, steps: map[string]any{}, execution: execution,
	}
	for label, byID := range results {
		c.lists[label] = sync.OnceValue(func() any {
			all := make(map[string]any, len(byID))
			for id, raw := range byID {
				if id != "" {
					all[id] = decodeOr(raw, nil)
				}
			}
			return all
		})
	}
	for label, status := range steps {
		c.steps[label] = map[string]any{"status": status}
	}
	return c
}

// Entity is the job's entity as expressions see it: its attributes, and its type
// and id where no attribute has these names.
type Entity struct {
	Type, ID   string
	Attributes json.RawMessage
}

// Scope is what one evaluation sees. Entity is nil in a global step.
type Scope struct {
	Context *Context
	Entity  *Entity
}

func (s Scope) activation() interpreter.Activation {
	if s.Context == nil {
		s.Context = NewContext(nil, nil, nil, nil)
	}
	return s
}

// Parent makes Scope an activation; there is none.
func (s Scope) Parent() interpreter.Activation { return nil }

// ResolveName decodes what an expression asks for, when it does. A step that has
// no result here is a map without that key, so that reading it is an error that
// names it.
func (s Scope) ResolveName(name string) (any, bool) {
	switch name {
	case "parameters":
		return s.Context.parameters(), true
	case "steps":
		return s.Context.steps, true
	case "execution":
		if s.Context.execution == nil {
			return map[string]any{}, true
		}
		return s.Context.execution, true
	case "entity":
		if s.Entity == nil {
			return map[string]any{}, true
		}
		return s.Entity.value(), true
	}
	label := map[string]any{}
	byID := s.Context.results[name]
	raw, ok := byID[""]
	if !ok && s.Entity != nil {
		raw, ok = byID[s.Entity.ID]
	}
	if ok {
		label["result"] = decodeOr(raw, nil)
	}
	if list := s.Context.lists[name]; list != nil {
		label["results"] = list()
	} else {
		label["results"] = map[string]any{}
	}
	return label, true
}

func (e *Entity) value() map[string]any {
	v, _ := decodeOr(e.Attributes, nil).(map[string]any)
	if v == nil {
		v = map[string]any{}
	}
	for name, text := range map[string]string{"id": e.ID, "type": e.Type} {
		if _, taken := v[name]; !taken {
			v[name] = text
		}
	}
	return v
}
