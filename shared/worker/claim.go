package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxClaimAttempts bounds how often one message tries to take over a pack that
// others are changing.
const maxClaimAttempts = 4

// claim claims the pack for this worker, or finds out that it is final. stop reports that there is
// nothing more to do now; d is then the message's disposition.
//
// The lease counts from before the request. A claim whose reply was lost is recognised by its
// nonce; a matching worker name is never enough. Pure jobs need no claim: their pack is written
// when they have ended. It is read before they begin, because a closed step run starts no job.
func (s *session) claim(ctx context.Context) (d Disposition, stop bool, err error) {
	t0 := s.w.opts.Now()
	if t0.After(s.m.NotAfter) {
		return doneDisposition, true, nil
	}
	p := &workflow.Pack{
		Key: s.m.Key, State: workflow.PackClaimed, Token: 1, Lease: t0.Add(s.w.opts.LeaseDuration),
		Nonce: s.w.opts.NewNonce(), Worker: s.w.opts.Name, ClaimedAt: t0, Jobs: s.newRecords(t0),
	}
	if s.unclaimed {
		old, err := s.readUnclaimed(ctx)
		if err != nil {
			return d, true, err
		}
		if old.Final() {
			s.pack = old
			return d, false, nil
		}
		if old != nil { // claimed for a polling program, or because its jobs have saved something
			verdict := workflow.EvaluateClaim(old, t0, s.w.opts.MaxClockSkew, s.w.opts.MaxClaims)
			if verdict == workflow.ClaimLeased {
				return retryDisposition(old.Lease.Add(s.w.opts.MaxClockSkew + time.Millisecond).Sub(t0)), true, nil
			}
			if verdict == workflow.ClaimLeftToEngine {
				return doneDisposition, true, nil
			}
		}
		if !old.HasCheckpoints() && (old == nil || !s.m.HasCheckpoints()) {
			s.adoptPack(p)
			return d, false, nil
		}
		s.unclaimed = false // saved checkpoints must not be lost
	}
	ok, old, err := s.ports.Packs.Claim(ctx, p)
	if err != nil {
		return d, true, err
	}
	for try := 0; !ok; try++ {
		if old == nil || try == maxClaimAttempts {
			return retryDisposition(time.Second), true, nil // others keep changing it
		}
		now := s.w.opts.Now()
		switch workflow.EvaluateClaim(old, now, s.w.opts.MaxClockSkew, s.w.opts.MaxClaims) {
		case workflow.ClaimFinal:
			s.pack = old
			return d, false, nil
		case workflow.ClaimLeased:
			return retryDisposition(old.Lease.Add(s.w.opts.MaxClockSkew + time.Millisecond).Sub(now)), true, nil
		case workflow.ClaimLeftToEngine:
			return doneDisposition, true, nil // the engine closes it when its timer fires
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
	if old != nil {
		p = old // a call with this nonce has written it before, perhaps in another process
	}
	s.adoptPack(p)
	return d, false, nil
}

// newRecords returns the job records of a first claim. All jobs of a repeatable block, and all jobs
// that another program runs, count as started. In any other pack only the first job does; it starts
// at once.
func (s *session) newRecords(now time.Time) []workflow.JobRecord {
	records := make([]workflow.JobRecord, len(s.m.Jobs))
	for i, j := range s.m.Jobs {
		records[i] = workflow.JobRecord{Index: j.Index, Code: workflow.JobCodeNone, Checkpoints: j.Checkpoints}
		switch {
		case s.withheld[j.Index]:
			records[i] = s.withheldRecord(records[i], now)
		case s.m.Work.Repeatable() || s.remote || i == 0:
			records[i].Code, records[i].StartedAt = workflow.JobCodeStarted, now
		}
	}
	return records
}

// takeoverPack returns the pack under this worker's claim, after another worker's
// lease has expired. Started jobs of a repeatable block may run again. Those of any
// other block become UNKNOWN and never run again.
func (s *session) takeoverPack(old *workflow.Pack, now time.Time) *workflow.Pack {
	p := *old
	p.Token++
	p.Confirmed = false
	p.Lease, p.Nonce, p.Worker, p.ClaimedAt = now.Add(s.w.opts.LeaseDuration), s.w.opts.NewNonce(), s.w.opts.Name, now
	p.Jobs = append([]workflow.JobRecord(nil), old.Jobs...)
	for i := range p.Jobs {
		switch {
		case p.Jobs[i].Code == workflow.JobCodeStarted && !s.m.Work.Repeatable():
			p.Jobs[i].Code, p.Jobs[i].EndedAt, p.Jobs[i].Failure = workflow.JobCodeUnknown, now, old.WorkerLost()
		case !hasEnded(p.Jobs[i].Code) && s.withheld[p.Jobs[i].Index]:
			started := p.Jobs[i].Code == workflow.JobCodeStarted
			p.Jobs[i] = s.withheldRecord(p.Jobs[i], now)
			p.Jobs[i].Failure.Unsent = !started // an earlier holder may have called it
		case p.Jobs[i].Code == workflow.JobCodeNone && s.remote:
			p.Jobs[i].Code, p.Jobs[i].StartedAt = workflow.JobCodeStarted, now
		}
	}
	return &p
}

// adoptPack makes p the session's pack. It adds the message's cost unless an earlier
// claim has already written it.
func (s *session) adoptPack(p *workflow.Pack) {
	s.pack, s.leaseEnd, s.firstClaim, s.savedCount = p, p.Lease, p.Token == 1, countEnded(p.Jobs)
	if p.Cost.IsZero() {
		p.Cost = s.m.Cost.Clone()
	}
}
