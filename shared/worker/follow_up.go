package worker

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// sendFollowUps sends what follows a pack that is known to be final, no matter who finished it.
// Failed jobs with attempts left get their next attempt. Otherwise the lane is added to the done
// set and the next lane of the window is sent. The engine is woken if this completes the set, or if
// the lane was unsuccessful and that may decide something. All of it may be done twice; the message
// is deleted only after all of it is done.
//
// The pack's cost goes into the done set if this session finished the pack. A session that finds
// the pack final adds only its own cost, because the rest has been counted.
func (s *session) sendFollowUps(ctx context.Context, p *workflow.Pack, ownWrite bool) (Disposition, error) {
	if s.m.Work.EngineDriven {
		// Only the engine knows what follows. It also records the end of the lane.
		cost := s.ports.Meter.Take()
		cost.QueueRequests++
		return doneDisposition, s.sendWakeup(ctx, workflow.Wakeup{Lane: &p.Key.Lane, StepRunSeq: p.Key.StepRunSeq, Cost: cost})
	}
	if indexes := workflow.RetryableJobs(p, s.m.Work.MaxAttempts()); len(indexes) > 0 {
		return s.sendRetry(ctx, p, indexes, ownWrite)
	}
	end := workflow.LaneResult{Unsuccessful: s.m.Unsuccessful || p.Unsuccessful(), Failures: p.Failures(s.m.Failures, nil), HasUpdates: s.m.HasUpdates || p.HasUpdates()}
	total := s.m.Work.Lanes
	if total == 1 {
		// The engine reads the pack itself. The pack contains all costs except those of its last
		// write and of this message.
		cost := s.ports.Meter.Take()
		cost.QueueRequests++
		wakeup := workflow.Wakeup{Cost: cost}
		if p.Key.StepRunOrdinal == 1 { // the engine reads the pack together with the execution
			wakeup.StepRunSeq = p.Key.StepRunSeq
		}
		return doneDisposition, s.sendWakeup(ctx, wakeup)
	}
	if ownWrite {
		end.Cost = p.Cost.Clone()
	}
	end.Cost.Add(s.ports.Meter.Take())
	end.Cost.Add(workflow.Cost{WriteUnits: map[string]float64{topology.TableJobs: 1}, DynamoRequests: 1}) // this write
	set, err := s.ports.Packs.AddDone(ctx, p.Key, end)
	if err != nil {
		return Disposition{}, err
	}
	expired := s.m.ExpiredAt(s.w.opts.Now()) // so is the next lane; the engine may be waiting for this pack to close the step run
	// Only the worker that adds the lane sends the next one; otherwise each copy of a message would
	// begin a chain of copies. If that worker dies before sending it, the timer sends it.
	if set.Added && p.State == workflow.PackFinished && !expired {
		if err := s.sendNextLane(ctx); err != nil {
			return Disposition{}, err
		}
	}
	if s.m.Work.Decides(end, p.Key.Lane, len(set.Done)) || expired {
		if err := s.sendWakeup(ctx, workflow.Wakeup{Cost: workflow.Cost{QueueRequests: 1}}); err != nil {
			return Disposition{}, err
		}
	}
	return doneDisposition, nil
}

// sendRetry sends the next attempt of the jobs at the given indexes. If the worker finished the
// pack itself, it keeps an attempt that is due soon.
func (s *session) sendRetry(ctx context.Context, p *workflow.Pack, indexes []int, ownWrite bool) (Disposition, error) {
	pause := max(s.m.Work.Retry.DelayBefore(p.Key.Attempt+1), p.RetryAfter(indexes))
	at := p.FinishedAt.Add(s.withJitter(pause))
	next := s.m.NextAttempt(indexes, at)
	next.ContinueFrom(p)
	for _, j := range p.Jobs {
		if j.Code != workflow.JobCodeOK && !slices.Contains(indexes, j.Index) {
			next.Unsuccessful = true
		}
	}
	next.Failures = p.Failures(next.Failures, indexes)
	next.HasUpdates = next.HasUpdates || p.HasUpdates()
	if s.m.Work.Lanes > 1 {
		next.Cost = p.Cost.Clone() // the done set gets the sum; the engine reads the packs of a single lane one by one
	}
	next.Cost.Add(s.ports.Meter.Take())
	if ownWrite && s.keepsRetry(ctx, next) {
		s.keptRetry = next
		return doneDisposition, nil
	}
	next.Cost.Add(workflow.Cost{QueueRequests: 1}) // of this message
	return doneDisposition, s.sendPack(ctx, next)
}

// keepsRetry reports whether this worker waits for the attempt itself, because it is due soon and
// the process will have time for it.
func (s *session) keepsRetry(ctx context.Context, next *workflow.PackMessage) bool {
	now := s.w.opts.Now()
	pause := next.NotBefore.Sub(now)
	return pause <= maxRetryPause && !next.NotBefore.After(s.keepsRetriesUntil) && !next.ExpiredAt(now) && s.hasTimeIn(ctx, pause)
}

// withJitter lengthens a pause by up to the jitter of the retry policy. It never shortens the
// pause, and no other worker starts the attempt before the end of the pause.
func (s *session) withJitter(d time.Duration) time.Duration {
	if s.m.Work.Retry == nil { // only withheld jobs
		return d
	}
	return d + time.Duration(float64(d)*s.m.Work.Retry.Jitter*s.w.opts.Jitter())
}

// sendNextLane sends the next lane of the window. If the rest of the chain was cut
// off because the message was too large, it asks the engine to send that lane.
func (s *session) sendNextLane(ctx context.Context) error {
	request := workflow.Cost{QueueRequests: 1} // what follows carries it
	if next := s.m.NextLane(); next != nil {
		next.Cost.Add(request)
		return s.sendPack(ctx, next)
	}
	if lane := s.m.ChainCut; lane != 0 {
		return s.sendWakeup(ctx, workflow.Wakeup{Lane: &lane, StepRunSeq: s.m.Key.StepRunSeq, Cost: request})
	}
	return nil
}

// sendPack sends one pack. If the pack has expired, it wakes the engine instead, which decides what
// to do with it. It returns an error if the queue did not accept the message: then the current
// message stays in its queue and is delivered again.
func (s *session) sendPack(ctx context.Context, m *workflow.PackMessage) error {
	if m.ExpiredAt(s.w.opts.Now()) {
		return s.sendWakeup(ctx, workflow.Wakeup{})
	}
	m.MarkSent(s.w.opts.Now())
	offloaded, err := m.OffloadPayload(func(key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
		return s.ports.Packs.SavePayload(ctx, key, data)
	})
	if err != nil {
		return err
	}
	failed, err := s.ports.Sender.SendPacks(ctx, s.w.opts.Now(), []*workflow.PackMessage{offloaded})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent", m.Key)
	}
	return err
}

func (s *session) sendWakeup(ctx context.Context, l workflow.Wakeup) error {
	l.Tenant, l.Execution, l.Reason = s.m.Key.Tenant, s.m.Key.Execution, "pack "+s.m.Key.String()
	return s.ports.Sender.SendWakeups(ctx, 0, l)
}
