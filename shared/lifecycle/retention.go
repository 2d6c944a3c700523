package lifecycle

import "time"

// parentRecheckInterval is when a run is thought of again that another may still ask for.
const parentRecheckInterval = 24 * time.Hour

// retain keeps an acknowledged run for as long as policy says, and gives it up then, in
// three writes: from the first on nobody can have it tried again or see it, so that
// nothing of it is needed when its parts are given up; with the last it goes itself.
// Nobody else wants an alarm at a run like this: it is moved as it fits.
func (d *decider) retain() {
	d.idle()
	x := d.execution
	switch retainUntil := x.EndedAt.Add(d.policy.Retention); {
	case !x.DiscardedAt.IsZero():
		d.discard()
	case d.policy.Retention == 0:
	case !d.timerFired || d.changed:
		// It has just been acknowledged, long after its end perhaps, or the retention
		// is newer than that.
		if d.idleUntil = x.DueAt; d.changed || d.idleUntil.IsZero() {
			d.idleUntil = d.now.Add(d.policy.Retention)
		}
	case d.now.Before(retainUntil):
		d.idleUntil = retainUntil
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

// discard gives up the parts of a run that nobody can reach any more, and then the
// run: an item that is not to be looked at again is the store's to drop.
func (d *decider) discard() {
	switch {
	case d.execution.DueAt.IsZero():
	case !d.facts.Discarded:
		d.need(Need{Kind: NeedDiscarded})
	default:
		d.changed = true
	}
}
