package lifecycle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// schedule is START of the lock protocol: a run that is blocked first registers
// with whoever blocks it and sleeps; only when that fails, because the blocker
// has let go, does it enter LOCKING, at the next epoch.
func (d *decider) schedule() {
	if d.execution.LockSince.IsZero() {
		d.execution.LockSince = d.now
	}
	if b := d.execution.BlockedBy; b != nil {
		deadline := d.execution.LockSince.Add(d.policy.LockTimeout)
		if !d.now.Before(deadline) {
			d.failLockTimeout(b)
			return
		}
		if d.facts.Blocker == nil {
			d.need(Need{Kind: NeedBlocker})
			return
		}
		if d.facts.Blocker.Deadlock {
			d.failDeadlock(b)
			return
		}
		if d.facts.Blocker.Registered {
			d.waitUntil(earlier(d.now.Add(d.policy.PollInterval), deadline))
			return
		}
		d.execution.BlockedBy = nil
	}
	if d.execution.Epoch == 0 {
		// How the run locks is decided once, so that all of its handlers, at
		// whatever epoch, want the same.
		if d.facts.Resolution == nil {
			d.need(Need{Kind: NeedResolution})
			return
		}
		if d.config().LockMode == workflow.LockShared {
			d.execution.LockMode = workflow.LockShared
		}
	}
	d.execution.Epoch++
	d.transition(sm.EventLockRequested, sm.ExecutionLocking, "", nil)
	d.commitFirst() // the epoch must stand before the first lock is taken
}

// failDeadlock ends a run whose starter waits for it while holding what it
// waits for, be it through others.
func (d *decider) failDeadlock(b *workflow.BlockedBy) {
	d.setFailure(workflow.CauseLockDeadlock, &workflow.Failure{
		Code:    string(workflow.CodeEntityLocked),
		Message: fmt.Sprintf("the lock of %s never comes free: %s waits, through others or itself, for this run", b.Entity, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.execution.BlockedBy = nil
	d.transition(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"entity": b.Entity.String(), "heldBy": b.Execution})
}

func (d *decider) failLockTimeout(b *workflow.BlockedBy) {
	holder := "held by"
	if b.Reservation {
		holder = "reserved by"
	}
	d.setFailure(workflow.CauseLockTimeout, &workflow.Failure{
		Code:    string(workflow.CodeEntityLocked),
		Message: fmt.Sprintf("waited %s for the lock of %s, %s %s", d.policy.LockTimeout, b.Entity, holder, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.execution.BlockedBy = nil
	d.transition(sm.EventExecutionExpired, sm.ExecutionFailedSafe, "", nil)
}

// acquireLocks asks for all locks and goes on with the answer: LOCKED, or back to
// SCHEDULED with everything released by that one write, or refused where the
// definition does not want to wait.
func (d *decider) acquireLocks() {
	a := d.facts.Locks
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution}) // its policy says whether to wait, to fail or to go on without
		return
	}
	if a == nil || a.Epoch != d.execution.Epoch {
		d.need(Need{Kind: NeedLocks})
		return
	}
	switch {
	case a.Problem != nil:
		d.setFailure(workflow.CauseInternal, a.Problem)
		d.transition(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"reason": a.Problem.Message})
	case a.Conflict != nil && d.config().OnLocked == spec.OnLockedFail:
		c := a.Conflict
		d.setFailure(workflow.CauseLockTimeout, &workflow.Failure{
			Code: string(workflow.CodeEntityLocked), Entity: c.Entity.String(),
			Message: fmt.Sprintf("%s is locked by %s", c.Entity, c.Execution),
		})
		d.transition(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
	case a.Conflict != nil:
		c := *a.Conflict
		c.Since = d.now
		d.execution.BlockedBy = &c
		d.execution.Conflicts++
		d.decision.WakeWaiters = true
		d.transition(sm.EventLockDeferred, sm.ExecutionScheduled, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
		if d.execution.Parent != nil {
			// Somebody may hold locks while waiting for this run: once what it is
			// blocked by stands for all to see, it looks whether it waits for itself.
			d.commitFirst()
			return
		}
		// Registered with the holder before this release: sleep until woken.
		d.waitUntil(earlier(d.now.Add(d.policy.PollInterval), d.execution.LockSince.Add(d.policy.LockTimeout)))
	default:
		d.grant(a)
	}
}

// maxDropped is how many of the entities that were left out are named.
const maxDropped = 20

// grant takes LOCKING to LOCKED, with what was not left out.
func (d *decider) grant(a *LockResult) {
	d.execution.BlockedBy = nil
	var data map[string]any
	if n := len(a.Dropped); n > 0 {
		var names []string
		d.execution.DroppedCount, d.execution.Dropped = n, nil
		for _, b := range a.Dropped[:min(n, maxDropped)] {
			b.Since = d.now
			d.execution.Dropped = append(d.execution.Dropped, b)
			names = append(names, b.Entity.String())
		}
		data = map[string]any{"dropped": names, "droppedCount": n}
		if a.Scope.Total() == 0 && d.assertsNotEmpty() {
			d.setFailure(workflow.CauseAssertion, &workflow.Failure{
				Code: string(workflow.CodeEntityLocked), Entity: names[0],
				Message: "all entities are locked by others, and the definition asserts that there are some",
			})
			d.transition(sm.EventLockRefused, sm.ExecutionFailedSafe, "", data)
			return
		}
	}
	d.execution.Scope = a.Scope
	d.transition(sm.EventLockGranted, sm.ExecutionLocked, "", data)
}

// assertsNotEmpty reports whether the definition, or an acquisition of it, wants some
// entity.
func (d *decider) assertsNotEmpty() bool {
	p := d.facts.Resolution.Program
	if p == nil {
		return false
	}
	return p.AssertNotEmpty || slices.ContainsFunc(p.Acquisitions, func(a spec.ProgramAcquisition) bool { return a.AssertNotEmpty })
}

// sharedLockProblem is why a run may not share its locks with others: only runs that
// change nothing do. It is nil for a run that locks exclusively.
func sharedLockProblem(r *Resolution) *workflow.Failure {
	if r.Program == nil || r.Program.Config.LockMode != workflow.LockShared {
		return nil
	}
	for _, ref := range slices.Sorted(maps.Keys(r.Blocks)) {
		if !r.Blocks[ref].Pure {
			return &workflow.Failure{Code: string(workflow.CodeInvalid),
				Message: fmt.Sprintf("locks can be shared only by runs whose blocks are all pure, and %s is not", ref)}
		}
	}
	return nil
}

// begin takes LOCKED to RUNNING.
func (d *decider) begin() {
	d.execution.StartedAt = d.now
	d.transition(sm.EventExecutionStarted, sm.ExecutionRunning, "", nil)
	d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, "")
}
