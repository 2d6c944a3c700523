package lifecycle

import (
	"fmt"
	"maps"
	"slices"
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
		if d.f.Blocker.Deadlock {
			d.refuseDeadlock(b)
			return
		}
		if d.f.Blocker.Registered {
			d.wait(earlier(d.now.Add(d.p.Poll), deadline))
			return
		}
		d.x.BlockedBy = nil
	}
	if d.x.Epoch == 0 {
		// How the run locks is decided once, so that all of its handlers, at
		// whatever epoch, want the same.
		if d.f.Resolved == nil {
			d.need(Need{Kind: NeedResolved})
			return
		}
		if d.config().LockMode == workflow.LockShared {
			d.x.LockMode = workflow.LockShared
		}
	}
	d.x.Epoch++
	d.move(sm.EventLockRequested, sm.ExecutionLocking, "", nil)
	d.pause() // the epoch must stand before the first lock is taken
}

// refuseDeadlock ends a run whose starter waits for it while holding what it
// waits for, be it through others.
func (d *decider) refuseDeadlock(b *workflow.BlockedBy) {
	d.fail(workflow.CauseLockDeadlock, &workflow.Failure{
		Code:    string(workflow.CodeEntityLocked),
		Message: fmt.Sprintf("the lock of %s never comes free: %s waits, through others or itself, for this run", b.Entity, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.x.BlockedBy = nil
	d.move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", map[string]any{"entity": b.Entity.String(), "heldBy": b.Execution})
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
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved}) // its policy says whether to wait, to fail or to go on without
		return
	}
	if a == nil || a.Epoch != d.x.Epoch {
		d.need(Need{Kind: NeedLocks})
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
		if d.x.Parent != nil {
			// Somebody may hold locks while waiting for this run: once what it is
			// blocked by stands for all to see, it looks whether it waits for itself.
			d.pause()
			return
		}
		// Registered with the holder before this release: sleep until woken.
		d.wait(earlier(d.now.Add(d.p.Poll), d.x.LockSince.Add(d.p.LockWait)))
	default:
		d.grant(a)
	}
}

// maxDropped is how many of the entities that were left out are named.
const maxDropped = 20

// grant takes LOCKING to LOCKED, with what was not left out.
func (d *decider) grant(a *LockAnswer) {
	d.x.BlockedBy = nil
	var data map[string]any
	if n := len(a.Dropped); n > 0 {
		var names []string
		d.x.DroppedCount, d.x.Dropped = n, nil
		for _, b := range a.Dropped[:min(n, maxDropped)] {
			b.Since = d.now
			d.x.Dropped = append(d.x.Dropped, b)
			names = append(names, b.Entity.String())
		}
		data = map[string]any{"dropped": names, "droppedCount": n}
		if a.Scope.Total() == 0 && d.assertsSome() {
			d.fail(workflow.CauseAssertion, &workflow.Failure{
				Code: string(workflow.CodeEntityLocked), Entity: names[0],
				Message: "all entities are locked by others, and the definition asserts that there are some",
			})
			d.move(sm.EventLockRefused, sm.ExecutionFailedSafe, "", data)
			return
		}
	}
	d.x.Scope = a.Scope
	d.move(sm.EventLockGranted, sm.ExecutionLocked, "", data)
}

// assertsSome reports whether the definition, or an acquisition of it, wants some
// entity.
func (d *decider) assertsSome() bool {
	p := d.f.Resolved.Program
	if p == nil {
		return false
	}
	return p.AssertNotEmpty || slices.ContainsFunc(p.Acquisitions, func(a workflow.ProgramAcquisition) bool { return a.AssertNotEmpty })
}

// unsharable is why a run may not share its locks with others: only runs that
// change nothing do. It is nil for a run that locks exclusively.
func (r *Resolved) unsharable() *workflow.Failure {
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
	d.x.StartedAt = d.now
	d.move(sm.EventExecutionStarted, sm.ExecutionRunning, "", nil)
	d.workflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, "")
}

// workflow records an event of the workflow layer, which informs the run and
// never closes it. step is the label of the step that embeds the workflow, "" for
// the run's own.
func (d *decider) workflow(on sm.Event, from, to sm.WorkflowState, step string) {
	d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: string(on), From: string(from), To: string(to), Step: step}, nil)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
