package session

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
// Pure jobs need no claim: their pack is written when they have ended.
func (s *session) claim(ctx context.Context) (d Disposition, stop bool, err error) {
	t0 := s.w.Now()
	if t0.After(s.m.NotAfter) {
		return done, true, nil
	}
	p := &workflow.Pack{
		Key: s.m.Key, State: workflow.PackClaimed, Token: 1, Lease: t0.Add(s.w.Lease),
		Nonce: s.w.Nonce(), Worker: s.w.Name, ClaimedAt: t0, Jobs: s.fresh(t0),
	}
	if s.free {
		s.take(p)
		return d, false, nil
	}
	ok, old, err := s.ports.Packs.Claim(ctx, p)
	if err != nil {
		return d, true, err
	}
	for try := 0; !ok; try++ {
		if old == nil || try == claimTries {
			return later(time.Second), true, nil // it changes faster than it can be judged
		}
		now := s.w.Now()
		switch workflow.JudgeClaim(old, now, s.w.Skew, s.w.MaxClaims) {
		case workflow.ClaimFinal:
			s.pack = old
			return d, false, nil
		case workflow.ClaimLive:
			return later(old.Lease.Add(s.w.Skew + time.Millisecond).Sub(now)), true, nil
		case workflow.ClaimEngines:
			return done, true, nil // the engine's alarm closes it
		}
		if now.After(s.m.NotAfter) {
			return done, true, nil
		}
		seen := old
		p = s.takenOver(seen, now)
		if ok, old, err = s.ports.Packs.TakeOver(ctx, seen, p); err != nil {
			return d, true, err
		}
	}
	s.take(p)
	return d, false, nil
}

// fresh are the records of a first claim. All jobs of a repeatable block count as
// started; of another block only the first, which begins at once.
func (s *session) fresh(now time.Time) []workflow.JobRecord {
	records := make([]workflow.JobRecord, len(s.m.Jobs))
	for i, j := range s.m.Jobs {
		records[i] = workflow.JobRecord{Index: j.Index, Code: workflow.CodeNone}
		if s.m.Work.Repeatable() || s.lent || i == 0 {
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
	for i := range p.Jobs {
		switch {
		case p.Jobs[i].Code == workflow.CodeStarted && !s.m.Work.Repeatable():
			p.Jobs[i].Code, p.Jobs[i].EndedAt = workflow.CodeUnknown, now
		case p.Jobs[i].Code == workflow.CodeNone && s.lent:
			p.Jobs[i].Code, p.Jobs[i].StartedAt = workflow.CodeStarted, now
		}
	}
	return &p
}

// take makes the pack this session's. A claim's own cost is written down with the
// next write; what earlier holders have written down stays.
func (s *session) take(p *workflow.Pack) {
	s.pack, s.leaseEnd, s.firstOwner, s.saved = p, p.Lease, p.Token == 1, ended(p.Jobs)
	if p.Cost.IsZero() {
		p.Cost = s.m.Cost.Clone()
	}
}
