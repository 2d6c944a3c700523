package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Large values are stored in items of their own, so that the state item stays small: the input, the
// entities of a scope and their outcomes, the values of step runs, and the older pages of the history.

// startInput returns the execution's input, wherever it is stored.
func (w *workspace) startInput(ctx context.Context) (*workflow.Input, error) {
	if w.input != nil {
		return w.input, nil
	}
	in := w.execution.Input
	if in.Offloaded {
		stored, err := w.ports.Store.LoadInput(ctx, w.tenant, w.id)
		if err != nil {
			return nil, err
		}
		in = stored
	}
	w.input = &in
	return w.input, nil
}

// offloadInput returns the input as the state item holds it. It stores a large input in an item of
// its own.
func (w *workspace) offloadInput(ctx context.Context, in workflow.Input) (workflow.Input, error) {
	w.input = &in
	if len(in.Parameters)+len(in.Metadata)+selectorSize(in.Selector) <= workflow.MaxInlineInputBytes {
		return in, nil
	}
	return workflow.Input{Offloaded: true, Sealed: in.Sealed}, w.ports.Store.SaveInput(ctx, w.tenant, w.id, in)
}

// selectorSize returns the size of a selector as JSON, in bytes.
func selectorSize(s *workflow.Selector) int {
	if s == nil {
		return 0
	}
	raw, err := workflow.EncodeJSON(s)
	if err != nil {
		return workflow.MaxInlineInputBytes + 1
	}
	return len(raw)
}

// offloadScope returns the scope as the state item holds it. It stores many entities in chunks,
// under a random key, so that the chunks of two concurrent discoveries never mix. A place is not
// stored if it equals the position in the scope.
func (w *workspace) offloadScope(ctx context.Context, entities []workflow.ScopeEntity) (workflow.Scope, error) {
	s := workflow.Scope{Counts: map[string]int{}}
	for i := range entities {
		e := &entities[i]
		s.Counts[e.Key.Type]++
		if e.Place == i+1 {
			e.Place = 0
		}
		s.Gaps = s.Gaps || e.Place > 0
	}
	inline, err := fitsInline(entities)
	if err != nil {
		return s, err
	}
	if inline {
		s.Inline = entities
		return s, nil
	}
	if w.ahead.reading {
		return s, errIDUndecided
	}
	s.Key = w.e.Nonce()
	s.Chunks, s.PerChunk, err = w.ports.Store.SaveScope(ctx, w.tenant, w.id, s.Key, entities)
	w.cacheScope(s.Key, entities)
	return s, err
}

// errIDUndecided says that nothing is stored under the id: the Idempotency-Key of the request may name
// another execution, and a request that is refused leaves nothing.
var errIDUndecided = workflow.Errorf(workflow.CodeInternal, "the id of the execution is not decided")

// fitsInline reports whether entities are small enough for the state item. It stops encoding as
// soon as the answer is known: a large scope as JSON would fill much of a function's memory.
func fitsInline(entities []workflow.ScopeEntity) (bool, error) {
	size := len("]")
	for i := range entities {
		raw, err := workflow.EncodeJSON(entities[i])
		if err != nil {
			return false, workflow.Errorf(workflow.CodeInternal, "encode entity %s of the scope: %w", entities[i].Key, err)
		}
		if size += len(raw) + len(","); size > workflow.MaxInlineScopeBytes {
			return false, nil
		}
	}
	return true, nil
}

// loadEntities returns the entities of a scope that take part, with their places.
func (w *workspace) loadEntities(ctx context.Context, s workflow.Scope) ([]workflow.ScopeEntity, error) {
	all, err := w.loadAllEntities(ctx, s)
	if err != nil || s.Only == nil {
		return all, err
	}
	entities := make([]workflow.ScopeEntity, 0, min(len(all), s.Only.Len()))
	for _, e := range all {
		if s.Only.Contains(e.Place) {
			entities = append(entities, e)
		}
	}
	return entities, nil
}

// loadAllEntities returns all entities of a scope, whether they take part or not.
func (w *workspace) loadAllEntities(ctx context.Context, s workflow.Scope) ([]workflow.ScopeEntity, error) {
	if s.Key == "" {
		return withPlaces(slices.Clone(s.Inline)), nil
	}
	if known, ok := w.scopes[s.Key]; ok {
		return known, nil
	}
	entities, err := w.ports.Store.LoadScope(ctx, w.tenant, w.id, s.Key, 0, s.Chunks)
	if err != nil {
		return nil, err
	}
	w.cacheScope(s.Key, entities)
	return entities, nil
}

// loadSomeEntities returns the participating entities of a type from index from to index to. Of a
// scope that can be read in parts, only the chunks that contain these entities are read.
func (w *workspace) loadSomeEntities(ctx context.Context, s workflow.Scope, entityType string, from, to int) ([]workflow.ScopeEntity, error) {
	var entities []workflow.ScopeEntity
	if !s.InParts() {
		all, err := w.loadEntities(ctx, s)
		for _, e := range all {
			if e.Key.Type == entityType {
				entities = append(entities, e)
			}
		}
		return entities[min(from, len(entities)):min(to, len(entities))], err
	}
	for _, place := range s.PlacesOf(entityType, from, to) {
		chunk, err := w.loadChunk(ctx, s, (place-1)/s.PerChunk)
		if err != nil {
			return nil, err
		}
		at := (place - 1) % s.PerChunk
		if place < 1 || at >= len(chunk) || chunk[at].Key.Type != entityType {
			return nil, workflow.Errorf(workflow.CodeInternal, "place %d of scope %s has no %s", place, s.Key, entityType)
		}
		e := chunk[at]
		e.Place = place
		entities = append(entities, e)
	}
	return entities, nil
}

// loadChunk returns the entities of one chunk of a scope. Their places are not filled in.
func (w *workspace) loadChunk(ctx context.Context, s workflow.Scope, number int) ([]workflow.ScopeEntity, error) {
	key := scopeChunk{s.Key, number}
	if known, ok := w.chunks[key]; ok {
		return known, nil
	}
	chunk, err := w.ports.Store.LoadScope(ctx, w.tenant, w.id, s.Key, number, number+1)
	if err != nil {
		return nil, err
	}
	if w.chunks == nil {
		w.chunks = map[scopeChunk][]workflow.ScopeEntity{}
	}
	w.chunks[key] = chunk
	return chunk, nil
}

// scopeChunk identifies a chunk of a scope.
type scopeChunk struct {
	scope  string // key of the scope
	number int
}

func (w *workspace) cacheScope(key string, entities []workflow.ScopeEntity) {
	if w.scopes == nil {
		w.scopes = map[string][]workflow.ScopeEntity{}
	}
	w.scopes[key] = withPlaces(entities)
}

// withPlaces fills in the places that are not stored.
func withPlaces(entities []workflow.ScopeEntity) []workflow.ScopeEntity {
	for i := range entities {
		if entities[i].Place == 0 {
			entities[i].Place = i + 1
		}
	}
	return entities
}

// offloadValue returns a value as its step run holds it. It stores a large value under its digest,
// so that handlers that decide differently never mix their values.
func (w *workspace) offloadValue(ctx context.Context, v *workflow.Value) (*workflow.Value, error) {
	if v == nil || len(v.Inline) <= workflow.MaxInlineValueBytes {
		return v, nil
	}
	ref, err := w.ports.Packs.SavePayload(ctx, workflow.ValueKey(w.tenant, w.id), v.Inline)
	return &workflow.Value{Stored: &ref}, err
}

// loadValue returns a value of a step run, wherever it is stored.
func (w *workspace) loadValue(ctx context.Context, v *workflow.Value) (json.RawMessage, error) {
	if v.Stored == nil {
		return v.Inline, nil
	}
	return w.ports.Packs.LoadPayload(ctx, workflow.ValueKey(w.tenant, w.id), *v.Stored)
}

// offloadOutcomes stores the sets of outcomes in items of their own where they are too large for the
// state item.
func (w *workspace) offloadOutcomes(ctx context.Context, next *workflow.Execution) error {
	r := next.Result
	if r == nil || r.Stored != nil || r.Sets.Bytes() <= workflow.MaxInlineSetBytes {
		return nil
	}
	raw, err := workflow.EncodeJSON(r.Sets)
	if err != nil {
		return err
	}
	ref, err := w.ports.Packs.SavePayload(ctx, workflow.ValueKey(w.tenant, w.id), raw)
	if err != nil {
		return err
	}
	stored := *r
	stored.Stored = &ref
	next.Result = &stored
	return nil
}

// ReadOutcomes reads the outcomes of an execution's entities, if they are stored in items of their
// own. They may be gone once it is discarded, and stay unread then.
func ReadOutcomes(ctx context.Context, packs port.Packs, x *workflow.Execution) error {
	r := x.Result
	if !r.Unread() || !x.DiscardedAt.IsZero() {
		return nil
	}
	raw, err := packs.LoadPayload(ctx, workflow.ValueKey(x.Tenant, x.ID), *r.Stored)
	if workflow.Is(err, workflow.CodeNotFound) {
		return workflow.Errorf(workflow.CodeInternal, "the outcomes of the entities of execution %s are missing", x.ID)
	}
	if err != nil {
		return err
	}
	var sets workflow.OutcomeSets
	if err := json.Unmarshal(raw, &sets); err != nil {
		return workflow.Errorf(workflow.CodeInternal, "decode the outcomes of execution %s: %w", x.ID, err)
	}
	r.Sets = sets
	return nil
}

// eventsPerPage is the size of a history page. The size is fixed and a page is keyed by its first
// sequence number, so that every handler that writes a page, however late, writes the same.
const eventsPerPage = 30

// offloadHistory moves the oldest events out of the state item before a commit would exceed its
// limit. It moves committed events only: the events of this decision may be lost to a race and
// decided differently.
func (w *workspace) offloadHistory(ctx context.Context, seen, next *workflow.Execution) error {
	for len(next.Events) > workflow.MaxInlineEvents && next.Events[eventsPerPage-1].Sequence <= seen.Sequence && seen.Version > 0 {
		if err := w.ports.Store.SaveEvents(ctx, w.tenant, w.id, next.Events[:eventsPerPage]); err != nil {
			return err
		}
		next.PagedThrough = next.Events[eventsPerPage-1].Sequence
		next.Events = slices.Clone(next.Events[eventsPerPage:])
	}
	return nil
}
