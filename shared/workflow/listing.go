package workflow

import (
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// UnlistedFor bounds the time after its creation until an execution enters the index of states.
const UnlistedFor = 90 * time.Second

// Unlisted reports whether the index of states leaves the execution out: it runs, or is about to,
// and its timer is due within [UnlistedFor] of its creation. Most executions end before that, and
// never pay for entering the index and leaving it. Until then lists find them by their timers.
func (x *Execution) Unlisted() bool {
	return statemachines.ListedAs(x.State) == statemachines.ExecutionRunning && !x.DueAt.IsZero() && !x.DueAt.After(x.CreatedAt.Add(UnlistedFor))
}

// ListedAs returns the state under which the index of states lists the execution; "" if it does not.
func (x *Execution) ListedAs() statemachines.ExecutionState {
	if x.Unlisted() {
		return ""
	}
	return statemachines.ListedAs(x.State)
}

// IndexWritesAfter returns how many write units the indexes take for the commit that replaces seen
// by x: one for each entry that is added or removed, so two for one that moves.
func (x *Execution) IndexWritesAfter(seen *Execution) int {
	type timer struct {
		at       int64
		unlisted bool // part of the key
	}
	timerOf := func(x *Execution) timer { return timer{x.DueAt.UnixMilli(), x.Unlisted()} }
	return entryWrites(seen.ListedAs(), x.ListedAs(), "") + entryWrites(timerOf(seen), timerOf(x), timerOf(new(Execution)))
}

// entryWrites returns the write units of a change of one entry from one key to another; none is the
// key of an execution without one.
func entryWrites[K comparable](from, to, none K) int {
	switch {
	case from == to:
		return 0
	case from == none || to == none:
		return 1
	}
	return 2
}
