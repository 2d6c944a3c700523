package sim

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// nothing is the answer of a call that only may fail.
type nothing = struct{}

// SaveInput keeps an input beside the state.
func (s *Store) SaveInput(_ context.Context, tenant, id string, in workflow.Input) error {
	_, err := call(s.line, "store.save_input", func(bool) (nothing, error) {
		s.writes(tableExecutions)
		if err := fits(in); err != nil {
			return nothing{}, err
		}
		kept := replica.Of(in)
		s.beside(tenant, id).input = &kept
		return nothing{}, nil
	})
	return err
}

// LoadInput reads it.
func (s *Store) LoadInput(_ context.Context, tenant, id string) (workflow.Input, error) {
	return call(s.line, "store.load_input", func(bool) (workflow.Input, error) {
		s.reads(tableExecutions, 1)
		e := s.item(tenant, id)
		if e == nil || e.input == nil {
			return workflow.Input{}, workflow.Errorf(workflow.CodeNotFound, "execution %s has no input", id)
		}
		return replica.Of(*e.input), nil
	})
}

// Discard has everything beside the state item dropped from at on. The world keeps
// it, and remembers that.
func (s *Store) Discard(_ context.Context, tenant, id string, at time.Time) error {
	return s.discard("store.discard", workflow.RunKey{Tenant: tenant, Execution: id}, 0, at)
}

// scopeChunk is how many entities are in one chunk: few, so that small tests
// meet several.
const scopeChunk = 64

// SaveScope stores entities in chunks.
func (s *Store) SaveScope(_ context.Context, tenant, id, key string, entities []workflow.Held) (int, error) {
	return call(s.line, "store.save_scope", func(bool) (int, error) {
		var chunks [][]workflow.Held
		for c := range slices.Chunk(entities, scopeChunk) {
			s.writes(tableExecutions)
			chunks = append(chunks, replica.Of(c))
		}
		s.beside(tenant, id).scopes[key] = chunks
		return len(chunks), nil
	})
}

// LoadScope reads all chunks in order.
func (s *Store) LoadScope(_ context.Context, tenant, id, key string, chunks int) ([]workflow.Held, error) {
	return call(s.line, "store.load_scope", func(bool) ([]workflow.Held, error) {
		s.reads(tableExecutions, chunks)
		e := s.item(tenant, id)
		if e == nil || len(e.scopes[key]) < chunks {
			return nil, workflow.Errorf(workflow.CodeNotFound, "execution %s has no scope %s of %d chunks", id, key, chunks)
		}
		return replica.Of(slices.Concat(e.scopes[key][:chunks]...)), nil
	})
}

// SaveEvents stores a page of events. An event that is stored already stays.
func (s *Store) SaveEvents(_ context.Context, tenant, id string, events []workflow.Event) error {
	_, err := call(s.line, "store.save_events", func(bool) (nothing, error) {
		s.writes(tableExecutions)
		kept := s.beside(tenant, id).events
		for _, e := range replica.Of(events) {
			if _, ok := kept[e.Sequence]; !ok {
				kept[e.Sequence] = e
			}
		}
		return nothing{}, nil
	})
	return err
}

// LoadEvents reads stored events above a sequence number, in order.
func (s *Store) LoadEvents(_ context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error) {
	return call(s.line, "store.load_events", func(bool) ([]workflow.Event, error) {
		var found []workflow.Event
		if e := s.item(tenant, id); e != nil {
			for n, event := range e.events {
				if n > after {
					found = append(found, event)
				}
			}
		}
		slices.SortFunc(found, func(a, b workflow.Event) int { return int(a.Sequence - b.Sequence) })
		found = replica.Of(found[:min(limit, len(found))])
		s.reads(tableExecutions, len(found))
		return found, nil
	})
}
