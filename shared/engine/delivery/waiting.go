package delivery

import (
	"context"
	"iter"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// resend offers again what waits without a trace: packs nobody has claimed, and
// packs whose lease is over. A pack that was taken over too often is closed
// instead, and so is one that may not run again and that nobody has taken over
// for too long: what was started in it is not known. lanes holds all packs of the
// run.
//
// A queue may just be long, so that what is offered again and again would make it
// longer: each pause is twice the one before.
func (d *Delivery) resend(ctx context.Context, r *Run, rep *lifecycle.Report, open []place, lanes map[int]map[int]*workflow.Pack, now time.Time) error {
	var messages []*workflow.PackMessage
	fresh := r.Step.EnteredAt // when a worker was last seen at any pack, or else when the run began
	for _, packs := range lanes {
		fresh = later(fresh, lastSeen(maps.Values(packs)))
	}
	waiting, silent := 0, false // silent: one has waited for too long
	for _, p := range open {
		switch {
		case p.pack == nil && p.after.After(now):
			rep.Look(p.after)
			continue
		case p.pack == nil:
		case !p.pack.Lease.Before(now.Add(-d.Skew)):
			rep.Look(p.pack.Lease.Add(d.Skew + d.Grace))
			continue
		case p.pack.Cancel || p.pack.Token >= d.MaxTakeovers || d.stuck(r, p.pack, now):
			if !p.pack.Lease.Before(now.Add(-d.Skew - d.Grace)) {
				rep.Look(p.pack.Lease.Add(d.Skew + d.Grace))
				continue
			}
			if _, err := d.Packs.Seize(ctx, p.pack, seized(p.pack, p.jobs, now)); err != nil {
				return err
			}
			rep.Look(now) // read it again at once, whoever wrote it
			continue
		}
		since, err := r.since(ctx, p, lanes)
		if err != nil {
			return err
		}
		waiting++
		over := later(fresh, since).Add(d.Unclaimed)
		silent = silent || now.After(over)
		again, next := d.again(r, p, since, now)
		if rep.Look(next); now.Before(over) {
			rep.Look(over.Add(time.Millisecond))
		}
		if !again && !silent {
			continue
		}
		m, err := d.offer(ctx, r, p)
		if err != nil {
			return err
		}
		if m == nil { // nobody in it takes part
			waiting--
			if err := d.skip(ctx, r, p.lane, now); err != nil {
				return err
			}
			rep.Look(now)
			continue
		}
		messages = append(messages, m)
	}
	if rep.Silent = silent && waiting == len(open); rep.Silent || len(messages) == 0 {
		return nil
	}
	return d.send(ctx, now, messages)
}

// since is when a place that waits has begun to: with the run, or when what it
// had to wait for before was over.
func (r *Run) since(ctx context.Context, p place, lanes map[int]map[int]*workflow.Pack) (time.Time, error) {
	at := r.Step.EnteredAt
	switch w := r.Step.Window; {
	case p.pack != nil:
		return p.pack.Lease, nil
	case p.attempt > 1:
		return p.after, nil
	case r.Before != nil:
		before, err := r.Before(ctx, p.lane)
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

// again reports whether a place that has waited since then is to be offered now,
// and when to look at it next. What was offered when it began to wait is offered
// again after one pause, after two, four and so on; a claim whose worker is gone,
// of which nobody else is told, at once. What was due before the alarm that has
// rung was seen to when it was set, give or take a pause.
func (d *Delivery) again(r *Run, p place, since, now time.Time) (bool, time.Time) {
	if p.pack != nil {
		since = since.Add(-d.Poll)
	}
	pause := d.Poll
	if now.Before(since.Add(pause)) {
		return false, since.Add(pause)
	}
	for !now.Before(since.Add(2 * pause)) {
		pause *= 2
	}
	return !since.Add(pause).Before(r.DueAt.Add(-d.Poll)), since.Add(2 * pause)
}

// stuck reports whether a pack has been abandoned for good: its worker has fallen
// silent, and in all the time since no other has come to say so. Jobs that may run
// again are offered again instead, for as long as jobs may wait for any worker.
func (d *Delivery) stuck(r *Run, p *workflow.Pack, now time.Time) bool {
	return !r.Work.Repeatable() && p.Lease.Before(now.Add(-d.Stuck-d.Skew-d.Grace))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
