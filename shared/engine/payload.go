package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxInlineScopeBytes is up to how many bytes of entities ride in the state item.
const maxInlineScopeBytes = 320

// payloads reads and writes what lies beside one state item.
type payloads struct {
	store       port.Store
	tenant      string
	executionID string
	nonce       func() string // a short random text

	input *workflow.Input
	scope map[string][]workflow.ScopeEntity // by key
}

// loadInput is what the starter gave, wherever it lives.
func (b *payloads) loadInput(ctx context.Context, in workflow.Input) (*workflow.Input, error) {
	if b.input != nil {
		return b.input, nil
	}
	if in.Offloaded {
		stored, err := b.store.LoadInput(ctx, b.tenant, b.executionID)
		if err != nil {
			return nil, err
		}
		in = stored
	}
	b.input = &in
	return b.input, nil
}

// offloadInput is the input as it stands in the state item; a large one is stored.
func (b *payloads) offloadInput(ctx context.Context, in workflow.Input) (workflow.Input, error) {
	b.input = &in
	if len(in.Parameters)+selectorSize(in.Selector) <= workflow.MaxInlineInputBytes {
		return in, nil
	}
	return workflow.Input{Offloaded: true}, b.store.SaveInput(ctx, b.tenant, b.executionID, in)
}

// offloadScope keeps entities inline or in chunks under a key of this handler's own,
// so that two handlers who discover at the same time never mix.
func (b *payloads) offloadScope(ctx context.Context, entities []workflow.ScopeEntity) (workflow.Scope, error) {
	s := workflow.Scope{Counts: map[string]int{}}
	for _, e := range entities {
		s.Counts[e.Key.Type]++
	}
	raw, err := json.Marshal(entities)
	if err != nil {
		return s, workflow.Errorf(workflow.CodeInternal, "scope: %w", err)
	}
	if len(raw) <= maxInlineScopeBytes {
		s.Inline = entities
		return s, nil
	}
	s.Key = b.nonce()
	s.Chunks, err = b.store.SaveScope(ctx, b.tenant, b.executionID, s.Key, entities)
	b.cacheScope(s.Key, entities)
	return s, err
}

// loadEntities are those of a scope, as last written.
func (b *payloads) loadEntities(ctx context.Context, s workflow.Scope) ([]workflow.ScopeEntity, error) {
	if s.Key == "" {
		return s.Inline, nil
	}
	if known, ok := b.scope[s.Key]; ok {
		return known, nil
	}
	entities, err := b.store.LoadScope(ctx, b.tenant, b.executionID, s.Key, s.Chunks)
	if err != nil {
		return nil, err
	}
	b.cacheScope(s.Key, entities)
	return entities, nil
}

func (b *payloads) cacheScope(key string, entities []workflow.ScopeEntity) {
	if b.scope == nil {
		b.scope = map[string][]workflow.ScopeEntity{}
	}
	b.scope[key] = entities
}
