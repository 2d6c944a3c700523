package sim

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// empty is the answer of a call that only may fail.
type empty = struct{}

// SaveInput keeps an input beside the state.
func (s *Store) SaveInput(_ context.Context, tenant, id string, in workflow.Input) error {
	_, err := call(s.conn, "store.save_input", func(bool) (empty, error) {
		s.countWrite(tableExecutions)
		if err := checkItemSize(in); err != nil {
			return empty{}, err
		}
		kept := clone(in)
		s.ensureItem(tenant, id).input = &kept
		return empty{}, nil
	})
	return err
}

// LoadInput reads it.
func (s *Store) LoadInput(_ context.Context, tenant, id string) (workflow.Input, error) {
	return call(s.conn, "store.load_input", func(bool) (workflow.Input, error) {
		s.countReads(tableExecutions, 1)
		e := s.item(tenant, id)
		if e == nil || e.input == nil {
			return workflow.Input{}, workflow.Errorf(workflow.CodeNotFound, "execution %s has no input", id)
		}
		return clone(*e.input), nil
	})
}

// Discard has everything beside the state item dropped from at on. The world keeps
// it, and remembers that.
func (s *Store) Discard(_ context.Context, tenant, id string, at time.Time) error {
	return s.discard("store.discard", workflow.StepRunKey{Tenant: tenant, Execution: id}, 0, at)
}

// scopeChunkSize is how many entities are in one chunk: few, so that small tests
// meet several.
const scopeChunkSize = 64

// SaveScope stores entities in chunks.
func (s *Store) SaveScope(_ context.Context, tenant, id, key string, entities []workflow.ScopeEntity) (int, error) {
	return call(s.conn, "store.save_scope", func(bool) (int, error) {
		var chunks [][]workflow.ScopeEntity
		for c := range slices.Chunk(entities, scopeChunkSize) {
			s.countWrite(tableExecutions)
			chunks = append(chunks, clone(c))
		}
		s.ensureItem(tenant, id).scopes[key] = chunks
		return len(chunks), nil
	})
}

// LoadScope reads all chunks in order.
func (s *Store) LoadScope(_ context.Context, tenant, id, key string, chunks int) ([]workflow.ScopeEntity, error) {
	return call(s.conn, "store.load_scope", func(bool) ([]workflow.ScopeEntity, error) {
		s.countReads(tableExecutions, chunks)
		e := s.item(tenant, id)
		if e == nil || len(e.scopes[key]) < chunks {
			return nil, workflow.Errorf(workflow.CodeNotFound, "execution %s has no scope %s of %d chunks", id, key, chunks)
		}
		return clone(slices.Concat(e.scopes[key][:chunks]...)), nil
	})
}

// SaveEvents stores a page of events. An event that is stored already stays.
func (s *Store) SaveEvents(_ context.Context, tenant, id string, events []workflow.Event) error {
	_, err := call(s.conn, "store.save_events", func(bool) (empty, error) {
		s.countWrite(tableExecutions)
		kept := s.ensureItem(tenant, id).events
		for _, e := range clone(events) {
			if _, ok := kept[e.Sequence]; !ok {
				kept[e.Sequence] = e
			}
		}
		return empty{}, nil
	})
	return err
}

// LoadEvents reads stored events above a sequence number, in order.
func (s *Store) LoadEvents(_ context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error) {
	return call(s.conn, "store.load_events", func(bool) ([]workflow.Event, error) {
		var found []workflow.Event
		if e := s.item(tenant, id); e != nil {
			for n, event := range e.events {
				if n > after {
					found = append(found, event)
				}
			}
		}
		slices.SortFunc(found, func(a, b workflow.Event) int { return int(a.Sequence - b.Sequence) })
		found = clone(found[:min(limit, len(found))])
		s.countReads(tableExecutions, len(found))
		return found, nil
	})
}
