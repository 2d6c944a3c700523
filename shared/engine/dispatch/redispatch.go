package dispatch

import (
	"context"
	"iter"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// redispatch offers again what waits without a trace: packs nobody has claimed, and
// packs whose lease is over. A pack that was taken over too often is closed
// instead, and so is one that may not run again and that nobody has taken over
// for too long: what was started in it is not known. lanes holds all packs of the
// run.
//
// A queue may just be long, so that what is offered again and again would make it
// longer: each pause is twice the one before.
func (d *Dispatcher) redispatch(ctx context.Context, r *StepRun, rep *lifecycle.Report, open []laneState, lanes map[int]map[int]*workflow.Pack, now time.Time) error {
	var messages []*workflow.PackMessage
	lastActivity := r.Step.EnteredAt // when a worker was last seen at any pack, or else when the run began
	for _, packs := range lanes {
		lastActivity = later(lastActivity, lastSeen(maps.Values(packs)))
	}
	waiting, unclaimed := 0, false // silent: one has waited for too long
	for _, p := range open {
		switch {
		case p.pack == nil && p.notBefore.After(now):
			rep.CheckBy(p.notBefore)
			continue
		case p.pack == nil:
		case !p.pack.Lease.Before(now.Add(-d.Skew)):
			rep.CheckBy(p.pack.Lease.Add(d.Skew + d.Grace))
			continue
		case p.pack.CancelRequested || p.pack.Token >= d.MaxTakeovers || d.isStuck(r, p.pack, now):
			if !p.pack.Lease.Before(now.Add(-d.Skew - d.Grace)) {
				rep.CheckBy(p.pack.Lease.Add(d.Skew + d.Grace))
				continue
			}
			if _, err := d.Packs.ForceCancel(ctx, p.pack, seizedPack(p.pack, p.jobs, now)); err != nil {
				return err
			}
			rep.CheckBy(now) // read it again at once, whoever wrote it
			continue
		}
		since, err := r.waitingSince(ctx, p, lanes)
		if err != nil {
			return err
		}
		waiting++
		deadline := later(lastActivity, since).Add(d.Unclaimed)
		unclaimed = unclaimed || now.After(deadline)
		due, next := d.redispatchDue(r, p, since, now)
		if rep.CheckBy(next); now.Before(deadline) {
			rep.CheckBy(deadline.Add(time.Millisecond))
		}
		if !due && !unclaimed {
			continue
		}
		m, err := d.dueMessage(ctx, r, p)
		if err != nil {
			return err
		}
		if m == nil { // nobody in it takes part
			waiting--
			if err := d.skipLane(ctx, r, p.lane, now); err != nil {
				return err
			}
			rep.CheckBy(now)
			continue
		}
		messages = append(messages, m)
	}
	if rep.Unclaimed = unclaimed && waiting == len(open); rep.Unclaimed || len(messages) == 0 {
		return nil
	}
	return d.sendMessages(ctx, now, messages)
}

// waitingSince is when a place that waits has begun to: with the run, or when what it
// had to wait for before was over.
func (r *StepRun) waitingSince(ctx context.Context, p laneState, lanes map[int]map[int]*workflow.Pack) (time.Time, error) {
	at := r.Step.EnteredAt
	switch w := r.Step.Window; {
	case p.pack != nil:
		return p.pack.Lease, nil
	case p.attempt > 1:
		return p.notBefore, nil
	case r.PredecessorEndedAt != nil:
		before, err := r.PredecessorEndedAt(ctx, p.lane)
		return later(at, before), err
	case w > 0 && p.lane >= w:
		return later(at, lastSeen(maps.Values(lanes[p.lane-w]))), nil
	}
	return at, nil
}

// lastSeen is when a worker was last seen at any of some packs, zero if none has
// been: at the end of a final one, and a claim is a sign of life up to the end of
// its lease.
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

// redispatchDue reports whether a place that has waited since then is to be offered now,
// and when to look at it next. What was offered when it began to wait is offered
// again after one pause, after two, four and so on; a claim whose worker is gone,
// of which nobody else is told, at once. What was due before the alarm that has
// rung was seen to when it was set, give or take a pause.
func (d *Dispatcher) redispatchDue(r *StepRun, p laneState, since, now time.Time) (bool, time.Time) {
	if p.pack != nil {
		since = since.Add(-d.RedispatchInterval)
	}
	pause := d.RedispatchInterval
	if now.Before(since.Add(pause)) {
		return false, since.Add(pause)
	}
	for !now.Before(since.Add(2 * pause)) {
		pause *= 2
	}
	return !since.Add(pause).Before(r.DueAt.Add(-d.RedispatchInterval)), since.Add(2 * pause)
}

// isStuck reports whether a pack has been abandoned for good: its worker has fallen
// silent, and in all the time since no other has come to say so. Jobs that may run
// again are offered again instead, for as long as jobs may wait for any worker.
func (d *Dispatcher) isStuck(r *StepRun, p *workflow.Pack, now time.Time) bool {
	return !r.Work.Repeatable() && p.Lease.Before(now.Add(-d.Stuck-d.Skew-d.Grace))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
