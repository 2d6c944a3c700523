// Package invariant checks what must hold after every write and every call of a device. Each
// invariant has a name, under which a violation is reported.
//
// checker.go records what has happened. execution.go has the invariants of executions and their
// histories, step_run.go those of step runs, lock.go those of locks and of the inventory, pack.go
// those of packs, and device.go those of the calls that devices see.
package invariant

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// Violation is a violated invariant.
type Violation struct {
	Invariant string // its name
	Text      string // what happened
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.Text }

// Checker is called on every write and every call of a device, and records what the invariants
// compare. It implements sim.Observer.
type Checker struct {
	// Now is the simulated time. Skew is how far a clock may differ from it.
	Now  time.Time
	Skew time.Duration
	// Importing reports whether an import is writing the inventory.
	Importing func() bool
	// LateWorker reports whether the current process is a worker that was not stopped for a restore
	// of the tables. MinFencingToken is the least token since then.
	LateWorker      func() bool
	MinFencingToken int64
	// SlotLimits are the concurrency limits that are checked. The simulation sets none: its oracle
	// knows the limits of all definitions. shared/engine:TestConcurrency_HoldsUnderRandomFaults does.
	SlotLimits map[workflow.EntityKey]int
	// MayBreak reports whether the wake-ups of an execution have failed for so long that it may be
	// broken.
	MayBreak func(id string) bool
	// Retention is how long an ended execution is kept, 0 for ever.
	Retention time.Duration
	// Polled reports whether a program that polls has claimed a pack; nil if there is none.
	Polled func(*workflow.Pack) bool
	// Trace, if set, writes a line for every change.
	Trace func(format string, args ...any)

	executions       map[string]*executionState
	locks            map[workflow.EntityKey]workflow.Lock
	locksBefore      map[workflow.EntityKey]workflow.Lock // each as it was before its last change
	packs            map[workflow.StepRunKey]map[workflow.PackKey]*workflow.Pack
	devices          map[string]harness.BlockCall // the last call that may have changed a device
	calls            map[string][]harness.BlockCall
	held             map[workflow.EntityKey][]holding // past holders of each entity, in the order of their grants
	awaitingOperator int
	newRollbacks     []string // executions whose rollback has begun

	newlyAcknowledged, newlyRemoved []string

	polled        map[workflow.PackKey]bool // whether a program has claimed it
	forgottenJobs map[string]bool           // jobs whose calls a restore removed from the tables

	violation *Violation
}

// executionState is what the checker knows about one execution.
type executionState struct {
	x               *workflow.Execution
	previous        oracle.Owner      // what decided about its locks before the last commit
	historyState    sm.ExecutionState // state to which the history leads
	events          []workflow.Event
	terminalEvents  int                         // in this try
	hasEnded        bool                        // at least once: it may have been retried since
	retriedAt       time.Time                   // when it was last retried after an operator or its end had acknowledged it
	awaitedPerson   bool                        // its reservations were void for a time, and may have been read then
	predatesRestore bool                        // created before a restore of the tables
	reservationSeen map[workflow.EntityKey]bool // entities that had a reservation, see isReserved

	// Calls of blocks that may have changed something, by step run and entity.
	executedJobs map[int]map[string]bool
	undoneJobs   map[int]map[string]bool // the same for rollbacks, by the step run that they undo

	grant grant // the last grant of its locks
}

// New makes an empty checker.
func New() *Checker {
	return &Checker{
		executions: map[string]*executionState{}, locks: map[workflow.EntityKey]workflow.Lock{}, locksBefore: map[workflow.EntityKey]workflow.Lock{},
		packs: map[workflow.StepRunKey]map[workflow.PackKey]*workflow.Pack{},
		held:  map[workflow.EntityKey][]holding{}, devices: map[string]harness.BlockCall{}, calls: map[string][]harness.BlockCall{}, forgottenJobs: map[string]bool{}, polled: map[workflow.PackKey]bool{},
	}
}

// Violation returns the first violation, nil if there is none.
func (w *Checker) Violation() *Violation { return w.violation }

// Failf records a violation unless there is one already.
func (w *Checker) Failf(invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...)}
	}
}

// ExecutionByID returns the current state of an execution, nil for one that a restore has
// forgotten.
func (w *Checker) ExecutionByID(id string) *workflow.Execution {
	if r := w.executions[id]; r != nil {
		return r.x
	}
	return nil
}

// AwaitingOperator counts the executions that hold locks and wait for an operator.
func (w *Checker) AwaitingOperator() int { return w.awaitingOperator }

// ownerStatus is what a strongly consistent read of an execution would return.
func (w *Checker) ownerStatus(id string) oracle.Owner { return oracle.OwnerOf(w.ExecutionByID(id)) }

// isHolding reports whether an execution holds the lock for which it has an entry in the item.
func (w *Checker) isHolding(key workflow.EntityKey, id string, entry workflow.Holder) bool {
	h := w.ownerStatus(id)
	return h.Epoch == entry.Epoch && oracle.HoldsLocks(h.State) && (h.Kept == nil || key.IsSlot() || h.Kept.Contains(entry.Place))
}

// Blocks reports whether what an execution waits for is held or reserved now. An execution that
// waits for one that had reserved the lock stays among that one's waiters once it has the lock.
func (w *Checker) Blocks(b *workflow.BlockedBy) bool {
	if b.Reservation {
		status := w.ownerStatus(b.Execution)
		h, owns := oracle.HolderOf(w.locks[b.Entity], b.Execution, status.Epoch)
		return status.Reserves() || owns && w.isHolding(b.Entity, b.Execution, h)
	}
	for _, one := range b.Holders() { // any holder that ends is enough
		if !w.isHolding(one.Entity, one.Execution, workflow.Holder{Epoch: one.Epoch, Place: one.Place}) {
			return false
		}
	}
	return true
}

// WaitersRemaining is called after every commit with the number of waiters that stay registered. A
// commit that releases some or all locks must leave none. Nor may one after which the locks are
// kept until an operator acts, or reservations are void until then.
func (w *Checker) WaitersRemaining(id string, registered int) {
	r := w.executions[id]
	was, is := r.previous, oracle.OwnerOf(r.x)
	switch {
	case registered == 0:
	case oracle.HoldsLocks(was.State) && !oracle.HoldsLocks(is.State), was.Narrowed != is.Narrowed && is.Narrowed > 0,
		oracle.AwaitsOperator(is.State) && !oracle.AwaitsOperator(was.State), is.AwaitsPerson && !was.AwaitsPerson:
		w.Failf(invWaitersWoken, "%s goes from %+v to %+v, and %d waiters are not woken", id, was, is, registered)
	}
}

// ExpectEvent requires that the history contains one of the events, caused by the actor.
func (w *Checker) ExpectEvent(id, actor string, types ...sm.Event) {
	for _, e := range w.executions[id].events {
		if e.Actor == actor && slices.Contains(types, sm.Event(e.Type)) {
			return
		}
	}
	w.Failf(invAcceptedInHistory, "%s: %v by %s was accepted, and is not in the history", id, types, actor)
}

func (w *Checker) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(format, args...)
	}
}

// Snapshot copies what the checker knows about one table and returns a function that restores it.
// The calls that devices have seen are never restored.
func (w *Checker) Snapshot(t sim.Table) (restore func()) {
	switch t {
	case sim.ExecutionsTable:
		kept := map[string]*executionState{}
		for id, r := range w.executions {
			c := *r
			c.events, c.reservationSeen, c.predatesRestore = slices.Clone(r.events), maps.Clone(r.reservationSeen), true
			c.executedJobs, c.undoneJobs = cloneNested(r.executedJobs), cloneNested(r.undoneJobs)
			kept[id] = &c
		}
		return func() {
			w.executions, w.awaitingOperator, w.newRollbacks = kept, 0, nil
			for _, r := range kept {
				w.awaitingOperator += boolToInt(oracle.AwaitsOperator(r.x.State))
			}
		}
	case sim.JobsTable:
		packs, calls := map[workflow.StepRunKey]map[workflow.PackKey]*workflow.Pack{}, map[string]int{}
		for key, all := range w.packs {
			packs[key] = maps.Clone(all)
		}
		for job, all := range w.calls {
			calls[job] = len(all)
		}
		return func() {
			w.packs = packs
			for job, all := range w.calls {
				w.forgottenJobs[job] = w.forgottenJobs[job] || len(all) > calls[job]
			}
		}
	case sim.LocksTable:
		locks := maps.Clone(w.locks)
		return func() { w.locks = locks }
	}
	return func() {}
}

func cloneNested(of map[int]map[string]bool) map[int]map[string]bool {
	c := map[int]map[string]bool{}
	for n, all := range of {
		c[n] = maps.Clone(all)
	}
	return c
}

// PredatesRestore reports whether an execution was created before the tables were restored.
func (w *Checker) PredatesRestore(id string) bool {
	return w.executions[id] != nil && w.executions[id].predatesRestore
}

// RowWritten does nothing: package oracle judges rows and schedules.
func (w *Checker) RowWritten(string, workflow.Row) {}

// ScheduleWritten does nothing.
func (w *Checker) ScheduleWritten(_, _ spec.Schedule) {}
