package worker

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// loadMessagePayload returns the message with its jobs. Jobs that are too large for a
// message are stored in separate items.
func loadMessagePayload(ctx context.Context, m *workflow.PackMessage, ports Ports) (*workflow.PackMessage, error) {
	return m.LoadPayload(func(key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
		return ports.Packs.LoadPayload(ctx, key, s)
	})
}

// loadRollbackInputs loads results to undo that are too large for the message. It runs before the
// pack is claimed: a job whose input cannot be read must not count as started.
func (s *session) loadRollbackInputs(ctx context.Context) error {
	for _, in := range s.m.Jobs {
		if in.ResultRef == nil || in.ResultRef.Pack == nil {
			continue
		}
		result, err := s.ports.Packs.LoadPayload(ctx, *in.ResultRef.Pack, *in.ResultRef)
		if err != nil {
			return err
		}
		in.Result, in.ResultRef = result, nil
		if s.rollbackInputs == nil {
			s.rollbackInputs = map[int]*workflow.JobInput{}
		}
		s.rollbackInputs[in.Index] = &in
	}
	return nil
}

// maxPackItemBytes is roughly how many bytes a pack item has for the results,
// updates, entities and failures of its jobs.
const maxPackItemBytes = 256 << 10

// recordSize returns roughly how many bytes a job's record takes without its result.
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

// offloadResults makes the pack fit its item. It stores the largest results in
// separate items until the rest fits, before the pack that refers to them is written.
// Logs are given up if there is no room for them beside everything else.
// Everything else must fit: a job whose other output exceeds its share of the item
// fails, and keeps its result. p is the pack about to be written; the session's own
// records are changed with it.
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
	logs := logBytes(p.Jobs)
	if otherBytes+logs > maxPackItemBytes {
		s.giveUpLogs(p)
		logs = 0
	}
	if otherBytes += logs; otherBytes+resultBytes <= maxPackItemBytes {
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

// offloadEntities stores the entities that ACQUIRE jobs have found in separate items, in place of a
// result, which such a job does not have.
func (s *session) offloadEntities(ctx context.Context, p *workflow.Pack) error {
	for i, rec := range p.Jobs {
		if len(rec.Entities) == 0 {
			continue
		}
		data, err := workflow.EncodeJSON(rec.Entities)
		if err != nil {
			return workflow.Errorf(workflow.CodeInternal, "entities cannot be encoded: %w", err)
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

// failOversized fails the jobs whose output, apart from the result, exceeds their share of the
// item. It returns the remaining size of all such output.
func (s *session) failOversized(p *workflow.Pack) (otherBytes int) {
	share := maxPackItemBytes / len(p.Jobs)
	for i, rec := range p.Jobs {
		if size := recordSize(&rec); size > share {
			failure := failureResult(Terminal(workflow.FailureLimit, fmt.Errorf("the job's output other than its result has %d bytes, its share of the pack is %d", size, share)))
			failure.Result = rec.Result
			failed := completedRecord(rec, failure, rec.StartedAt, rec.EndedAt)
			failed.ResultRef = rec.ResultRef
			s.replaceRecord(p, i, failed)
		}
		otherBytes += recordSize(&p.Jobs[i])
	}
	return otherBytes
}

// replaceRecord replaces a job's record in the pack about to be written, and in the
// session's pack if that still has the same record.
func (s *session) replaceRecord(p *workflow.Pack, i int, rec workflow.JobRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := &s.pack.Jobs[i]; current.Code == p.Jobs[i].Code && bytes.Equal(current.Result, p.Jobs[i].Result) {
		*current = rec
	}
	p.Jobs[i] = rec
}
