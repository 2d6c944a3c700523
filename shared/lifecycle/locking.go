package lifecycle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// schedule is START of the lock protocol: a run that is blocked first registers
// with whoever blocks it and sleeps; only when that fails, because the blocker
// has let go, does it enter LOCKING, at the next epoch.
func (d *decider) schedule() {
	if d.X.LockSince.IsZero() {
		d.X.LockSince = d.Now
	}
	if b := d.X.BlockedBy; b != nil {
		deadline := d.X.LockSince.Add(d.P.LockWait)
		if !d.Now.Before(deadline) {
			d.expireLocks(b)
			return
		}
		if d.F.Blocker == nil {
			d.Need(Need{Kind: NeedBlocker})
			return
		}
		if d.F.Blocker.Deadlock {
			d.refuseDeadlock(b)
			return
		}
		if d.F.Blocker.Registered {
			d.Wait(draft.Earlier(d.Now.Add(d.P.Poll), deadline))
			return
		}
		d.X.BlockedBy = nil
	}
	if d.X.Epoch == 0 {
		// How the run locks is decided once, so that all of its handlers, at
		// whatever epoch, want the same.
		if d.F.Resolved == nil {
			d.Need(Need{Kind: NeedResolved})
			return
		}
		if d.Config().LockMode == workflow.LockShared {
			d.X.LockMode = workflow.LockShared
		}
	}
	d.X.Epoch++
	d.Move(sm.EventLockRequested, sm.ExecutionLocking, "", nil)
	d.Pause() // the epoch must stand before the first lock is taken
}

// refuseDeadlock ends a run whose starter waits for it while holding what it
// waits for, be it through others.
func (d *decider) refuseDeadlock(b *workflow.BlockedBy) {
	d.Fail(workflow.CauseLockDeadlock, &workflow.Failure{
		Code:    string(workflow.CodeEntityLocked),
		Message: fmt.Sprintf("the lock of %s never comes free: %s waits, through others or itself, for this run", b.Entity, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.X.BlockedBy = nil
	d.Move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"entity": b.Entity.String(), "heldBy": b.Execution})
}

func (d *decider) expireLocks(b *workflow.BlockedBy) {
	holder := "held by"
	if b.Reservation {
		holder = "reserved by"
	}
	d.Fail(workflow.CauseLockTimeout, &workflow.Failure{
		Code:    string(workflow.CodeEntityLocked),
		Message: fmt.Sprintf("waited %s for the lock of %s, %s %s", d.P.LockWait, b.Entity, holder, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.X.BlockedBy = nil
	d.Move(sm.EventExecutionExpired, sm.ExecutionFailedSafe, "", nil)
}

// lock asks for all locks and goes on with the answer: LOCKED, or back to
// SCHEDULED with everything released by that one write, or refused where the
// definition does not want to wait.
func (d *decider) lock() {
	a := d.F.Locks
	if d.F.Resolved == nil {
		d.Need(Need{Kind: NeedResolved}) // its policy says whether to wait, to fail or to go on without
		return
	}
	if a == nil || a.Epoch != d.X.Epoch {
		d.Need(Need{Kind: NeedLocks})
		return
	}
	switch {
	case a.Problem != nil:
		d.Fail(workflow.CauseInternal, a.Problem)
		d.Move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"reason": a.Problem.Message})
	case a.Conflict != nil && d.Config().OnLocked == spec.OnLockedFail:
		c := a.Conflict
		d.Fail(workflow.CauseLockTimeout, &workflow.Failure{
			Code: string(workflow.CodeEntityLocked), Entity: c.Entity.String(),
			Message: fmt.Sprintf("%s is locked by %s", c.Entity, c.Execution),
		})
		d.Move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
	case a.Conflict != nil:
		c := *a.Conflict
		c.Since = d.Now
		d.X.BlockedBy = &c
		d.X.Conflicts++
		d.Out.Release = true
		d.Move(sm.EventLockDeferred, sm.ExecutionScheduled, "", map[string]any{"entity": c.Entity.String(), "heldBy": c.Execution})
		if d.X.Parent != nil {
			// Somebody may hold locks while waiting for this run: once what it is
			// blocked by stands for all to see, it looks whether it waits for itself.
			d.Pause()
			return
		}
		// Registered with the holder before this release: sleep until woken.
		d.Wait(draft.Earlier(d.Now.Add(d.P.Poll), d.X.LockSince.Add(d.P.LockWait)))
	default:
		d.grant(a)
	}
}

// maxDropped is how many of the entities that were left out are named.
const maxDropped = 20

// grant takes LOCKING to LOCKED, with what was not left out.
func (d *decider) grant(a *LockAnswer) {
	d.X.BlockedBy = nil
	var data map[string]any
	if n := len(a.Dropped); n > 0 {
		var names []string
		d.X.DroppedCount, d.X.Dropped = n, nil
		for _, b := range a.Dropped[:min(n, maxDropped)] {
			b.Since = d.Now
			d.X.Dropped = append(d.X.Dropped, b)
			names = append(names, b.Entity.String())
		}
		data = map[string]any{"dropped": names, "droppedCount": n}
		if a.Scope.Total() == 0 && d.assertsSome() {
			d.Fail(workflow.CauseAssertion, &workflow.Failure{
				Code: string(workflow.CodeEntityLocked), Entity: names[0],
				Message: "all entities are locked by others, and the definition asserts that there are some",
			})
			d.Move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", data)
			return
		}
	}
	d.X.Scope = a.Scope
	d.Move(sm.EventLockGranted, sm.ExecutionLocked, "", data)
}

// assertsSome reports whether the definition, or an acquisition of it, wants some
// entity.
func (d *decider) assertsSome() bool {
	p := d.F.Resolved.Program
	if p == nil {
		return false
	}
	return p.AssertNotEmpty || slices.ContainsFunc(p.Acquisitions, func(a spec.ProgramAcquisition) bool { return a.AssertNotEmpty })
}

// unsharable is why a run may not share its locks with others: only runs that
// change nothing do. It is nil for a run that locks exclusively.
func unsharable(r *Resolved) *workflow.Failure {
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
	d.X.StartedAt = d.Now
	d.Move(sm.EventExecutionStarted, sm.ExecutionRunning, "", nil)
	d.Workflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, "")
}
