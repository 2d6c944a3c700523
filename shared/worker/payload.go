package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// loadMessagePayload is a message with all of its jobs, wherever these are kept.
func loadMessagePayload(ctx context.Context, m *workflow.PackMessage, ports sessionPorts) (*workflow.PackMessage, error) {
	return m.LoadPayload(func(key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
		return ports.Packs.LoadPayload(ctx, key, s)
	})
}

// loadRollbackInput is the job's input with the result that it is to undo, wherever that is
// kept.
func loadRollbackInput(ctx context.Context, in *workflow.JobInput, ports sessionPorts) (*workflow.JobInput, error) {
	if in.ResultRef == nil || in.ResultRef.Pack == nil {
		return in, nil
	}
	result, err := ports.Packs.LoadPayload(ctx, *in.ResultRef.Pack, *in.ResultRef)
	if err != nil {
		return nil, err
	}
	next := *in
	next.Result, next.ResultRef = result, nil
	return &next, nil
}

// loadRollbackInputs reads the results that the jobs are to undo, before the pack is claimed:
// a job whose input cannot be had must not count as started.
func (s *session) loadRollbackInputs(ctx context.Context) error {
	for i := range s.m.Jobs {
		in, err := loadRollbackInput(ctx, &s.m.Jobs[i], s.ports)
		if err != nil {
			return err
		}
		if in != &s.m.Jobs[i] {
			if s.rollbackInputs == nil {
				s.rollbackInputs = map[int]*workflow.JobInput{}
			}
			s.rollbackInputs[in.Index] = in
		}
	}
	return nil
}

// maxPackItemBytes is about how many bytes one pack's item has for what its jobs leave.
const maxPackItemBytes = 256 << 10

// recordSize is about how many bytes of the item a job's record takes, without its
// result.
func recordSize(rec *workflow.JobRecord) int {
	n := len(rec.Updates)
	for _, e := range rec.Entities {
		n += len(e.Type) + len(e.ID) + 20
	}
	if rec.Failure != nil {
		n += len(rec.Failure.Message) + len(rec.Failure.Details)
	}
	return n
}

// offloadResults makes what the jobs of a pack have left fit its item. Results that do
// not are stored outside it, the largest first, before the item refers to them.
// All else has to fit: where it does not, whoever leaves more than its share fails
// with that, and its result stays. The records are those that are about to be
// written; the session keeps what became of them.
func (s *session) offloadResults(ctx context.Context, p *workflow.Pack) error {
	otherBytes, resultBytes := 0, 0
	for i := range p.Jobs {
		otherBytes += recordSize(&p.Jobs[i])
		resultBytes += len(p.Jobs[i].Result)
	}
	if otherBytes > maxPackItemBytes {
		if err := s.offloadEntities(ctx, p); err != nil {
			return err
		}
		otherBytes = s.failOversized(p)
	}
	if otherBytes+resultBytes <= maxPackItemBytes {
		return nil
	}
	largest := make([]int, len(p.Jobs))
	for i := range largest {
		largest[i] = i
	}
	slices.SortStableFunc(largest, func(a, b int) int { return len(p.Jobs[b].Result) - len(p.Jobs[a].Result) })
	for _, i := range largest {
		rec := p.Jobs[i]
		if otherBytes+resultBytes <= maxPackItemBytes || len(rec.Result) == 0 {
			break
		}
		stored, err := s.ports.Packs.SavePayload(ctx, p.Key, rec.Result)
		if err != nil {
			return err
		}
		resultBytes -= len(rec.Result)
		rec.Result, rec.ResultRef = nil, &stored
		s.replaceRecord(p, i, rec)
	}
	return nil
}

// offloadEntities stores what jobs have found, in place of a result, which an ACQUIRE
// has not.
func (s *session) offloadEntities(ctx context.Context, p *workflow.Pack) error {
	for i, rec := range p.Jobs {
		if len(rec.Entities) == 0 {
			continue
		}
		data, err := json.Marshal(rec.Entities)
		if err != nil {
			return workflow.Errorf(workflow.CodeInternal, "entities cannot be stored: %w", err)
		}
		stored, err := s.ports.Packs.SavePayload(ctx, p.Key, data)
		if err != nil {
			return err
		}
		rec.Entities, rec.ResultRef = nil, &stored
		s.replaceRecord(p, i, rec)
	}
	return nil
}

// failOversized fails the jobs that leave more than their share besides a result, and
// returns how much is left of all.
func (s *session) failOversized(p *workflow.Pack) (otherBytes int) {
	share := maxPackItemBytes / len(p.Jobs)
	for i, rec := range p.Jobs {
		if size := recordSize(&rec); size > share {
			a := failedRecord("LIMIT", "what the job leaves besides its result has %d bytes, its pack has room for %d", size, share)
			a.Result, a.ResultRef = rec.Result, rec.ResultRef
			s.replaceRecord(p, i, completedRecord(rec, a, rec.StartedAt, rec.EndedAt))
		}
		otherBytes += recordSize(&p.Jobs[i])
	}
	return otherBytes
}

// replaceRecord replaces a job's record in what is written, and in what the session
// has where that still is the same.
func (s *session) replaceRecord(p *workflow.Pack, i int, rec workflow.JobRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := &s.pack.Jobs[i]; current.Code == p.Jobs[i].Code && bytes.Equal(current.Result, p.Jobs[i].Result) {
		*current = rec
	}
	p.Jobs[i] = rec
}
