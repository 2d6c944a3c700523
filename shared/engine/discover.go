package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/discovery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
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

// discover finds the run's entities, in the fixed order of their keys; or which
// block has to be asked first.
func (w *work) discover(ctx context.Context) error {
	in, err := w.loadInput(ctx)
	if err != nil {
		return err
	}
	if w.facts.Resolved == nil {
		if err := w.resolve(ctx); err != nil {
			return err
		}
	}
	if w.facts.Resolved.Problem != nil {
		w.facts.Discovered = &lifecycle.Discovered{Acquire: -1, Problem: w.facts.Resolved.Problem}
		return nil
	}
	asked, err := w.acquired(ctx)
	if err != nil {
		return err
	}
	search := &discovery.Search{
		Tenant: w.tenant, Registry: w.ports.Registry, Program: w.program, Parameters: in.Parameters, MaxEntities: w.e.MaxEntities,
	}
	a, err := search.Run(ctx, in.Selector, asked)
	if err != nil {
		return err
	}
	f := &lifecycle.Discovered{Acquire: a.Ask, Problem: a.Problem}
	if f.Problem == nil && f.Acquire < 0 {
		if f.Scope, err = w.saveScope(ctx, a.Entities); err != nil {
			return err
		}
	}
	w.facts.Discovered = f
	return nil
}

// acquired is what blocks have answered in this try, by acquisition.
func (w *work) acquired(ctx context.Context) (map[int][]workflow.EntityKey, error) {
	asked := map[int][]workflow.EntityKey{}
	for i := range w.x.Runs {
		r := &w.x.Runs[i]
		if r.Kind != workflow.JobAcquire || r.Try != w.x.Try || r.Open() {
			continue
		}
		packs, err := w.delivery().Read(ctx, &delivery.Run{Tenant: w.tenant, Execution: w.id, Step: r})
		if err != nil {
			return nil, err
		}
		rec := plan.Latest(packs)[0]
		if rec.Stored != nil {
			list, err := w.ports.Packs.Load(ctx, *rec.Stored.Pack, *rec.Stored)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(list, &rec.Entities); err != nil {
				return nil, workflow.Errorf(workflow.CodeInternal, "what block %s has found cannot be read: %w", r.Block, err)
			}
		}
		asked[r.Step] = rec.Entities
	}
	return asked, nil
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
