package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// schedule is the START of the lock protocol. A blocked execution first registers as a waiter with
// its blocker and idles. Only if that fails, because the blocker has released the entity, does it
// enter LOCKING, at the next epoch.
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
		if d.facts.Blocker.NeedsPerson && !b.NeedsPerson {
			d.awaitPerson(*b)
			return
		}
		// If an operator has retried the holder, it no longer waits for anybody. The reservations
		// of this execution count again once it has asked for its locks again.
		if d.facts.Blocker.Registered && (!b.NeedsPerson || d.facts.Blocker.NeedsPerson) {
			if !b.Reservation && b.Narrowed != d.facts.Blocker.Narrowed {
				c := *b
				c.Narrowed = d.facts.Blocker.Narrowed
				d.execution.BlockedBy = &c // written with the next commit, if there is one
			}
			d.waitUntil(earlier(d.nextLockPoll(d.facts.Blocker.WaiterSetFull), deadline))
			return
		}
		d.execution.BlockedBy = nil
	}
	if d.execution.Epoch == 0 {
		// The lock mode is decided once, so that every handler of the execution, at
		// any epoch, asks for the same mode.
		if d.facts.Resolution == nil {
			d.need(Need{Kind: NeedResolution})
			return
		}
		if problem := sharedLockProblem(d.facts.Resolution); problem != nil {
			d.setFailure(workflow.CauseValidation, problem)
			d.failBeforeRunning(sm.EventLockRefused, map[string]any{"reason": problem.Message})
			return
		}
		if d.config().LockMode == workflow.LockShared || d.execution.Probe {
			d.execution.LockMode = workflow.LockShared
		}
		// A restore may have lost an execution with this id. Locks may still name that one, at an
		// epoch of its own.
		d.execution.Epoch = d.policy.MinFencingToken
	}
	d.execution.Epoch++
	d.transition(sm.EventLockRequested, sm.ExecutionLocking, "", nil)
	d.commitFirst() // the epoch must be committed before the first lock is taken
}

// awaitPerson records that the holder of a lock waits for an operator. That may take days, and
// meanwhile other entities that this execution has reserved are free. So its reservations become
// void, the executions that wait for them are woken, and it registers again.
func (d *decider) awaitPerson(b workflow.BlockedBy) {
	b.NeedsPerson, b.Narrowed = true, d.facts.Blocker.Narrowed
	d.execution.BlockedBy = &b
	d.decision.WakeWaiters, d.changed = true, true
	d.commitFirst()
}

// failDeadlock ends an execution because of a deadlock: its parent waits for it, directly or
// through others, while holding the lock that it waits for.
func (d *decider) failDeadlock(b *workflow.BlockedBy) {
	d.setFailure(workflow.CauseLockDeadlock, &workflow.Failure{
		Code:    workflow.CodeEntityLocked.OfFailure(),
		Message: fmt.Sprintf("deadlock on the lock of %s: execution %s waits, directly or through others, for this execution", b.Entity, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.execution.BlockedBy = nil
	d.failBeforeRunning(sm.EventLockRefused, map[string]any{"entity": b.Entity.String(), "heldBy": b.Execution})
}

func (d *decider) failLockTimeout(b *workflow.BlockedBy) {
	holder := "held by"
	if b.Reservation {
		holder = "reserved by"
	}
	d.setFailure(workflow.CauseLockTimeout, &workflow.Failure{
		Code:    workflow.CodeEntityLocked.OfFailure(),
		Message: fmt.Sprintf("waited %s for the lock of %s, %s %s", d.policy.LockTimeout, b.Entity, holder, b.Execution),
		Entity:  b.Entity.String(),
	})
	d.execution.BlockedBy = nil
	d.failBeforeRunning(sm.EventExecutionExpired, nil)
}
