package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// claimTries bounds how often one message judges a pack that changes under it.
const claimTries = 4

// claim gets the pack for this worker, or finds it final. stop says that there is
// nothing more to do with the message now, and d what to do with it.
//
// The lease counts from before the request. A claim whose reply was lost is
// recognised by its nonce; a live claim is never adopted by the worker's name.
func (s *session) claim(ctx context.Context) (d Disposition, stop bool, err error) {
	t0 := s.w.Now()
	if t0.After(s.m.NotAfter) {
		return done, true, nil
	}
	p := &workflow.Pack{
		Key: s.m.Key, State: workflow.PackClaimed, Token: 1, Lease: t0.Add(s.w.Lease),
		Nonce: s.w.Nonce(), Worker: s.w.Name, ClaimedAt: t0, Jobs: s.fresh(t0),
	}
	ok, old, err := s.ports.Packs.Claim(ctx, p)
	if err != nil {
		return d, true, err
	}
	if ok {
		s.take(p, t0)
		return d, false, nil
	}
	for range claimTries {
		if old == nil {
			return later(time.Second), true, nil // it was there a moment ago
		}
		now := s.w.Now()
		switch workflow.JudgeClaim(old, now, s.w.Skew, s.w.MaxClaims) {
		case workflow.ClaimFinal:
			s.pack = old
			return d, false, nil
		case workflow.ClaimLive:
			return later(old.Lease.Add(s.w.Skew).Sub(now)), true, nil
		case workflow.ClaimEngines:
			return done, true, nil // the engine's alarm closes it
		}
		next := s.takenOver(old, now)
		ok, now2, err := s.ports.Packs.TakeOver(ctx, old, next)
		if err != nil {
			return d, true, err
		}
		if ok {
			s.take(next, now)
			return d, false, nil
		}
		old = now2
	}
	return later(time.Second), true, nil
}

// fresh are the records of a first claim. All jobs of a repeatable block count as
// started; of another block only the first, which begins at once.
func (s *session) fresh(now time.Time) []workflow.JobRecord {
	records := make([]workflow.JobRecord, len(s.m.Jobs))
	for i, j := range s.m.Jobs {
		records[i] = workflow.JobRecord{Index: j.Index, Code: workflow.CodeNone}
		if s.m.Work.Repeatable() || i == 0 {
			records[i].Code, records[i].StartedAt = workflow.CodeStarted, now
		}
	}
	return records
}

// takenOver is the pack under this worker's claim after another's has run out.
// What was started of a repeatable block may run again; of another block it is
// not known, and never runs again.
func (s *session) takenOver(old *workflow.Pack, now time.Time) *workflow.Pack {
	p := *old
	p.Token++
	p.Lease, p.Nonce, p.Worker, p.ClaimedAt = now.Add(s.w.Lease), s.w.Nonce(), s.w.Name, now
	p.Jobs = append([]workflow.JobRecord(nil), old.Jobs...)
	if !s.m.Work.Repeatable() {
		for i := range p.Jobs {
			if p.Jobs[i].Code == workflow.CodeStarted {
				p.Jobs[i].Code, p.Jobs[i].EndedAt = workflow.CodeUnknown, now
			}
		}
	}
	return &p
}

// take makes the pack this session's, under a lease that began at t0.
func (s *session) take(p *workflow.Pack, t0 time.Time) {
	s.pack = p
	s.leaseEnd = t0.Add(s.w.Lease)
	s.firstOwner = p.Token == 1
}
