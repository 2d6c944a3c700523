package dispatch

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// redispatch sends packs again that nobody has claimed or whose lease has expired. It seizes a pack
// instead if it was taken over too often, or if its jobs must not run twice and no worker has taken
// it over for too long; started jobs then become UNKNOWN. lanes holds the packs of the open lanes
// and of the lanes that they waited for.
//
// Each pause is twice as long as the previous one, up to a quarter of the messages' lifetime: the
// queue may merely be long, and every message makes it longer. When the lifetime of the messages is
// renewed, the pauses start over, because the earlier messages are about to expire.
func (d *Dispatcher) redispatch(ctx context.Context, r *StepRun, rep *lifecycle.Report, open []laneState, lanes map[int]map[int]*workflow.Pack, now time.Time) error {
	var messages []*workflow.PackMessage
	lastActivity := r.Step.EnteredAt // lower bound of when a worker was last seen with any pack; at first the start of the step run
	exact := r.Step.Lanes() == 1
	for _, packs := range lanes {
		lastActivity = later(lastActivity, lastSeen(maps.Values(packs)))
	}
	waiting := 0
	var overdue time.Time // when the first lane exceeded Limits.Unclaimed; zero if none has
	for _, l := range open {
		switch {
		case l.pack == nil && l.notBefore.After(now):
			rep.CheckBy(l.notBefore)
			continue
		case l.pack == nil:
		case !l.pack.Lease.Before(now.Add(-d.Skew)):
			rep.CheckBy(l.pack.Lease.Add(d.Skew + d.Grace))
			continue
		case l.pack.CancelRequested || l.pack.Token >= d.MaxTakeovers || d.isStuck(r, l.pack, now):
			if !l.pack.Lease.Before(now.Add(-d.Skew - d.Grace)) {
				rep.CheckBy(l.pack.Lease.Add(d.Skew + d.Grace))
				continue
			}
			if _, err := d.Packs.ForceCancel(ctx, l.pack, seizedPack(l.pack, l.jobs, now)); err != nil {
				return err
			}
			rep.CheckBy(now) // read it again at once, even if somebody else wrote it first
			continue
		}
		since, err := r.waitingSince(ctx, l, lanes)
		if err != nil {
			return err
		}
		waiting++
		deadline := later(lastActivity, since).Add(d.Unclaimed)
		if now.After(deadline) && !exact {
			exact = true
			if lastActivity, err = d.lastActivity(ctx, r, lastActivity, now); err != nil {
				return err
			}
			deadline = later(lastActivity, since).Add(d.Unclaimed)
		}
		if now.After(deadline) && (overdue.IsZero() || deadline.Before(overdue)) {
			overdue = deadline
		}
		due, next := d.redispatchDue(r, l, later(since, r.Step.DispatchedAt), now)
		if rep.CheckBy(next); now.Before(deadline) {
			rep.CheckBy(deadline.Add(time.Millisecond))
		}
		if !due && overdue.IsZero() {
			continue
		}
		m, err := d.dueMessage(ctx, r, l)
		if err != nil {
			return err
		}
		if m == nil { // no entity of the lane takes part
			waiting--
			if _, err := d.skipLane(ctx, r, l.lane, now); err != nil {
				return err
			}
			rep.CheckBy(now)
			continue
		}
		if due || !d.offeredSince(r, overdue) {
			messages = append(messages, m)
		}
		if len(messages) == maxMessagesPerSend && (overdue.IsZero() || !d.offeredSince(r, overdue)) {
			if err := d.sendMessages(ctx, r, now, messages); err != nil {
				return err
			}
			messages = nil
		}
	}
	switch {
	case overdue.IsZero() || waiting < len(open):
	case !d.offeredSince(r, overdue):
		rep.Offered = true
		rep.CheckBy(now.Add(d.RedispatchInterval))
	case now.Before(r.Step.OfferedAt.Add(d.RedispatchInterval)):
		rep.CheckBy(r.Step.OfferedAt.Add(d.RedispatchInterval))
	default:
		var err error
		if rep.Unclaimed, rep.PassedOver, err = d.poolIsIdle(ctx, r, now); rep.Unclaimed || err != nil {
			return err
		}
		rep.Behind = !rep.PassedOver
	}
	if len(messages) == 0 {
		return nil
	}
	return d.sendMessages(ctx, r, now, messages)
}

// lastActivity returns when a worker last worked on any pack of the step run, but no earlier than
// after. It stops reading once it finds a time recent enough for the jobs not to count as
// unclaimed, and starts with the lanes that were sent last.
func (d *Dispatcher) lastActivity(ctx context.Context, r *StepRun, after, now time.Time) (time.Time, error) {
	for shard := r.Step.Shards() - 1; shard >= 0 && now.After(after.Add(d.Unclaimed)); shard-- {
		packs, err := d.Packs.ShardPacks(ctx, r.key(), shard)
		if err != nil {
			return after, err
		}
		after = later(after, lastSeen(slices.Values(packs)))
	}
	return after, nil
}

// offeredSince reports whether all that waits was sent since the first lane became overdue, and that was
// committed. Where it was not, the tables or the queue may have been unavailable all the time, or the
// lanes may not have been allowed, and no worker is to blame. What was sent before the lifetime of the
// messages was renewed does not count either: it has expired, or soon will.
func (d *Dispatcher) offeredSince(r *StepRun, overdue time.Time) bool {
	return overdue.IsZero() || !r.Step.OfferedAt.Before(overdue) && r.Step.OfferedAt.After(r.Step.DispatchedAt)
}

// UnclaimedNotBefore returns the earliest time at which unclaimed jobs of a step run count as
// having no worker: after the longest wait they are offered once more. A sweep notices that later.
func (l Limits) UnclaimedNotBefore(r *workflow.StepRun) time.Time {
	overdue := r.EnteredAt.Add(l.Unclaimed)
	return later(overdue, r.OfferedAt).Add(l.RedispatchInterval)
}

// poolIsIdle reports whether no worker of the step run's pool has the packs of this one in its queue
// behind others. It has if it was seen with another step run of the same pipeline, or with a message that was
// sent before this step run was offered last, not longer than Limits.Unclaimed ago. A message that was sent
// later has passed this step run over. A worker may still have the packs then, as those of pure blocks are not claimed;
// when that has been so for Limits.Unclaimed, and they were not seen behind others since, nobody serves the block.
func (d *Dispatcher) poolIsIdle(ctx context.Context, r *StepRun, now time.Time) (idle, passedOver bool, err error) {
	if r.PoolLastSeen != nil {
		at, err := r.PoolLastSeen(ctx)
		if err != nil || !now.After(at.Add(d.Unclaimed)) {
			return false, false, err
		}
	}
	mark, err := d.Packs.PoolMark(ctx, r.Work.Pool)
	own := mark.Execution == r.Execution && mark.StepRun == r.Step.Seq // whose worker is lost each time, or it would be done
	if err != nil || own && mark.At.After(now.Add(-d.Skew)) {
		return false, false, err // it has been at work since the packs were read
	}
	if own || now.After(mark.At.Add(d.Unclaimed)) {
		return true, false, nil
	}
	passedOver = mark.SentAt.After(r.Step.OfferedAt)
	return passedOver && r.Step.PassedOver() && now.After(r.Step.PassedOverAt.Add(d.Unclaimed)), passedOver, nil
}

// waitingSince returns when a lane began to wait for a worker: when its lease expired, its retry
// became due, its predecessor ended, or the step run began. With a pace, it is not before the time
// of the lane.
func (r *StepRun) waitingSince(ctx context.Context, l laneState, lanes map[int]map[int]*workflow.Pack) (time.Time, error) {
	at := later(r.Step.EnteredAt, r.Work.LaneNotBefore(l.lane))
	switch w := r.Step.Window; {
	case l.pack != nil:
		return l.pack.Lease, nil
	case l.attempt > 1:
		return l.notBefore, nil
	case r.PredecessorEndedAt != nil:
		before, err := r.PredecessorEndedAt(ctx, l.lane)
		return later(at, before), err
	case w > 0 && l.lane >= w:
		return later(at, lastSeen(maps.Values(lanes[l.lane-w]))), nil
	}
	return at, nil
}

// lastSeen returns when a worker last worked on any of the packs; zero if none has. For a final
// pack that is its end, for a claimed pack the end of its lease.
func lastSeen(packs iter.Seq[*workflow.Pack]) (at time.Time) {
	for p := range packs {
		if p.Final() {
			at = later(at, p.FinishedAt)
		} else {
			at = later(at, p.Lease)
		}
	}
	return at
}

// redispatchDue reports whether a lane is due to be sent now, and when to check it next. since is
// when the lane began to wait or, if later, when the lifetime of the messages was renewed.
//
// A pack was sent when it began to wait; it is sent again after one pause, two, four and so on. An
// expired claim is sent at once, because nothing else makes another worker take it over. Times that
// precede the execution's timer by more than one pause were handled when that timer was set.
func (d *Dispatcher) redispatchDue(r *StepRun, l laneState, since, now time.Time) (bool, time.Time) {
	if l.pack != nil {
		since = since.Add(-d.RedispatchInterval)
	}
	longest := max(d.RedispatchInterval, d.MessageLife/4)
	waited, next := time.Duration(0), d.RedispatchInterval
	for !now.Before(since.Add(next)) {
		waited, next = next, next+min(next, longest)
	}
	return waited > 0 && !since.Add(waited).Before(r.DueAt.Add(-d.RedispatchInterval)), since.Add(next)
}

// isStuck reports whether a claim is abandoned: its lease expired longer than Limits.Stuck ago, and
// no other worker has taken it over. Packs whose jobs may run again are never stuck; they are sent
// again for as long as jobs may wait for a worker.
func (d *Dispatcher) isStuck(r *StepRun, p *workflow.Pack, now time.Time) bool {
	return !r.Work.Repeatable() && p.Lease.Before(now.Add(-d.Stuck-d.Skew-d.Grace))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
