package lifecycle

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// acquireLocks asks for all locks and acts on the result. The execution moves to LOCKED, or back to
// SCHEDULED, where this one write releases everything. If the definition says not to wait, it fails
// instead.
//
// An execution that has been trying for longer than it may wait for locks fails, whether or not it
// is blocked. If its wake-ups fail, the failure streak ends it, or an outage is waited out.
func (d *decider) acquireLocks() {
	a := d.facts.Locks
	if deadline := d.execution.LockSince.Add(d.policy.LockTimeout); d.execution.FailureStreak == nil && (a == nil || a.Epoch != d.execution.Epoch) && !d.now.Before(deadline) {
		d.failUnfinishedLocking()
		return
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution}) // the definition says whether to wait, to fail or to skip locked entities
		return
	}
	if a == nil || a.Epoch != d.execution.Epoch {
		d.need(Need{Kind: NeedLocks})
		return
	}
	switch {
	case a.Problem != nil:
		d.setFailure(workflow.CauseValidation, a.Problem)
		d.failBeforeRunning(sm.EventLockRefused, map[string]any{"reason": a.Problem.Message})
	case len(a.Outdated) > 0 && !d.execution.Forced && a.Outdated[0].Undone != "":
		d.failChangedUndo(a.Outdated)
	case len(a.Outdated) > 0 && !d.execution.Forced:
		d.failOutdated(a.Outdated)
	case a.Conflict != nil && a.Conflict.Entity.IsSlot() && d.failsAtLimit():
		c := a.Conflict
		d.setFailure(workflow.CauseLockTimeout, &workflow.Failure{Code: workflow.FailureLimit, Message: limitMessage(c)})
		d.failBeforeRunning(sm.EventLockRefused, map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
	case a.Conflict != nil && !a.Conflict.Entity.IsSlot() && d.config().OnLocked == spec.OnLockedFail:
		c := a.Conflict
		d.setFailure(workflow.CauseLockTimeout, &workflow.Failure{
			Code: workflow.CodeEntityLocked.OfFailure(), Entity: c.Entity.String(),
			Message: lockedMessage(d.execution, c),
		})
		d.failBeforeRunning(sm.EventLockRefused, map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
	case a.Conflict != nil:
		c := *a.Conflict
		c.Since = d.now
		d.execution.BlockedBy = &c
		d.execution.Conflicts++
		d.decision.WakeWaiters = true
		d.transition(sm.EventLockDeferred, sm.ExecutionScheduled, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
		if d.execution.Parent != nil {
			// Its parent may hold locks while waiting for it. Once BlockedBy is committed and
			// visible to others, it checks for a deadlock.
			d.commitFirst()
			return
		}
		// It registered with the holder before this release, so it idles until woken.
		d.waitUntil(earlier(d.nextLockPoll(a.WaiterSetFull), d.execution.LockSince.Add(d.policy.LockTimeout)))
	default:
		d.grant(a)
	}
}

// minLockPoll is the first pause of an execution that polls for its locks, because the waiter set of
// what blocks it is full.
const minLockPoll = 10 * time.Second

// nextLockPoll returns when a blocked execution asks for its locks again if nothing wakes it before.
// While the waiter set of what blocks it is full, it polls: the longer it has waited, the longer the
// pause, up to half of that time. Up to three quarters of a pause are left out by a hash, so that
// executions that began to wait together do not poll together. Otherwise as many as there is room for
// would register, and the others would find the set full again, all at once.
//
// A timer within that pause is not rescheduled, so that a wake-up that changes nothing sends no
// message for another.
func (d *decider) nextLockPoll(waiterSetFull bool) time.Time {
	if !waiterSetFull {
		return d.now.Add(d.policy.PollInterval)
	}
	pause := min(max(minLockPoll, d.now.Sub(d.execution.LockSince)/2), d.policy.PollInterval)
	if due := d.execution.DueAt; !d.timerFired && !due.IsZero() && !due.After(d.now.Add(pause)) {
		return due
	}
	d.decision.DelayedWakeup = true
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d", d.execution.ID, d.execution.Version)
	return d.now.Add(pause/4 + time.Duration(h.Sum32()%1000)*(pause-pause/4)/1000)
}

// failsAtLimit reports whether the execution fails when its concurrency limit is reached.
func (d *decider) failsAtLimit() bool {
	limit := d.config().Concurrency
	return limit != nil && limit.OnLimit == spec.OnLimitFail
}

// limitMessage says that the concurrency limit is reached.
func limitMessage(by *workflow.BlockedBy) string {
	if by.Reservation {
		return fmt.Sprintf("an older execution has the next place of %s: %s", by.Entity, by.Execution)
	}
	if len(by.Others) == 0 {
		return fmt.Sprintf("execution %s, which shares %s, is live, and no more may be at the same time", by.Execution, by.Entity)
	}
	return fmt.Sprintf("%d executions that share %s are live, as many as may be at the same time; the oldest is %s", 1+len(by.Others), by.Entity, by.Execution)
}

// lockedMessage returns why an execution does not get a lock. If the execution is blocked by
// itself, others have taken and released the lock each time it asked.
func lockedMessage(x *workflow.Execution, by *workflow.BlockedBy) string {
	if by.Execution == x.ID {
		return fmt.Sprintf("other executions took %s, one after the other, each time before this one", by.Entity)
	}
	return fmt.Sprintf("%s is locked by %s", by.Entity, by.Execution)
}

// failUnfinishedLocking ends an execution that has run out of time while taking locks.
func (d *decider) failUnfinishedLocking() {
	d.setFailure(workflow.CauseLockTimeout, &workflow.Failure{
		Code: workflow.FailureTimeout, Message: fmt.Sprintf("not all locks were taken within %s", d.policy.LockTimeout),
	})
	d.failBeforeRunning(sm.EventExecutionExpired, nil)
}

// grant moves LOCKING to LOCKED with the entities that were not dropped.
func (d *decider) grant(a *LockResult) {
	d.execution.BlockedBy = nil
	var data map[string]any
	if n := len(a.Dropped); n > 0 {
		var names []string
		d.execution.DroppedCount, d.execution.Dropped = n, nil
		for _, b := range a.Dropped[:min(n, workflow.MaxNamed)] {
			b.Since, b.Place, b.Narrowed = d.now, 0, 0
			d.execution.Dropped = append(d.execution.Dropped, b)
			names = append(names, b.Entity.String())
		}
		data = map[string]any{"dropped": names, "droppedCount": n}
		if a.Scope.Total() == 0 && d.assertsNotEmpty() {
			d.setFailure(workflow.CauseAssertion, &workflow.Failure{
				Code: workflow.CodeEntityLocked.OfFailure(), Entity: names[0],
				Message: "all entities are locked by others, and the definition asserts that the scope is not empty",
			})
			d.failBeforeRunning(sm.EventLockRefused, data)
			return
		}
	}
	d.execution.Scope = a.Scope
	d.transition(sm.EventLockGranted, sm.ExecutionLocked, "", data)
}

// assertsNotEmpty reports whether the definition, or one of its acquisitions, asserts that there is
// at least one entity.
func (d *decider) assertsNotEmpty() bool {
	p := d.facts.Resolution.Program
	if p == nil {
		return false
	}
	return p.AssertNotEmpty || slices.ContainsFunc(p.Acquisitions, func(a spec.ProgramAcquisition) bool { return a.AssertNotEmpty })
}

// begin moves LOCKED to RUNNING.
func (d *decider) begin() {
	d.execution.StartedAt, d.execution.LastEnd = d.now, nil
	d.transition(sm.EventExecutionStarted, sm.ExecutionRunning, "", nil)
	d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, "")
}
