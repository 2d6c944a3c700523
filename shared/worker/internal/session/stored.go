package session

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Whole is a message with all of its jobs, wherever these are kept.
func Whole(ctx context.Context, m *workflow.PackMessage, ports Ports) (*workflow.PackMessage, error) {
	return m.Whole(func(key workflow.PackKey, s workflow.Stored) ([]byte, error) { return ports.Packs.Load(ctx, key, s) })
}

// Undone is the job's input with the result that it is to undo, wherever that is
// kept.
func Undone(ctx context.Context, in *workflow.JobInput, ports Ports) (*workflow.JobInput, error) {
	if in.Stored == nil || in.Stored.Pack == nil {
		return in, nil
	}
	result, err := ports.Packs.Load(ctx, *in.Stored.Pack, *in.Stored)
	if err != nil {
		return nil, err
	}
	next := *in
	next.Result, next.Stored = result, nil
	return &next, nil
}

// fetch reads the results that the jobs are to undo, before the pack is claimed:
// a job whose input cannot be had must not count as started.
func (s *session) fetch(ctx context.Context) error {
	for i := range s.m.Jobs {
		in, err := Undone(ctx, &s.m.Jobs[i], s.ports)
		if err != nil {
			return err
		}
		if in != &s.m.Jobs[i] {
			if s.undone == nil {
				s.undone = map[int]*workflow.JobInput{}
			}
			s.undone[in.Index] = in
		}
	}
	return nil
}

// packRoom is about how many bytes one pack's item has for what its jobs leave.
const packRoom = 256 << 10

// left is about how many bytes of the item a job's record takes, without its
// result.
func left(rec *workflow.JobRecord) int {
	n := len(rec.Updates)
	for _, e := range rec.Entities {
		n += len(e.Type) + len(e.ID) + 20
	}
	if rec.Failure != nil {
		n += len(rec.Failure.Message) + len(rec.Failure.Details)
	}
	return n
}

// makeRoom makes what the jobs of a pack have left fit its item. Results that do
// not are stored outside it, the largest first, before the item refers to them.
// All else has to fit: where it does not, whoever leaves more than its share fails
// with that, and its result stays. The records are those that are about to be
// written; the session keeps what became of them.
func (s *session) makeRoom(ctx context.Context, p *workflow.Pack) error {
	besides, results := 0, 0
	for i := range p.Jobs {
		besides += left(&p.Jobs[i])
		results += len(p.Jobs[i].Result)
	}
	if besides > packRoom {
		if err := s.storeEntities(ctx, p); err != nil {
			return err
		}
		besides = s.failLargest(p)
	}
	if besides+results <= packRoom {
		return nil
	}
	largest := make([]int, len(p.Jobs))
	for i := range largest {
		largest[i] = i
	}
	slices.SortStableFunc(largest, func(a, b int) int { return len(p.Jobs[b].Result) - len(p.Jobs[a].Result) })
	for _, i := range largest {
		rec := p.Jobs[i]
		if besides+results <= packRoom || len(rec.Result) == 0 {
			break
		}
		stored, err := s.ports.Packs.Save(ctx, p.Key, rec.Result)
		if err != nil {
			return err
		}
		results -= len(rec.Result)
		rec.Result, rec.Stored = nil, &stored
		s.keepRecord(p, i, rec)
	}
	return nil
}

// storeEntities stores what jobs have found, in place of a result, which an ACQUIRE
// has not.
func (s *session) storeEntities(ctx context.Context, p *workflow.Pack) error {
	for i, rec := range p.Jobs {
		if len(rec.Entities) == 0 {
			continue
		}
		data, err := json.Marshal(rec.Entities)
		if err != nil {
			return workflow.Errorf(workflow.CodeInternal, "entities cannot be stored: %w", err)
		}
		stored, err := s.ports.Packs.Save(ctx, p.Key, data)
		if err != nil {
			return err
		}
		rec.Entities, rec.Stored = nil, &stored
		s.keepRecord(p, i, rec)
	}
	return nil
}

// failLargest fails the jobs that leave more than their share besides a result, and
// returns how much is left of all.
func (s *session) failLargest(p *workflow.Pack) (besides int) {
	share := packRoom / len(p.Jobs)
	for i, rec := range p.Jobs {
		if size := left(&rec); size > share {
			a := failed("LIMIT", "what the job leaves besides its result has %d bytes, its pack has room for %d", size, share)
			a.Result, a.Stored = rec.Result, rec.Stored
			s.keepRecord(p, i, record(rec, a, rec.StartedAt, rec.EndedAt))
		}
		besides += left(&p.Jobs[i])
	}
	return besides
}

// keepRecord replaces a job's record in what is written, and in what the session
// has where that still is the same.
func (s *session) keepRecord(p *workflow.Pack, i int, rec workflow.JobRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine := &s.pack.Jobs[i]; mine.Code == p.Jobs[i].Code && bytes.Equal(mine.Result, p.Jobs[i].Result) {
		*mine = rec
	}
	p.Jobs[i] = rec
}
