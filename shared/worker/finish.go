package worker

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// finish writes what came of the jobs, on the condition that the pack is still
// this session's, and returns the final pack.
func (s *session) finish(ctx context.Context) (*workflow.Pack, error) {
	s.mu.Lock()
	p := *s.pack
	p.Jobs = append([]workflow.JobRecord(nil), s.pack.Jobs...)
	p.State, p.FinishedAt = workflow.PackFinished, s.w.Now()
	left := false
	for i := range p.Jobs {
		if code := p.Jobs[i].Code; code == workflow.CodeNone || code == workflow.CodeStarted {
			left = true
		}
	}
	switch {
	case left && !s.cancelled:
		s.mu.Unlock()
		return nil, errLost // stopped for another reason: nothing is final
	case left:
		s.release(&p)
	}
	s.mu.Unlock()
	p.Cost = s.m.Cost.Clone()
	p.Cost.Add(s.ports.Meter.Take())
	ok, old, err := s.ports.Packs.Finish(ctx, &p)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return &p, nil
	case old.Final() && old.Token == p.Token:
		return old, nil // written before, with a lost reply
	}
	return nil, errLost
}

// release makes a cancelled pack final. A job that has not been run counts as not
// executed only where that is certain: it was never written down as started, or
// it was by this very claim, the first, and this worker did not begin it.
func (s *session) release(p *workflow.Pack) {
	p.State = workflow.PackCancelled
	for i := range p.Jobs {
		rec := &p.Jobs[i]
		switch {
		case rec.Code == workflow.CodeNone:
			rec.Code = workflow.CodeNotExecuted
		case rec.Code == workflow.CodeStarted && s.m.Work.Repeatable() && s.firstOwner && !s.started[rec.Index]:
			rec.Code, rec.StartedAt = workflow.CodeNotExecuted, rec.EndedAt
		case rec.Code == workflow.CodeStarted:
			rec.Code, rec.EndedAt = workflow.CodeUnknown, s.w.Now()
		}
	}
}

// withoutClaim runs pure jobs and writes the pack only when they have ended, if
// nobody else has.
func (s *session) withoutClaim(ctx context.Context) (Disposition, error) {
	t0 := s.w.Now()
	s.pack = &workflow.Pack{
		Key: s.m.Key, State: workflow.PackClaimed, Token: 1, Nonce: s.w.Nonce(),
		Worker: s.w.Name, ClaimedAt: t0, Jobs: s.fresh(t0), Lease: t0,
	}
	s.firstOwner = true
	s.leaseEnd = t0.Add(s.w.Unclaimed)
	s.runTogether(ctx)
	if ctx.Err() != nil {
		return Disposition{}, ctx.Err()
	}
	p := *s.pack
	p.State, p.FinishedAt = workflow.PackFinished, s.w.Now()
	p.Cost = s.m.Cost.Clone()
	p.Cost.Add(s.ports.Meter.Take())
	ok, old, err := s.ports.Packs.FinishUnclaimed(ctx, &p)
	switch {
	case err != nil:
		return Disposition{}, err
	case ok:
		return s.after(ctx, &p)
	case old.Final():
		return s.after(ctx, old)
	}
	return later(s.w.Lease), nil
}
