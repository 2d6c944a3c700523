package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// inlineScope is up to how many bytes of entities ride in the state item.
const inlineScope = 320

// loadInput is what the starter gave, wherever it lives.
func (w *work) loadInput(ctx context.Context) (*workflow.Input, error) {
	if w.input != nil {
		return w.input, nil
	}
	in := w.x.Input
	if in.Stored {
		stored, err := w.ports.Store.LoadInput(ctx, w.tenant, w.id)
		if err != nil {
			return nil, err
		}
		in = stored
	}
	w.input = &in
	return w.input, nil
}

// discover unites what the starter named with what the definition acquires,
// without duplicates and in the fixed order of keys. An id that the inventory
// does not know ends the run, naming it.
func (w *work) discover(ctx context.Context) error {
	in, err := w.loadInput(ctx)
	if err != nil {
		return err
	}
	d, err := w.definition(ctx, w.x.Workflow)
	if err != nil {
		return err
	}
	var asked []workflow.Selector
	if !in.Selector.Empty() {
		asked = append(asked, *in.Selector)
	}
	for _, a := range d.Acquire {
		asked = append(asked, workflow.Selector{Type: a.Type, IDs: a.IDs, Groups: a.Groups, Query: a.Query})
	}
	found := map[workflow.EntityKey]bool{}
	for _, sel := range asked {
		problem, err := w.find(ctx, sel, found)
		if err != nil {
			return err
		}
		if problem != nil {
			w.facts.Discovered = &lifecycle.Discovered{Problem: problem}
			return nil
		}
	}
	f := &lifecycle.Discovered{}
	switch {
	case len(found) == 0 && d.AssertNotEmpty:
		f.Problem = &workflow.Failure{Code: "EMPTY", Message: "no entity matches, and the definition asserts that some do"}
	case len(found) > w.e.MaxEntities:
		f.Problem = &workflow.Failure{Code: string(workflow.CodeLimit),
			Message: fmt.Sprintf("the run is about %d entities, the limit is %d", len(found), w.e.MaxEntities)}
	default:
		keys := make([]workflow.Held, 0, len(found))
		for key := range found {
			keys = append(keys, workflow.Held{Key: key})
		}
		slices.SortFunc(keys, func(a, b workflow.Held) int { return a.Key.Compare(b.Key) })
		if f.Scope, err = w.saveScope(ctx, keys); err != nil {
			return err
		}
	}
	w.facts.Discovered = f
	return nil
}

// find adds the entities that a selector names.
func (w *work) find(ctx context.Context, sel workflow.Selector, found map[workflow.EntityKey]bool) (*workflow.Failure, error) {
	keys := make([]workflow.EntityKey, 0, len(sel.IDs))
	for _, id := range sel.IDs {
		keys = append(keys, workflow.EntityKey{Type: sel.Type, ID: id})
	}
	if len(keys) > 0 {
		known, err := w.ports.Registry.Entities(ctx, w.tenant, keys, true)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if _, ok := known[key]; !ok {
				return &workflow.Failure{Code: "ENTITY_NOT_FOUND", Entity: key.String(),
					Message: fmt.Sprintf("the inventory has no entity %s", key)}, nil
			}
			found[key] = true
		}
	}
	all := len(sel.IDs) == 0 && len(sel.Groups) == 0 && sel.Query == ""
	if len(sel.Groups) == 0 && sel.Query == "" && !all {
		return nil, nil
	}
	var query *expr.Query
	if sel.Query != "" {
		var err error
		if query, err = expr.CompileQuery(sel.Query); err != nil {
			return &workflow.Failure{Code: "QUERY", Message: err.Error()}, nil //nolint:nilerr // it is the run's problem, not the engine's
		}
	}
	page := workflow.Page{Limit: workflow.MaxPage}
	for {
		list, err := w.ports.Registry.EntitiesOf(ctx, w.tenant, sel.Type, page)
		if err != nil {
			return nil, err
		}
		for _, e := range list.Items {
			if all || inGroups(e, sel.Groups) || (query != nil && query.Match(e)) {
				found[e.Key()] = true
			}
		}
		if list.Next == "" || len(found) > w.e.MaxEntities {
			return nil, nil
		}
		page.Token = list.Next
	}
}

func inGroups(e workflow.Entity, groups []string) bool {
	return slices.ContainsFunc(e.Groups, func(g string) bool { return slices.Contains(groups, g) })
}

// saveScope keeps entities inline or in chunks under a key of this handler's
// own, so that two handlers who discover at the same time never mix.
func (w *work) saveScope(ctx context.Context, entities []workflow.Held) (workflow.Scope, error) {
	s := workflow.Scope{Counts: map[string]int{}}
	for _, e := range entities {
		s.Counts[e.Key.Type]++
	}
	raw, err := json.Marshal(entities)
	if err != nil {
		return s, workflow.Errorf(workflow.CodeInternal, "scope: %w", err)
	}
	if len(raw) <= inlineScope {
		s.Inline = entities
		return s, nil
	}
	s.Key = w.e.Nonce()
	s.Chunks, err = w.ports.Store.SaveScope(ctx, w.tenant, w.id, s.Key, entities)
	w.scope[s.Key] = entities
	return s, err
}

// entities is the scope as last written.
func (w *work) entities(ctx context.Context, s workflow.Scope) ([]workflow.Held, error) {
	if s.Key == "" {
		return s.Inline, nil
	}
	if known, ok := w.scope[s.Key]; ok {
		return known, nil
	}
	entities, err := w.ports.Store.LoadScope(ctx, w.tenant, w.id, s.Key, s.Chunks)
	if err != nil {
		return nil, err
	}
	w.scope[s.Key] = entities
	return entities, nil
}
