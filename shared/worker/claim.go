package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxClaimAttempts bounds how often one message judges a pack that changes under it.
const maxClaimAttempts = 4

// claim gets the pack for this worker, or finds it final. stop says that there is
// nothing more to do with the message now, and d what to do with it.
//
// The lease counts from before the request. A claim whose reply was lost is
// recognised by its nonce; a live claim is never adopted by the worker's name.
// Pure jobs need no claim: their pack is written when they have ended.
func (s *session) claim(ctx context.Context) (d sessionDisposition, stop bool, err error) {
	t0 := s.config.Now()
	if t0.After(s.m.NotAfter) {
		return doneDisposition, true, nil
	}
	p := &workflow.Pack{
		Key: s.m.Key, State: workflow.PackClaimed, Token: 1, Lease: t0.Add(s.config.LeaseDuration),
		Nonce: s.config.NewNonce(), Worker: s.config.Name, ClaimedAt: t0, Jobs: s.newRecords(t0),
	}
	if s.unclaimed {
		s.adoptPack(p)
		return d, false, nil
	}
	ok, old, err := s.ports.Packs.Claim(ctx, p)
	if err != nil {
		return d, true, err
	}
	for try := 0; !ok; try++ {
		if old == nil || try == maxClaimAttempts {
			return retryDisposition(time.Second), true, nil // it changes faster than it can be judged
		}
		now := s.config.Now()
		switch workflow.EvaluateClaim(old, now, s.config.MaxClockSkew, s.config.MaxClaims) {
		case workflow.ClaimFinal:
			s.pack = old
			return d, false, nil
		case workflow.ClaimLeased:
			return retryDisposition(old.Lease.Add(s.config.MaxClockSkew + time.Millisecond).Sub(now)), true, nil
		case workflow.ClaimLeftToEngine:
			return doneDisposition, true, nil // the engine's alarm closes it
		}
		if now.After(s.m.NotAfter) {
			return doneDisposition, true, nil
		}
		seen := old
		p = s.takeoverPack(seen, now)
		if ok, old, err = s.ports.Packs.TakeOver(ctx, seen, p); err != nil {
			return d, true, err
		}
	}
	s.adoptPack(p)
	return d, false, nil
}

// newRecords are the records of a first claim. All jobs of a repeatable block count as
// started; of another block only the first, which begins at once.
func (s *session) newRecords(now time.Time) []workflow.JobRecord {
	records := make([]workflow.JobRecord, len(s.m.Jobs))
	for i, j := range s.m.Jobs {
		records[i] = workflow.JobRecord{Index: j.Index, Code: workflow.JobCodeNone}
		if s.m.Work.Repeatable() || s.remote || i == 0 {
			records[i].Code, records[i].StartedAt = workflow.JobCodeStarted, now
		}
	}
	return records
}

// takeoverPack is the pack under this worker's claim after another's has run out.
// What was started of a repeatable block may run again; of another block it is
// not known, and never runs again.
func (s *session) takeoverPack(old *workflow.Pack, now time.Time) *workflow.Pack {
	p := *old
	p.Token++
	p.Lease, p.Nonce, p.Worker, p.ClaimedAt = now.Add(s.config.LeaseDuration), s.config.NewNonce(), s.config.Name, now
	p.Jobs = append([]workflow.JobRecord(nil), old.Jobs...)
	for i := range p.Jobs {
		switch {
		case p.Jobs[i].Code == workflow.JobCodeStarted && !s.m.Work.Repeatable():
			p.Jobs[i].Code, p.Jobs[i].EndedAt = workflow.JobCodeUnknown, now
		case p.Jobs[i].Code == workflow.JobCodeNone && s.remote:
			p.Jobs[i].Code, p.Jobs[i].StartedAt = workflow.JobCodeStarted, now
		}
	}
	return &p
}

// adoptPack makes the pack this session's. A claim's own cost is written down with the
// next write; what earlier holders have written down stays.
func (s *session) adoptPack(p *workflow.Pack) {
	s.pack, s.leaseEnd, s.firstClaim, s.savedCount = p, p.Lease, p.Token == 1, countEnded(p.Jobs)
	if p.Cost.IsZero() {
		p.Cost = s.m.Cost.Clone()
	}
}
