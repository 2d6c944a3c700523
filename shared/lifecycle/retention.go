package lifecycle

import "time"

// askAgain is when a run is thought of again that another may still ask for.
const askAgain = 24 * time.Hour

// keep keeps an acknowledged run for as long as policy says, and gives it up then, in
// three writes: from the first on nobody can have it tried again or see it, so that
// nothing of it is needed when its parts are given up; with the last it goes itself.
// Nobody else wants an alarm at a run like this: it is moved as it fits.
func (d *decider) keep() {
	d.Rest()
	x := d.X
	switch over := x.EndedAt.Add(d.P.Retention); {
	case !x.DiscardAt.IsZero():
		d.discard()
	case d.P.Retention == 0:
	case !d.Rang || d.Changed:
		// It has just been acknowledged, long after its end perhaps, or the retention
		// is newer than that.
		if d.Sleep = x.DueAt; d.Changed || d.Sleep.IsZero() {
			d.Sleep = d.Now.Add(d.P.Retention)
		}
	case d.Now.Before(over):
		d.Sleep = over
	case x.Parent != nil && d.F.Unneeded == nil:
		d.Need(Need{Kind: NeedUnneeded})
	case x.Parent != nil && !*d.F.Unneeded:
		d.Sleep = d.Now.Add(askAgain)
	default:
		x.DiscardAt, d.Changed = d.Now, true
		d.Out.Rest = false
		d.Pause()
	}
}

// discard gives up the parts of a run that nobody can reach any more, and then the
// run: an item that is not to be looked at again is the store's to drop.
func (d *decider) discard() {
	switch {
	case d.X.DueAt.IsZero():
	case !d.F.Discarded:
		d.Need(Need{Kind: NeedDiscarded})
	default:
		d.Changed = true
	}
}
