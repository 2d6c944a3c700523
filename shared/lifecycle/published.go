package lifecycle

import "time"

// A separate function hands the events of an execution on to its subscribers. The engine notifies
// it of each commit by a message that may be lost. So the timer of the execution stays near,
// whatever its state, until the events are known to have been published. That takes one commit
// without an event, and nothing in the execution waits for it.

// Delays between two announcements of the same events. The longer the events are not published, the
// longer the delay becomes, because then the problem is in the function that hands them on.
const (
	minAnnounceInterval = time.Minute
	maxAnnounceInterval = 15 * time.Minute
)

// checkPublished checks, when the timer is due, whether the events have been published, and records
// that they have. before is the number of the last committed event.
func (d *decider) checkPublished(before int64) {
	x := d.execution
	if !d.facts.Observed || x.Announced >= x.Sequence || x.Sequence == 0 || !x.DiscardedAt.IsZero() {
		return
	}
	if d.timerFired && x.Sequence == before {
		switch {
		case d.facts.Published == nil:
			d.need(Need{Kind: NeedPublished})
			return
		case *d.facts.Published >= x.Sequence:
			x.Announced, d.changed = x.Sequence, true
			return
		}
	}
	d.announceAt = d.now.Add(minAnnounceInterval)
	if n := len(x.Events); n > 0 {
		d.announceAt = d.now.Add(min(max(d.now.Sub(x.Events[n-1].At), minAnnounceInterval), maxAnnounceInterval))
	}
}

// keepNear makes sure that the timer is due no later than the next announcement. A timer that is
// due earlier stays as it is.
func (d *decider) keepNear() {
	at, due := d.announceAt, d.execution.DueAt
	switch {
	case at.IsZero():
	case !due.IsZero() && !d.timerFired && !due.After(at):
		if !d.wakeAt.IsZero() {
			d.wakeAt = earlier(d.wakeAt, due)
		} else if d.decision.Idle && (d.idleUntil.IsZero() || due.Before(d.idleUntil)) {
			d.idleUntil = due
		}
	case !d.wakeAt.IsZero():
		d.wakeAt = earlier(d.wakeAt, at)
	case d.decision.Idle && (d.idleUntil.IsZero() || at.Before(d.idleUntil)):
		d.idleUntil = at
	}
}

// unannounced reports whether there are subscriptions to which not all events have been published.
func (d *decider) unannounced() bool {
	return d.facts.Observed && d.execution.Announced < d.execution.Sequence
}
