package dynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/form"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// chunkBytes is about how many bytes of scope, before compression, one item
// holds; chunkFlight is how many chunks are read or written at a time.
const (
	chunkBytes  = 300 << 10
	chunkFlight = 8
)

// SaveInput keeps a large input in its own item.
func (s *Store) SaveInput(ctx context.Context, tenant, id string, in workflow.Input) error {
	plain, err := json.Marshal(in)
	if err != nil {
		return table.Unstorable(err)
	}
	return s.save(ctx, executionKey(tenant, id, skInput), plain)
}

// LoadInput reads it.
func (s *Store) LoadInput(ctx context.Context, tenant, id string) (workflow.Input, error) {
	var in workflow.Input
	it, err := s.t.Get(ctx, executionKey(tenant, id, skInput))
	if err != nil {
		return in, err
	}
	if it == nil {
		return in, workflow.Errorf(workflow.CodeNotFound, "execution %s has no stored input", id)
	}
	return in, load(it, &in)
}

// SaveScope stores entities in chunks under key.
func (s *Store) SaveScope(ctx context.Context, tenant, id, key string, entities []workflow.Held) (int, error) {
	chunks, err := cutScope(entities)
	if err != nil {
		return 0, err
	}
	return len(chunks), parallel.Each(ctx, chunkFlight, len(chunks), func(ctx context.Context, i int) error {
		return s.save(ctx, scopeKey(tenant, id, key, i+1), chunks[i])
	})
}

// cutScope cuts entities into JSON arrays of about chunkBytes. An empty scope is
// no chunk.
func cutScope(entities []workflow.Held) ([][]byte, error) {
	var chunks [][]byte
	var b bytes.Buffer
	for i := range entities {
		one, err := json.Marshal(entities[i])
		if err != nil {
			return nil, table.Unstorable(err)
		}
		if b.Len() > 0 && b.Len()+len(one) > chunkBytes {
			chunks = append(chunks, append(bytes.Clone(b.Bytes()), ']'))
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteByte('[')
		} else {
			b.WriteByte(',')
		}
		b.Write(one)
	}
	if b.Len() > 0 {
		chunks = append(chunks, append(b.Bytes(), ']'))
	}
	return chunks, nil
}

// LoadScope reads all chunks in order.
func (s *Store) LoadScope(ctx context.Context, tenant, id, key string, chunks int) ([]workflow.Held, error) {
	parts := make([][]workflow.Held, chunks)
	err := parallel.Each(ctx, chunkFlight, chunks, func(ctx context.Context, i int) error {
		it, err := s.t.Get(ctx, scopeKey(tenant, id, key, i+1))
		if err != nil {
			return err
		}
		if it == nil {
			return workflow.Errorf(workflow.CodeNotFound, "chunk %d of the scope %s of execution %s is missing", i+1, key, id)
		}
		return load(it, &parts[i])
	})
	if err != nil {
		return nil, err
	}
	var all []workflow.Held
	for _, p := range parts {
		all = append(all, p...)
	}
	return all, nil
}

// attrLast is the sequence number of the last event of a page.
const attrLast = "last"

// SaveEvents stores a page. Of two pages that begin alike the longer stays: a
// handler that comes late must not cut short what another has stored.
func (s *Store) SaveEvents(ctx context.Context, tenant, id string, events []workflow.Event) error {
	if len(events) == 0 {
		return nil
	}
	page, err := form.EncodeEvents(events)
	if err != nil {
		return err
	}
	key := eventsKey(tenant, id, events[0].Sequence)
	last := table.N(events[len(events)-1].Sequence)
	_, _, err = s.t.Put(ctx, table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
		attrLast: last, attrDoc: table.B(page),
	}, table.IfAbsent+" OR #last < :last", table.Item{"last": last})
	return err
}

// LoadEvents reads events with a sequence number above after.
func (s *Store) LoadEvents(ctx context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error) {
	first := eventsKey(tenant, id, after+1)
	// The page that holds the first event wanted may begin before it.
	before := table.Query{
		Strong: true, Backward: true, Page: 1,
		Key:  "#pk = :pk AND #sk BETWEEN :from AND :first",
		With: table.Item{"pk": table.S(first.PK), "from": table.S(skEvents), "first": table.S(first.SK)},
	}
	var events []workflow.Event
	take := func(it table.Item) error {
		page, err := form.DecodeEvents(it.Bytes(attrDoc))
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
	for it, err := range s.t.Query(ctx, before) {
		if err == nil {
			err = take(it)
		}
		if err != nil {
			return nil, err
		}
		break
	}
	beyond := table.Query{
		Strong: true,
		Key:    "#pk = :pk AND #sk BETWEEN :first AND :end",
		With:   table.Item{"pk": table.S(first.PK), "first": table.S(first.SK), "end": table.S(skEvents + "~")},
	}
	for it, err := range s.t.Query(ctx, beyond) {
		if len(events) == limit {
			break
		}
		if err == nil {
			err = take(it)
		}
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Discard has everything beside the state item dropped from at on.
func (s *Store) Discard(ctx context.Context, tenant, id string, at time.Time) error {
	return s.t.Discard(ctx, executionKey(tenant, id, skState).PK, skState, at)
}

// save and load keep one JSON document in one item.
func (s *Store) save(ctx context.Context, key table.Key, plain []byte) error {
	_, _, err := s.t.Put(ctx, table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
		attrDoc: table.B(table.Plain.Pack(plain)),
	}, "", nil)
	return err
}

func load(it table.Item, into any) error {
	plain, err := table.Plain.Unpack(it.Bytes(attrDoc))
	if err != nil {
		return err
	}
	return table.Strict(plain, into)
}
