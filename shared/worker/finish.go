package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// finishTimeout bounds the write of what came of the jobs. It is made even where
// the process has been told to stop, for otherwise all of it would be lost.
const finishTimeout = 10 * time.Second

// finish writes what came of the jobs, on the condition that the pack is still
// this session's, and returns the final pack. own says that it is this session's
// end; pure jobs may have been ended by somebody else.
//
// The lease may be over by now: as long as nobody has taken the pack over, what
// came of its jobs is still true.
func (s *session) finish(ctx context.Context) (p *workflow.Pack, ownWrite bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	p, put := s.finalPack(), s.ports.Packs.Finish
	if p == nil {
		s.saveProgress(ctx)
		return nil, false, errWorkerStopped
	}
	if s.unclaimed {
		put = s.ports.Packs.FinishUnclaimed
	}
	ok, old, err := s.writePack(ctx, p, put)
	if s.unclaimed && err == nil && !ok && old != nil && !old.Final() {
		now := s.config.Now()
		switch workflow.EvaluateClaim(old, now, s.config.MaxClockSkew, s.config.MaxClaims) {
		case workflow.ClaimLeased:
			return nil, false, &claimedElsewhereError{retryDisposition(old.Lease.Add(s.config.MaxClockSkew + time.Millisecond).Sub(now))}
		case workflow.ClaimLeftToEngine:
			return nil, false, &claimedElsewhereError{doneDisposition} // the engine's alarm closes it
		}
		p = mergeExpiredClaim(old, p)
		ok, old, err = s.ports.Packs.TakeOver(ctx, old, p)
	}
	switch {
	case err != nil:
		return nil, false, err
	case ok:
		return p, true, nil
	case s.unclaimed && old.Final():
		return old, false, nil
	case isConcurrentWrite(p, old):
		return nil, false, &concurrentWriteError{old}
	}
	return nil, false, errClaimLost
}

// claimedElsewhereError is the error of an end of pure jobs whose pack is not to be taken from
// whoever has claimed it; so says what becomes of the message.
type claimedElsewhereError struct{ disposition sessionDisposition }

func (e *claimedElsewhereError) Error() string { return "somebody else has the pack" }

// mergeExpiredClaim is the end of pure jobs that nobody here has claimed, where somebody
// else has, whose time is over: packs are claimed whenever they are lent. What had
// ended under that claim stays.
func mergeExpiredClaim(expired, end *workflow.Pack) *workflow.Pack {
	p := *end
	p.Token = expired.Token + 1
	p.Jobs = append([]workflow.JobRecord(nil), end.Jobs...)
	for i := range p.Jobs {
		for _, rec := range expired.Jobs {
			if rec.Index == p.Jobs[i].Index && rec.Code != workflow.JobCodeNone && rec.Code != workflow.JobCodeStarted {
				p.Jobs[i] = rec
			}
		}
	}
	return &p
}

// saveProgress writes down what has ended where not everything has, so that whoever
// takes the pack over does not do it again, or call it unknown.
func (s *session) saveProgress(ctx context.Context) {
	s.mu.Lock()
	unsaved := countEnded(s.pack.Jobs) > s.savedCount
	s.mu.Unlock()
	if s.unclaimed || !unsaved {
		return
	}
	if err := s.renewLease(ctx, noJob); err != nil {
		s.config.logWarning(ctx, "what has ended is not written down", s.m, err)
	}
}

// finalPack is the pack as it is when all jobs have ended, or when it is released
// because the engine has asked for it. It is nil if jobs are left for any other
// reason: then nothing is final.
func (s *session) finalPack() *workflow.Pack {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.snapshot()
	p.State, p.FinishedAt = workflow.PackFinished, s.config.Now()
	for i := range p.Jobs {
		if code := p.Jobs[i].Code; code != workflow.JobCodeNone && code != workflow.JobCodeStarted {
			continue
		}
		if !s.cancelled {
			return nil
		}
		p.State = workflow.PackCancelled
		s.releaseJob(&p.Jobs[i])
	}
	return p
}

// releaseJob ends a job that a cancelled pack leaves. It counts as not executed only
// where that is certain: it was never written down as started, or it was by this
// very claim, the first, and this worker did not begin it.
func (s *session) releaseJob(rec *workflow.JobRecord) {
	switch {
	case rec.Code == workflow.JobCodeNone:
		rec.Code = workflow.JobCodeNotExecuted
	case s.m.Work.Repeatable() && s.firstClaim && !s.started[rec.Index]:
		rec.Code, rec.StartedAt = workflow.JobCodeNotExecuted, time.Time{}
	default:
		rec.Code, rec.EndedAt = workflow.JobCodeUnknown, s.config.Now()
	}
}
