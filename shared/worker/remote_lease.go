package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// RemoteLease is a pack whose jobs another program runs, such as one that polls over HTTP. The
// service follows the delivery protocol on behalf of that program: a Worker with the program's name
// and nonce claims the pack, renews its lease and finishes it. Each call may come from another
// process, so all state is in the pack item.
type RemoteLease struct {
	Pack *workflow.Pack
	Jobs []*Job // the jobs that have not ended; set only by LeaseRemote
}

// RemoteResult is what the program reports about a leased pack.
type RemoteResult struct {
	Results  map[string]JobResult // by job id
	NotBegun []string             // ids of jobs it will not start, after it was asked to cancel

	// Reports are the program's reports about jobs that it is still running, by job id. Heartbeat
	// means that it reports nothing else, and asks for more time.
	Reports   map[string]JobReport
	Heartbeat bool
}

// LeaseRemote claims a message's pack and returns it with its open jobs. All of them count as
// started with the claim. lease is nil if there is nothing to run: then d says what to do with the
// message.
//
// Pure jobs are claimed too: the claim proves that the results come from its holder.
func (w *Worker) LeaseRemote(ctx context.Context, m *workflow.PackMessage, p Ports) (lease *RemoteLease, d Disposition, err error) {
	if m, err = loadMessagePayload(ctx, m, p); err != nil {
		return nil, d, err
	}
	s := w.newRemoteSession(m, p)
	if err := s.loadRollbackInputs(ctx); err != nil {
		return nil, d, err
	}
	if d, proceed := w.checkTime(m); !proceed {
		return nil, d, nil
	}
	if len(secretsOf(&m.Work)) > 0 {
		w.logWarning(ctx, "pack with secrets left to other workers", m, errSecretsWithheld)
		return nil, retryDisposition(secretsDelay), nil
	}
	s.withheld = s.jobsBeyondAnswer()
	if d, stop, err := s.claim(ctx); stop || err != nil {
		return nil, d, err
	}
	if s.pack.Final() || countEnded(s.pack.Jobs) == len(s.pack.Jobs) {
		d, err := s.finishAndFollowUp(ctx)
		return nil, d, err
	}
	return s.newRemoteLease(), Disposition{}, nil
}

// RepeatRemote leases a pack again to the program that claimed it, because the program has not
// received the response to its poll: seen is not confirmed. The token stays; the lease and the
// jobs' deadlines start over. lease is nil if the pack must not be handed out any more: its message
// has expired, it is to be cancelled, the claim was lost, or somebody has reported about it in
// between.
func (w *Worker) RepeatRemote(ctx context.Context, m *workflow.PackMessage, seen *workflow.Pack, p Ports) (lease *RemoteLease, err error) {
	if m, err = loadMessagePayload(ctx, m, p); err != nil {
		return nil, err
	}
	for range maxResumeAttempts {
		if _, proceed := w.checkTime(m); !proceed || seen.Confirmed || seen.CancelRequested {
			return nil, nil
		}
		s := w.newRemoteSession(m, p)
		if err := s.loadRollbackInputs(ctx); err != nil {
			return nil, err
		}
		pack := *seen
		pack.ExpectedLease, pack.ClaimedAt = seen.Lease, w.opts.Now()
		pack.Jobs = append([]workflow.JobRecord(nil), seen.Jobs...)
		for i := range pack.Jobs {
			if pack.Jobs[i].Code == workflow.JobCodeStarted {
				pack.Jobs[i].StartedAt = pack.ClaimedAt
			}
		}
		s.adoptPack(&pack)
		err := s.renewLease(ctx, noJob)
		var conflict *concurrentWriteError
		switch {
		case err == nil:
			return s.newRemoteLease(), nil
		case errors.As(err, &conflict):
			seen = conflict.pack
		case errors.Is(err, error(errPackCancelled)), errors.Is(err, error(errClaimLost)):
			return nil, nil
		default:
			return nil, err
		}
	}
	return nil, workflow.Contended(workflow.CodeUnavailable, "pack %s", m.Key)
}

// newRemoteLease returns the session's pack with its open jobs.
func (s *session) newRemoteLease() *RemoteLease {
	lease := &RemoteLease{Pack: s.pack}
	for i, rec := range s.pack.Jobs {
		if in := s.jobInput(rec.Index); in != nil && rec.Code == workflow.JobCodeStarted {
			job := newJob(s.m, in, s.pack.Token, remoteJobDeadline(s.m, s.pack, i))
			job.saved = s.beginSaving(i)
			lease.Jobs = append(lease.Jobs, job)
		}
	}
	return lease
}

// maxAnswerBytes bounds the inputs of the jobs that one response carries. The response of a Lambda
// function has 6 MiB, of which base64 leaves 4.5 MiB; the rest is for the fixed fields and the
// receipt. One job always fits.
const maxAnswerBytes = 3 << 20

// jobsBeyondAnswer returns the jobs whose inputs no longer fit into one response after those before
// them. Only results to undo and large attributes or parameters are that long.
func (s *session) jobsBeyondAnswer() map[int]bool {
	withheld := map[int]bool{}
	total := 0
	for i := range s.m.Jobs {
		in := s.jobInput(s.m.Jobs[i].Index)
		size := len(in.Attributes) + len(in.Parameters) + len(in.Result) + in.Checkpoints.Bytes()
		if i > 0 && total+size > maxAnswerBytes {
			withheld[in.Index] = true
			continue
		}
		total += size
	}
	return withheld
}

// withheldRecord returns the record of a job that the response cannot carry. It fails with the
// claim, without having been called. The next attempt carries only the jobs that have failed.
func (s *session) withheldRecord(rec workflow.JobRecord, now time.Time) workflow.JobRecord {
	failure := failureResult(Retryable(workflow.FailureWithheld, fmt.Errorf(
		"the inputs of this pack's jobs have more than the %d bytes that one poll can answer: the next attempt takes the rest", maxAnswerBytes)))
	failure.Failure.Unsent = true
	return completedRecord(rec, failure, now, now)
}

// maxResumeAttempts bounds how often ResumeRemote tries again after a concurrent
// write.
const maxResumeAttempts = 6

// ResumeRemote continues the lease of a pack as read. It records the results, fails the jobs whose
// deadline has passed and, if jobs are left, renews the lease. A nil r only asks for more time.
// lease is nil once the pack is final: then d says what to do with its message. CodeClaimLost means
// that the pack no longer belongs to the program and nothing has changed; CodeTooLarge means that
// what it reports cannot be kept.
//
// A pack that is to be cancelled is left unchanged while the program only asks for more time. It is
// finished with the first results.
//
// Two calls may be made at once: each write is conditional on the pack as read, and is tried again
// after a concurrent write.
func (w *Worker) ResumeRemote(ctx context.Context, m *workflow.PackMessage, seen *workflow.Pack, r *RemoteResult, p Ports) (lease *RemoteLease, d Disposition, err error) {
	if m, err = loadMessagePayload(ctx, m, p); err != nil {
		return nil, d, err
	}
	for range maxResumeAttempts {
		lease, d, err = w.tryResumeRemote(ctx, m, seen, r, p)
		var conflict *concurrentWriteError
		if !errors.As(err, &conflict) {
			return lease, d, err
		}
		seen = conflict.pack
	}
	return nil, d, workflow.Contended(workflow.CodeUnavailable, "pack %s", m.Key)
}

func (w *Worker) tryResumeRemote(ctx context.Context, m *workflow.PackMessage, seen *workflow.Pack, r *RemoteResult, p Ports) (lease *RemoteLease, d Disposition, err error) {
	s := w.newRemoteSession(m, p)
	pack := *seen
	pack.ExpectedLease, pack.Confirmed = seen.Lease, true
	pack.Jobs = append([]workflow.JobRecord(nil), seen.Jobs...)
	s.adoptPack(&pack)
	s.cancelled = seen.CancelRequested
	if err := s.recordRemoteResults(r); err != nil {
		if r != nil && r.Heartbeat && !s.cancelled { // an oversized report about one job must not cost the claim
			pack.Jobs = append([]workflow.JobRecord(nil), seen.Jobs...)
			if lost := s.renewLease(ctx, noJob); lost != nil && !errors.Is(lost, error(errPackCancelled)) {
				return nil, d, lost
			}
		}
		return nil, d, err
	}
	switch {
	case countEnded(pack.Jobs) == len(pack.Jobs), s.cancelled && r != nil && !r.Heartbeat:
		d, err := s.finishAndFollowUp(ctx)
		return nil, d, err
	case s.cancelled:
		return &RemoteLease{Pack: s.pack}, d, nil
	}
	if err := s.renewLease(ctx, noJob); err != nil && !errors.Is(err, error(errPackCancelled)) {
		return nil, d, err
	}
	s.markPoolWhileHeld(ctx)
	s.pack.CancelRequested = s.cancelled
	return &RemoteLease{Pack: s.pack}, d, nil
}

// recordRemoteResults ends the jobs that r reports, and those whose deadline has passed. For the
// others it records the reports in r; an error says which of these cannot be kept.
func (s *session) recordRemoteResults(r *RemoteResult) error {
	if r == nil {
		r = &RemoteResult{}
	}
	now := s.w.opts.Now()
	for i := range s.pack.Jobs {
		rec := &s.pack.Jobs[i]
		if rec.Code != workflow.JobCodeStarted {
			continue
		}
		id := workflow.JobID(s.m.Key.Execution, s.m.Key.StepRunSeq, rec.Index, s.m.Key.Attempt)
		s.started[rec.Index] = !slices.Contains(r.NotBegun, id)
		if err := s.recordReport(i, r.Reports[id], now); err != nil {
			return workflow.Errorf(workflow.CodeTooLarge, "job %s: %w", id, err)
		}
		result, reported := r.Results[id]
		switch {
		case reported:
			s.addReportedLogs(i, result.Logs, now)
			result = validated(&s.m.Work, s.m.Jobs[i].Entity != nil, result)
		case now.After(remoteJobDeadline(s.m, s.pack, i).Add(s.w.opts.LeaseMargin)):
			result = timeoutResult(s.m.Work.Timeout.Std())
		default:
			continue
		}
		result = keptCheckpoints(s.pack, i, result)
		*rec = completedRecord(*rec, result.retriedAs(&s.m.Work), rec.StartedAt, now)
	}
	return nil
}

func (w *Worker) newRemoteSession(m *workflow.PackMessage, p Ports) *session {
	s := w.newSession(m, p)
	s.remote = true
	return s
}

// finishAndFollowUp finishes the pack, if it is not final yet, and sends what
// follows.
func (s *session) finishAndFollowUp(ctx context.Context) (d Disposition, err error) {
	p, ownWrite := s.pack, false
	if !p.Final() {
		if p, ownWrite, err = s.finish(ctx); err != nil {
			return d, err
		}
	}
	return s.sendFollowUps(ctx, p, ownWrite)
}

// concurrentWriteError means that another call under the same claim has written the pack first.
// pack is its current state.
type concurrentWriteError struct{ pack *workflow.Pack }

func (e *concurrentWriteError) Error() string { return "the pack was changed by a concurrent write" }

// isConcurrentWrite reports whether p was not written because another call under the same claim has
// written old, the pack in the item.
func isConcurrentWrite(p, old *workflow.Pack) bool {
	return !p.ExpectedLease.IsZero() && old != nil && old.State == workflow.PackClaimed && old.Token == p.Token && !old.Lease.Equal(p.ExpectedLease)
}

// remoteJobDeadline returns when the worker stops waiting for the i-th job of a remote pack. The
// program may run the jobs one after the other, so each job also gets the time of those before it.
func remoteJobDeadline(m *workflow.PackMessage, p *workflow.Pack, i int) time.Time {
	return p.ClaimedAt.Add(time.Duration(i+1) * m.Work.Timeout.Std())
}
