package lifecycle

import "time"

// parentRecheckInterval is when to check again whether the parent may still ask for the execution.
const parentRecheckInterval = 24 * time.Hour

// retain keeps an acknowledged execution for the retention of the policy and then discards it, in
// three writes. The first sets DiscardedAt: from then on nobody can see or retry it, so nothing
// needs its parts. The second drops its parts, and the last lets the item expire. No other code
// sets a timer in this state, so it may be moved freely.
func (d *decider) retain() {
	d.idle()
	x := d.execution
	switch retainUntil := x.EndedAt.Add(d.policy.Retention); {
	case !x.DiscardedAt.IsZero():
		d.discard()
	case d.policy.Retention == 0:
	case !d.timerFired || d.changed:
		// It has just been acknowledged, perhaps long after its end, or the retention was
		// configured later.
		if d.idleUntil = x.DueAt; d.changed || d.idleUntil.IsZero() {
			d.idleUntil = d.now.Add(d.policy.Retention)
		}
	case d.now.Before(retainUntil):
		d.idleUntil = retainUntil
	case d.unannounced():
		d.idleUntil = d.now.Add(minAnnounceInterval)
	case x.Parent != nil && d.facts.Unreferenced == nil:
		d.need(Need{Kind: NeedUnreferenced})
	case x.Parent != nil && !*d.facts.Unreferenced:
		d.idleUntil = d.now.Add(parentRecheckInterval)
	default:
		x.DiscardedAt, d.changed = d.now, true
		d.decision.Idle = false
		d.commitFirst()
	}
}

// discard drops the parts of an execution that nobody can see any more, and then the execution: the
// store drops a discarded item that has no timer.
func (d *decider) discard() {
	switch {
	case d.execution.DueAt.IsZero():
	case !d.facts.Discarded:
		d.need(Need{Kind: NeedDiscarded})
	default:
		d.changed = true
	}
}
