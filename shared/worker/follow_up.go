package worker

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// sendFollowUps sends what follows a pack that is known to be final, whoever made it so:
// the next attempt of failed jobs, or else the lane's entry in the done set, the
// next lane of the window, and a look for whoever has completed the set or found
// a failure. Each of these may be done twice; the message is deleted only when
// all are done.
//
// The pack's cost goes into the done set with the end that this session has
// written itself. Whoever finds a pack final adds only what finding it took: most
// such messages are copies, and the pack has been counted.
func (s *session) sendFollowUps(ctx context.Context, p *workflow.Pack, ownWrite bool) (sessionDisposition, error) {
	if s.m.Work.EngineDriven {
		// Only the engine can say what follows, and it writes down the lane's end.
		cost := s.ports.Meter.Take()
		cost.QueueRequests++
		return doneDisposition, s.sendWakeup(ctx, workflow.Wakeup{Lane: &p.Key.Lane, StepRunSeq: p.Key.StepRunSeq, Cost: cost})
	}
	if indexes := workflow.RetryableJobs(p, s.m.Work.MaxAttempts()); len(indexes) > 0 {
		return s.sendRetry(ctx, p, indexes)
	}
	end := workflow.LaneResult{Unsuccessful: s.m.Unsuccessful || p.Unsuccessful(), HasUpdates: s.m.HasUpdates || p.HasUpdates()}
	total := s.m.Work.Lanes
	if total == 1 {
		// The engine reads the pack, which has all costs but those of its last write
		// and of this message.
		cost := s.ports.Meter.Take()
		cost.QueueRequests++
		return doneDisposition, s.sendWakeup(ctx, workflow.Wakeup{Cost: cost})
	}
	if ownWrite {
		end.Cost = p.Cost.Clone()
	}
	end.Cost.Add(s.ports.Meter.Take())
	set, err := s.ports.Packs.AddDone(ctx, p.Key, end)
	if err != nil {
		return sessionDisposition{}, err
	}
	if p.State == workflow.PackFinished {
		if err := s.sendNextLane(ctx); err != nil {
			return sessionDisposition{}, err
		}
	}
	shard := p.Key.Shard()
	size := min(workflow.LanesPerShard, total-shard*workflow.LanesPerShard)
	if end.Unsuccessful || len(set.Done) >= size {
		if err := s.sendWakeup(ctx, workflow.Wakeup{}); err != nil {
			return sessionDisposition{}, err
		}
	}
	return doneDisposition, nil
}

// sendRetry sends the next attempt of the jobs that failed and may succeed.
func (s *session) sendRetry(ctx context.Context, p *workflow.Pack, indexes []int) (sessionDisposition, error) {
	at := p.FinishedAt.Add(s.withJitter(s.m.Work.Retry.DelayBefore(p.Key.Attempt + 1)))
	next := s.m.NextAttempt(indexes, at)
	for _, j := range p.Jobs {
		if j.Code != workflow.JobCodeOK && !slices.Contains(indexes, j.Index) {
			next.Unsuccessful = true
		}
	}
	next.HasUpdates = next.HasUpdates || p.HasUpdates()
	if s.m.Work.Lanes > 1 {
		next.Cost = p.Cost.Clone() // the done set gets the sum; a single lane's packs are read one by one
	}
	next.Cost.Add(s.ports.Meter.Take())
	return doneDisposition, s.sendPack(ctx, next)
}

// withJitter lengthens a pause by up to the policy's share of it. It never
// shortens: nobody else starts the attempt before the pause is over.
func (s *session) withJitter(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*s.m.Work.Retry.Jitter*s.config.Jitter())
}

// sendNextLane moves the window on.
func (s *session) sendNextLane(ctx context.Context) error {
	if next := s.m.NextLane(); next != nil {
		return s.sendPack(ctx, next)
	}
	if lane := s.m.ChainCut; lane != 0 {
		return s.sendWakeup(ctx, workflow.Wakeup{Lane: &lane, StepRunSeq: s.m.Key.StepRunSeq})
	}
	return nil
}

// sendPack sends one pack. One that the queue did not take is an error: this message
// stays and comes back.
func (s *session) sendPack(ctx context.Context, m *workflow.PackMessage) error {
	offloaded, err := m.OffloadPayload(func(key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
		return s.ports.Packs.SavePayload(ctx, key, data)
	})
	if err != nil {
		return err
	}
	failed, err := s.ports.Sender.SendPacks(ctx, s.config.Now(), []*workflow.PackMessage{offloaded})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent", m.Key)
	}
	return err
}

func (s *session) sendWakeup(ctx context.Context, l workflow.Wakeup) error {
	l.Tenant, l.Execution, l.Reason = s.m.Key.Tenant, s.m.Key.Execution, "pack "+s.m.Key.String()
	return s.ports.Sender.SendWakeups(ctx, 0, l)
}
