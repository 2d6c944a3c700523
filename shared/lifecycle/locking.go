package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// schedule is START of the lock protocol: a run that is blocked first registers
// with whoever blocks it and sleeps; only when that fails, because the blocker
// has let go, does it enter LOCKING, at the next epoch.
func (d *decider) schedule() {
	if d.x.LockSince.IsZero() {
		d.x.LockSince = d.now
	}
	if b := d.x.BlockedBy; b != nil {
		deadline := d.x.LockSince.Add(d.p.LockWait)
		if !d.now.Before(deadline) {
			d.expireLocks(b)
			return
		}
		if d.f.Blocker == nil {
			d.need(Need{Kind: NeedBlocker})
			return
		}
		if d.f.Blocker.Registered {
			d.wait(earlier(d.now.Add(d.p.Poll), deadline))
			return
		}
		d.x.BlockedBy = nil
	}
	d.x.Epoch++
	d.move(sm.EventLockRequested, sm.ExecutionLocking, "", nil)
	d.pause() // the epoch must stand before the first lock is taken
}

func (d *decider) expireLocks(b *workflow.BlockedBy) {
	holder := "held by"
	if b.Reservation {
		holder = "reserved by"
	}
	d.fail(workflow.CauseLockTimeout, &workflow.Failure{
		Code:    string(workflow.CodeEntityLocked),
		Message: fmt.Sprintf("waited %s for the lock of %s, %s %s", d.p.LockWait, b.Entity, holder, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.x.BlockedBy = nil
	d.move(sm.EventExecutionExpired, sm.ExecutionFailedSafe, "", nil)
}

// lock asks for all locks and goes on with the answer: LOCKED, or back to
// SCHEDULED with everything released by that one write, or refused where the
// definition does not want to wait.
func (d *decider) lock() {
	a := d.f.Locks
	if a == nil || a.Epoch != d.x.Epoch {
		d.need(Need{Kind: NeedLocks})
		return
	}
	if a.Conflict != nil && d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved}) // its policy says whether to wait
		return
	}
	switch {
	case a.Problem != nil:
		d.fail(workflow.CauseInternal, a.Problem)
		d.move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"reason": a.Problem.Message})
	case a.Conflict != nil && d.config().OnLocked == workflow.OnLockedFail:
		c := a.Conflict
		d.fail(workflow.CauseLockTimeout, &workflow.Failure{
			Code: string(workflow.CodeEntityLocked), Entity: c.Entity.String(),
			Message: fmt.Sprintf("%s is locked by %s", c.Entity, c.Execution),
		})
		d.move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
	case a.Conflict != nil:
		c := *a.Conflict
		c.Since = d.now
		d.x.BlockedBy = &c
		d.x.Conflicts++
		d.out.Release = true
		d.move(sm.EventLockDeferred, sm.ExecutionScheduled, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
		// Registered with the holder before this release: sleep until woken.
		d.wait(earlier(d.now.Add(d.p.Poll), d.x.LockSince.Add(d.p.LockWait)))
	default:
		d.x.Scope = a.Scope
		d.x.BlockedBy = nil
		d.move(sm.EventLockGranted, sm.ExecutionLocked, "", nil)
	}
}

// begin takes LOCKED to RUNNING.
func (d *decider) begin() {
	d.x.StartedAt = d.now
	d.move(sm.EventExecutionStarted, sm.ExecutionRunning, "", nil)
	d.workflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning)
}

// workflow records an event of the workflow layer, which informs the run and
// never closes it.
func (d *decider) workflow(on sm.Event, from, to sm.WorkflowState) {
	d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: string(on), From: string(from), To: string(to)}, nil)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
