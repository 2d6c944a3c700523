package invariant

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Violation is a law that was broken.
type Violation struct {
	Invariant string // its name
	Text      string // how
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.Text }

// Checker is told of every write and every call of a play, and keeps what the laws
// compare. It implements watch.Watcher.
type Checker struct {
	// Now is the time in the world, and Skew how far a clock may be off it.
	Now  time.Time
	Skew time.Duration
	// Importing reports whether somebody is at work who writes the inventory from
	// outside.
	Importing func() bool
	// LateWorker reports whether a worker is at work that goes on after a restore of the
	// tables which it knows nothing of; Floor is that of tokens since then.
	LateWorker      func() bool
	MinFencingToken int64
	// Trace, if it is set, is told of every change, for people.
	Trace func(format string, args ...any)

	executions       map[string]*executionState
	locks            map[workflow.EntityKey]workflow.Lock
	packs            map[workflow.StepRunKey]map[workflow.PackKey]*workflow.Pack
	devices          map[string]harness.BlockCall // the last call that may change a device
	calls            map[string][]harness.BlockCall
	awaitingOperator int
	newRollbacks     []string // whose rollback has begun

	forgottenJobs map[string]bool // jobs that were called in a time that the tables have forgotten

	violation *Violation
}

// executionState is what is known of one execution.
type executionState struct {
	x               *workflow.Execution
	previous        sm.ExecutionState // its last commit but one
	historyState    sm.ExecutionState // where its history has led
	events          []workflow.Event
	terminalEvents  int // terminal events of this try
	wasAcknowledged bool
	predatesRestore bool                        // than a restore of the tables
	reservationSeen map[workflow.EntityKey]bool // where a reservation is not missing

	// Calls of its blocks that may have changed something: by step run, then job.
	executedJobs map[int]map[string]bool
	undoneJobs   map[int]map[string]bool // the same of rollbacks, by the step run undone
}

// New makes a watch that has seen nothing.
func New() *Checker {
	return &Checker{
		executions: map[string]*executionState{}, locks: map[workflow.EntityKey]workflow.Lock{},
		packs:   map[workflow.StepRunKey]map[workflow.PackKey]*workflow.Pack{},
		devices: map[string]harness.BlockCall{}, calls: map[string][]harness.BlockCall{}, forgottenJobs: map[string]bool{},
	}
}

// Violation is the first law that was broken, nil if none was.
func (w *Checker) Violation() *Violation { return w.violation }

// Failf says that a law is broken.
func (w *Checker) Failf(invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...)}
	}
}

// ExecutionByID is an execution as it stands.
func (w *Checker) ExecutionByID(id string) *workflow.Execution { return w.executions[id].x }

// AwaitingOperator is how many runs wait for an operator, with their locks.
func (w *Checker) AwaitingOperator() int { return w.awaitingOperator }

// AwaitsOperator reports whether a run in the state waits for an operator, with its locks.
func AwaitsOperator(s sm.ExecutionState) bool {
	return s == sm.ExecutionFailedUnsafe || s == sm.ExecutionCancelled
}

// ownerStatus is what a strong read would say of an execution now.
func (w *Checker) ownerStatus(id string) workflow.OwnerStatus {
	if r := w.executions[id]; r != nil {
		return workflow.OwnerStatus{State: r.x.State, Epoch: r.x.Epoch}
	}
	return workflow.OwnerStatus{}
}

// isHolding reports whether a run holds what it has taken at an epoch. The states that
// hold nothing are listed here once more, on purpose.
func (w *Checker) isHolding(id string, epoch int64) bool {
	h := w.ownerStatus(id)
	return h.Epoch == epoch && holdsLocks(h.State)
}

func holdsLocks(s sm.ExecutionState) bool {
	switch s {
	case "", sm.ExecutionNew, sm.ExecutionValid, sm.ExecutionBlockedWaiting, sm.ExecutionReady, sm.ExecutionResourceDiscovery,
		sm.ExecutionResourcesDiscovered, sm.ExecutionScheduled, sm.ExecutionCompletedAck, sm.ExecutionFailedSafeAck,
		sm.ExecutionFailedUnsafeAck, sm.ExecutionCancelledAck:
		return false
	}
	return true
}

// WaitersRemaining is told after every commit how many are registered with the run and have
// not been handed to whoever commits. A run that lets go must leave none.
func (w *Checker) WaitersRemaining(id string, registered int) {
	if r := w.executions[id]; registered > 0 && holdsLocks(r.previous) && !holdsLocks(r.x.State) {
		w.Failf(invWaitersWoken, "%s lets go from %s to %s, and %d who wait for it are not told", id, r.previous, r.x.State, registered)
	}
}

// ExpectEvent wants a verb that was answered to stand in the history.
func (w *Checker) ExpectEvent(id, actor string, types ...sm.Event) {
	for _, e := range w.executions[id].events {
		if e.Actor == actor && slices.Contains(types, sm.Event(e.Type)) {
			return
		}
	}
	w.Failf(invAcceptedInHistory, "%s: %v of %s was answered, and is not in the history", id, types, actor)
}

func (w *Checker) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(format, args...)
	}
}
