package dynamo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// attrDescendants is the set of ids of the executions that an execution and its descendants have
// started. It is not a counter, because that would grow when a handler repeats a start.
const (
	attrDescendants     = "ids"
	attrDescendantCount = "count"
)

// CountDescendants counts n descendants of root, only once. An item written by the previous release
// has no count: each of its ids is one execution.
func (s *Store) CountDescendants(ctx context.Context, tenant, root, as string, n, limit int) (bool, error) {
	if n > limit {
		return false, nil
	}
	ok, old, err := s.t.Update(ctx, table.Update{
		Key:       executionKey(tenant, root, skDescendants),
		Add:       table.Item{attrDescendants: table.StringSet(as), attrDescendantCount: table.N(int64(n))},
		Condition: "attribute_not_exists(#ids) OR NOT contains(#ids, :as) AND size(#ids) <= :room AND (attribute_not_exists(#count) OR #count <= :room)",
		Values:    table.Item{"room": table.N(int64(limit - n)), "as": table.S(as)},
	})
	return ok || slices.Contains(old.StringSet(attrDescendants), as), err
}

// SaveInput stores a large input in an item of its own.
func (s *Store) SaveInput(ctx context.Context, tenant, id string, in workflow.Input) error {
	doc, err := encodeDocument(in)
	if err != nil {
		return err
	}
	return putDocument(ctx, s.t, executionKey(tenant, id, skInput), doc)
}

// LoadInput reads what [Store.SaveInput] stored.
func (s *Store) LoadInput(ctx context.Context, tenant, id string) (workflow.Input, error) {
	var in workflow.Input
	it, err := s.t.Get(ctx, executionKey(tenant, id, skInput))
	if err != nil {
		return in, err
	}
	if it == nil {
		return in, workflow.Errorf(workflow.CodeNotFound, "execution %s has no stored input", id)
	}
	return in, decodeDocument(it, &in)
}

// A chunk of a scope has scopeChunkBytes on average and maxScopeChunkBytes at most, before
// compression: a lane of a pipeline reads and decodes a whole chunk.
const (
	scopeChunkBytes    = 64 << 10
	maxScopeChunkBytes = 300 << 10
)

// SaveScope stores entities in chunks under key. It encodes each chunk only when it writes it, so
// that few of them are in memory at a time.
func (s *Store) SaveScope(ctx context.Context, tenant, id, key string, entities []workflow.ScopeEntity) (chunks, perChunk int, err error) {
	perChunk = scopePerChunk(entities)
	chunks = (len(entities) + perChunk - 1) / perChunk
	return chunks, perChunk, putChunks(ctx, s.t, chunks,
		func(i int) table.Key { return scopeKey(tenant, id, key, i+1) },
		func(i int) ([]byte, error) {
			return workflow.EncodeJSON(entities[i*perChunk : min(len(entities), (i+1)*perChunk)])
		})
}

// scopePerChunk returns how many entities a chunk has. The number is the same for each chunk, so
// that the place of an entity tells which chunk it is in, and small enough that the largest chunk
// fits.
func scopePerChunk(entities []workflow.ScopeEntity) int {
	const fields = len(`{"key":{"type":"","id":""},"place":,"token":,"attributes":},`) + 2*20 // plus the digits of two numbers
	upTo := make([]int, len(entities)+1)                                                      // running total of bytes
	for i := range entities {
		e := &entities[i]
		upTo[i+1] = upTo[i] + fields + len(e.Key.Type) + len(e.Key.ID) + len(e.Attributes)
	}
	n := max(1, len(entities)*scopeChunkBytes/max(1, upTo[len(entities)]))
	fits := func() bool {
		for from := 0; from < len(entities); from += n {
			if upTo[min(len(entities), from+n)]-upTo[from] > maxScopeChunkBytes {
				return false
			}
		}
		return true
	}
	for n > 1 && !fits() {
		n /= 2
	}
	return n
}

// LoadScope reads chunks of a scope, in order.
func (s *Store) LoadScope(ctx context.Context, tenant, id, key string, from, to int) ([]workflow.ScopeEntity, error) {
	parts := make([][]workflow.ScopeEntity, to-from)
	err := getChunks(ctx, s.t, fmt.Sprintf("scope %s of execution %s", key, id), len(parts),
		func(i int) table.Key { return scopeKey(tenant, id, key, from+i+1) },
		func(i int, it table.Item) error { return decodeDocument(it, &parts[i]) })
	if err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

// attrLastSequence is the sequence number of the last event of a page.
const attrLastSequence = "last"

// SaveEvents stores a page of events. If two pages start with the same event, the longer one stays:
// a late handler must not shorten what another has stored.
func (s *Store) SaveEvents(ctx context.Context, tenant, id string, events []workflow.Event) error {
	if len(events) == 0 {
		return nil
	}
	page, err := codec.EncodeEvents(events)
	if err != nil {
		return err
	}
	key := eventsKey(tenant, id, events[0].Sequence)
	last := table.N(events[len(events)-1].Sequence)
	_, _, err = s.t.Put(ctx, table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
		attrLastSequence: last, attrDocument: table.B(page),
	}, table.IfAbsent+" OR #last < :last", table.Item{"last": last})
	return err
}

// LoadEvents reads at most limit events with a sequence number above after.
func (s *Store) LoadEvents(ctx context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error) {
	first := eventsKey(tenant, id, after+1)
	// The page that holds the first event wanted may start before it.
	lastPageBefore := table.Query{
		Consistent: true, Descending: true, PageSize: 1,
		KeyCondition: "#pk = :pk AND #sk BETWEEN :from AND :first",
		Values:       table.Item{"pk": table.S(first.PK), "from": table.S(skEvents), "first": table.S(first.SK)},
	}
	var events []workflow.Event
	appendPage := func(it table.Item) error {
		page, err := codec.DecodeEvents(it.Bytes(attrDocument))
		if err != nil {
			return err
		}
		for _, e := range page {
			if e.Sequence > after && len(events) < limit {
				events, after = append(events, e), e.Sequence
			}
		}
		return nil
	}
	for it, err := range s.t.Query(ctx, lastPageBefore) {
		if err == nil {
			err = appendPage(it)
		}
		if err != nil {
			return nil, err
		}
		break
	}
	pagesFrom := table.Query{
		Consistent:   true,
		KeyCondition: "#pk = :pk AND #sk BETWEEN :first AND :end",
		Values:       table.Item{"pk": table.S(first.PK), "first": table.S(first.SK), "end": table.S(skEvents + "~")},
	}
	for it, err := range s.t.Query(ctx, pagesFrom) {
		if len(events) == limit {
			break
		}
		if err == nil {
			err = appendPage(it)
		}
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Discard sets a time to live of at on every item of the execution except the state item.
func (s *Store) Discard(ctx context.Context, tenant, id string, at time.Time) error {
	return s.t.Discard(ctx, executionKey(tenant, id, skState).PK, skState, at)
}
