package beside

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine/intake"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// inlineScope is up to how many bytes of entities ride in the state item.
const inlineScope = 320

// Beside reads and writes what lies beside one state item.
type Beside struct {
	Store     port.Store
	Tenant    string
	Execution string
	Nonce     func() string // a short random text

	input *workflow.Input
	scope map[string][]workflow.Held // by key
}

// Input is what the starter gave, wherever it lives.
func (b *Beside) Input(ctx context.Context, in workflow.Input) (*workflow.Input, error) {
	if b.input != nil {
		return b.input, nil
	}
	if in.Stored {
		stored, err := b.Store.LoadInput(ctx, b.Tenant, b.Execution)
		if err != nil {
			return nil, err
		}
		in = stored
	}
	b.input = &in
	return b.input, nil
}

// KeepInput is the input as it stands in the state item; a large one is stored.
func (b *Beside) KeepInput(ctx context.Context, in workflow.Input) (workflow.Input, error) {
	b.input = &in
	if len(in.Parameters)+intake.Size(in.Selector) <= workflow.InlineInput {
		return in, nil
	}
	return workflow.Input{Stored: true}, b.Store.SaveInput(ctx, b.Tenant, b.Execution, in)
}

// KeepScope keeps entities inline or in chunks under a key of this handler's own,
// so that two handlers who discover at the same time never mix.
func (b *Beside) KeepScope(ctx context.Context, entities []workflow.Held) (workflow.Scope, error) {
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
	s.Key = b.Nonce()
	s.Chunks, err = b.Store.SaveScope(ctx, b.Tenant, b.Execution, s.Key, entities)
	b.remember(s.Key, entities)
	return s, err
}

// Entities are those of a scope, as last written.
func (b *Beside) Entities(ctx context.Context, s workflow.Scope) ([]workflow.Held, error) {
	if s.Key == "" {
		return s.Inline, nil
	}
	if known, ok := b.scope[s.Key]; ok {
		return known, nil
	}
	entities, err := b.Store.LoadScope(ctx, b.Tenant, b.Execution, s.Key, s.Chunks)
	if err != nil {
		return nil, err
	}
	b.remember(s.Key, entities)
	return entities, nil
}

func (b *Beside) remember(key string, entities []workflow.Held) {
	if b.scope == nil {
		b.scope = map[string][]workflow.Held{}
	}
	b.scope[key] = entities
}
