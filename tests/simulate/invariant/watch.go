package invariant

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Violation is a law that was broken.
type Violation struct {
	Law  string // its name
	Text string // how
}

func (v *Violation) Error() string { return v.Law + ": " + v.Text }

// Watch is told of every write and every call of a play, and keeps what the laws
// compare. It implements watch.Watcher.
type Watch struct {
	// At is the time in the world, and Skew how far a clock may be off it.
	At   time.Time
	Skew time.Duration
	// Importing reports whether somebody is at work who writes the inventory from
	// outside.
	Importing func() bool
	// Late reports whether a worker is at work that goes on after a restore of the
	// tables which it knows nothing of; Floor is that of tokens since then.
	Late  func() bool
	Floor int64
	// Tell, if it is set, is told of every change, for people.
	Tell func(format string, args ...any)

	runs    map[string]*run
	locks   map[workflow.EntityKey]workflow.Lock
	packs   map[workflow.RunKey]map[workflow.PackKey]*workflow.Pack
	devices map[string]stage.Call // the last call that may change a device
	calls   map[string][]stage.Call
	resting int
	rolling []string // whose rollback has begun

	forgotten map[string]bool // jobs that were called in a time that the tables have forgotten

	broken *Violation
}

// run is what is known of one execution.
type run struct {
	x       *workflow.Execution
	before  sm.ExecutionState // its last commit but one
	at      sm.ExecutionState // where its history has led
	events  []workflow.Event
	ends    int // terminal events of this try
	wasOver bool
	older   bool                        // than a restore of the tables
	asked   map[workflow.EntityKey]bool // where a reservation is not missing

	// Calls of its blocks that may have changed something: by step run, then job.
	called map[int]map[string]bool
	undone map[int]map[string]bool // the same of rollbacks, by the step run undone
}

// New makes a watch that has seen nothing.
func New() *Watch {
	return &Watch{
		runs: map[string]*run{}, locks: map[workflow.EntityKey]workflow.Lock{},
		packs:   map[workflow.RunKey]map[workflow.PackKey]*workflow.Pack{},
		devices: map[string]stage.Call{}, calls: map[string][]stage.Call{}, forgotten: map[string]bool{},
	}
}

// Broken is the first law that was broken, nil if none was.
func (w *Watch) Broken() *Violation { return w.broken }

// Break says that a law is broken.
func (w *Watch) Break(law, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Violation{Law: law, Text: fmt.Sprintf(format, args...)}
	}
}

// Run is an execution as it stands.
func (w *Watch) Run(id string) *workflow.Execution { return w.runs[id].x }

// Resting is how many runs wait for an operator, with their locks.
func (w *Watch) Resting() int { return w.resting }

// Rests reports whether a run in the state waits for an operator, with its locks.
func Rests(s sm.ExecutionState) bool {
	return s == sm.ExecutionFailedUnsafe || s == sm.ExecutionCancelled
}

// head is what a strong read would say of an execution now.
func (w *Watch) head(id string) workflow.Head {
	if r := w.runs[id]; r != nil {
		return workflow.Head{State: r.x.State, Epoch: r.x.Epoch}
	}
	return workflow.Head{}
}

// live reports whether a run holds what it has taken at an epoch. The states that
// hold nothing are listed here once more, on purpose.
func (w *Watch) live(id string, epoch int64) bool {
	h := w.head(id)
	return h.Epoch == epoch && holds(h.State)
}

func holds(s sm.ExecutionState) bool {
	switch s {
	case "", sm.ExecutionNew, sm.ExecutionValid, sm.ExecutionBlockedWaiting, sm.ExecutionReady, sm.ExecutionResourceDiscovery,
		sm.ExecutionResourcesDiscovered, sm.ExecutionScheduled, sm.ExecutionCompletedAck, sm.ExecutionFailedSafeAck,
		sm.ExecutionFailedUnsafeAck, sm.ExecutionCancelledAck:
		return false
	}
	return true
}

// Waiting is told after every commit how many are registered with the run and have
// not been handed to whoever commits. A run that lets go must leave none.
func (w *Watch) Waiting(id string, registered int) {
	if r := w.runs[id]; registered > 0 && holds(r.before) && !holds(r.x.State) {
		w.Break(lawWaiters, "%s lets go from %s to %s, and %d who wait for it are not told", id, r.before, r.x.State, registered)
	}
}

// Done wants a verb that was answered to stand in the history.
func (w *Watch) Done(id, actor string, types ...sm.Event) {
	for _, e := range w.runs[id].events {
		if e.Actor == actor && slices.Contains(types, sm.Event(e.Type)) {
			return
		}
	}
	w.Break(lawVerb, "%s: %v of %s was answered, and is not in the history", id, types, actor)
}

func (w *Watch) tell(format string, args ...any) {
	if w.Tell != nil {
		w.Tell(format, args...)
	}
}
