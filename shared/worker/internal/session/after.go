package session

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// after sends what follows a pack that is known to be final, whoever made it so:
// the next attempt of failed jobs, or else the lane's entry in the done set, the
// next lane of the window, and a look for whoever has completed the set or found
// a failure. Each of these may be done twice; the message is deleted only when
// all are done.
//
// The pack's cost goes into the done set with the end that this session has
// written itself. Whoever finds a pack final adds only what finding it took: most
// such messages are copies, and the pack has been counted.
func (s *session) after(ctx context.Context, p *workflow.Pack, own bool) (Disposition, error) {
	if s.m.Work.Guided {
		// Only the engine can say what follows, and it writes down the lane's end.
		cost := s.ports.Meter.Take()
		cost.Queue++
		return done, s.notify(ctx, workflow.Look{Lane: &p.Key.Lane, RunSeq: p.Key.RunSeq, Cost: cost})
	}
	if again := workflow.Retries(p, s.m.Work.MaxAttempts()); len(again) > 0 {
		return s.retry(ctx, p, again)
	}
	end := workflow.LaneEnd{Bad: s.m.Bad || p.Bad(), Updates: s.m.Updates || p.AsksUpdates()}
	total := s.m.Work.Lanes
	if total == 1 {
		// The engine reads the pack, which has all costs but those of its last write
		// and of this message.
		cost := s.ports.Meter.Take()
		cost.Queue++
		return done, s.notify(ctx, workflow.Look{Cost: cost})
	}
	if own {
		end.Cost = p.Cost.Clone()
	}
	end.Cost.Add(s.ports.Meter.Take())
	set, err := s.ports.Packs.AddDone(ctx, p.Key, end)
	if err != nil {
		return Disposition{}, err
	}
	if p.State == workflow.PackFinished {
		if err := s.nextLane(ctx); err != nil {
			return Disposition{}, err
		}
	}
	shard := p.Key.Shard()
	size := min(workflow.LanesPerShard, total-shard*workflow.LanesPerShard)
	if end.Bad || len(set.Done) >= size {
		if err := s.notify(ctx, workflow.Look{}); err != nil {
			return Disposition{}, err
		}
	}
	return done, nil
}

// retry sends the next attempt of the jobs that failed and may succeed.
func (s *session) retry(ctx context.Context, p *workflow.Pack, again []int) (Disposition, error) {
	at := p.FinishedAt.Add(s.jittered(s.m.Work.Retry.Wait(p.Key.Attempt + 1)))
	next := s.m.Successor(again, at)
	for _, j := range p.Jobs {
		if j.Code != workflow.CodeOK && !slices.Contains(again, j.Index) {
			next.Bad = true
		}
	}
	next.Updates = next.Updates || p.AsksUpdates()
	if s.m.Work.Lanes > 1 {
		next.Cost = p.Cost.Clone() // the done set gets the sum; a single lane's packs are read one by one
	}
	next.Cost.Add(s.ports.Meter.Take())
	return done, s.offer(ctx, next)
}

// jittered lengthens a pause by up to the policy's share of it. It never
// shortens: nobody else starts the attempt before the pause is over.
func (s *session) jittered(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*s.m.Work.Retry.Jitter*s.w.Jitter())
}

// nextLane moves the window on.
func (s *session) nextLane(ctx context.Context) error {
	if next := s.m.Next(); next != nil {
		return s.offer(ctx, next)
	}
	if lane := s.m.ChainCut; lane != 0 {
		return s.notify(ctx, workflow.Look{Lane: &lane, RunSeq: s.m.Key.RunSeq})
	}
	return nil
}

// offer sends one pack. One that the queue did not take is an error: this message
// stays and comes back.
func (s *session) offer(ctx context.Context, m *workflow.PackMessage) error {
	fitting, err := m.Room(func(key workflow.PackKey, data []byte) (workflow.Stored, error) {
		return s.ports.Packs.Save(ctx, key, data)
	})
	if err != nil {
		return err
	}
	failed, err := s.ports.Queue.Offer(ctx, s.w.Now(), []*workflow.PackMessage{fitting})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent", m.Key)
	}
	return err
}

func (s *session) notify(ctx context.Context, l workflow.Look) error {
	l.Tenant, l.Execution, l.Why = s.m.Key.Tenant, s.m.Key.Execution, "pack "+s.m.Key.String()
	return s.ports.Queue.Notify(ctx, 0, l)
}
