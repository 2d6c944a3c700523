package lifecycle

import "time"

// The state item of a run goes first. What lies beside it may be dropped a little
// later, so that nobody reads a run of which a part has gone.
const (
	besideLater = 72 * time.Hour // the store drops an item within two days of its time
	askAgain    = 24 * time.Hour // about a run that another may still ask for
)

// DiscardBeside is when what lies beside a state item may be dropped that is given
// up now.
func DiscardBeside(now time.Time) time.Time { return now.Add(besideLater) }

// keep keeps an acknowledged run for as long as policy says, and gives it up then.
// Nobody else wants an alarm at a run like this: it is moved as it fits.
func (d *decider) keep() {
	d.Rest()
	if d.P.Retention == 0 || !d.X.DiscardAt.IsZero() {
		return
	}
	over := d.X.EndedAt.Add(d.P.Retention)
	switch {
	case !d.Rang || d.Changed:
		// It has just been acknowledged, long after its end perhaps, or the retention
		// is newer than that.
		if d.Sleep = d.X.DueAt; d.Changed || d.Sleep.IsZero() {
			d.Sleep = d.Now.Add(d.P.Retention)
		}
	case d.Now.Before(over):
		d.Sleep = over
	case d.F.Discarded == nil:
		d.Stop = false
		d.Need(Need{Kind: NeedDiscarded})
	case !d.F.Discarded.Done:
		d.Sleep = d.Now.Add(askAgain)
	default:
		d.X.DiscardAt, d.Changed = d.Now, true
	}
}
