package worker

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// finishTimeout bounds the write of the results. The results are written even if the
// process has been asked to stop; otherwise they would be lost.
const finishTimeout = 10 * time.Second

// finish writes the results of the jobs if the pack still belongs to this session, and returns the
// final pack. ownWrite reports that this session has made the pack final; a pack of pure jobs may
// have been finished by another worker.
//
// The lease may have expired by now. As long as no other worker has taken over the pack, the
// results are still valid.
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
	if s.unclaimed && err == nil && !ok && old != nil && old.State == workflow.PackClaimed && old.Nonce == p.Nonce && old.Token == p.Token {
		ok, old, err = s.writePack(ctx, p, s.ports.Packs.Finish) // the session's own claim, whose reply was lost
	}
	if s.unclaimed && err == nil && !ok && old != nil && !old.Final() {
		now := s.w.opts.Now()
		switch workflow.EvaluateClaim(old, now, s.w.opts.MaxClockSkew, s.w.opts.MaxClaims) {
		case workflow.ClaimLeased:
			return nil, false, &claimedElsewhereError{retryDisposition(old.Lease.Add(s.w.opts.MaxClockSkew + time.Millisecond).Sub(now))}
		case workflow.ClaimLeftToEngine:
			return nil, false, &claimedElsewhereError{doneDisposition} // the engine closes it when its timer fires
		}
		p = mergeExpiredClaim(old, p)
		ok, old, err = s.ports.Packs.TakeOver(ctx, old, p)
	}
	switch {
	case err != nil:
		return nil, false, err
	case ok:
		s.markPool(ctx)
		return p, true, nil
	case s.unclaimed && old.Final():
		return old, false, nil
	case isConcurrentWrite(p, old):
		return nil, false, &concurrentWriteError{old}
	}
	return nil, false, errClaimLost
}

// claimedElsewhereError is returned for pure jobs whose pack another worker holds. It says what to
// do with the message.
type claimedElsewhereError struct{ disposition Disposition }

func (e *claimedElsewhereError) Error() string { return "another worker holds the pack" }

// mergeExpiredClaim returns the final pack of pure jobs that ran here without a claim, although
// another worker had claimed the pack and its lease has expired. (Packs leased to other programs
// are always claimed.) Jobs that ended under that claim keep their results.
func mergeExpiredClaim(expired, end *workflow.Pack) *workflow.Pack {
	p := *end
	p.Token = expired.Token + 1
	p.Jobs = append([]workflow.JobRecord(nil), end.Jobs...)
	for i := range p.Jobs {
		for _, rec := range expired.Jobs {
			if rec.Index == p.Jobs[i].Index && hasEnded(rec.Code) {
				p.Jobs[i] = rec
			}
		}
	}
	return &p
}

// saveProgress writes the jobs that have ended while others have not. The worker that takes over
// the pack then neither repeats them nor marks them UNKNOWN.
func (s *session) saveProgress(ctx context.Context) {
	s.mu.Lock()
	unsaved := countEnded(s.pack.Jobs) > s.savedCount
	s.mu.Unlock()
	if s.unclaimed || !unsaved {
		return
	}
	if err := s.renewLease(ctx, noJob); err != nil {
		s.w.logWarning(ctx, "results of ended jobs not saved", s.m, err)
	}
}

// finalPack returns the pack to be finished: all jobs have ended, or it is released because the
// engine has asked to cancel. It returns nil if jobs are left for any other reason.
func (s *session) finalPack() *workflow.Pack {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.snapshot()
	p.State, p.FinishedAt = workflow.PackFinished, s.w.opts.Now()
	for i := range p.Jobs {
		if hasEnded(p.Jobs[i].Code) {
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

// releaseJob sets the final code of a job that did not end in a cancelled pack. The
// job counts as not executed only if that is certain: it was never recorded as
// STARTED, or this session's first claim recorded it and the session did not start
// it.
func (s *session) releaseJob(rec *workflow.JobRecord) {
	switch {
	case rec.Code == workflow.JobCodeNone:
		rec.Code = workflow.JobCodeNotExecuted
	case s.m.Work.Repeatable() && s.firstClaim && !s.started[rec.Index]:
		rec.Code, rec.StartedAt = workflow.JobCodeNotExecuted, time.Time{}
	default:
		rec.Code, rec.EndedAt, rec.Failure = workflow.JobCodeUnknown, s.w.opts.Now(), s.pack.WorkerLost()
	}
}
