package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A rollback that has failed can be tried again: an operator has mended what it failed for. It undoes
// what is left, under the locks that the execution has kept for that, and ends as any rollback does. It is
// a try of its own that executes no step, and belongs to the try whose changes it undoes.

// retryRollback goes on with a rollback that has failed, or refuses that with what to do instead.
func (d *decider) retryRollback(c Command, data map[string]any) error {
	x := d.execution
	switch {
	case c.FromStep != "":
		return invalidRequest("from", "a rollback has no step to begin with: leave out from or rollback")
	case c.Entities != "":
		return invalidRequest("entities", "a rollback is about all that is left to undo: leave out entities or rollback")
	}
	refuse := func(format string, args ...any) error {
		return workflow.Errorf(workflow.CodeIllegalTransition, "cannot roll back execution %s once more: %s", x.ID, fmt.Sprintf(format, args...))
	}
	if x.State == sm.ExecutionFailedUnsafeAck {
		return refuse("its end was acknowledged, which released its locks: undo by hand what remains, or retry it without rollback, which takes the locks anew and goes forward")
	}
	if x.State == sm.ExecutionFailedSafeAck {
		return refuse("it has ended in %s, and there is nothing to undo", x.State)
	}
	if _, err := sm.TransitionExecution(x.State, sm.EventExecutionRetried, sm.ExecutionRollback); err != nil {
		return d.refusal(c, err)
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	if p := d.facts.Resolution.Invalid(); p != nil {
		return refuse("%s", p.Message)
	}
	if why := d.noRollbackToRetry(); why != "" {
		return refuse("%s", why)
	}
	if x.Unlocked || x.Scope.HeldEpoch != x.Epoch || x.Kept != nil && x.Kept.Len() == 0 && d.releasedUnsafe() {
		return refuse("it has released its locks, so others may have changed its entities: undo by hand what remains and acknowledge it, or retry it without rollback, which takes the locks anew and goes forward")
	}
	if x.Key != "" {
		return refuse("it has the key %q, which another execution may have taken since it ended: undo by hand what remains, and acknowledge it", x.Key)
	}
	if ok, err := d.mayRetryUnder(sm.ExecutionRollback); !ok {
		return err
	}
	if err := d.mayTryAgain(); err != nil {
		return err
	}
	onlyKept := x.Kept != nil && (x.Undo != nil || d.releasedUnsafe())
	if onlyKept && d.facts.Entities == nil {
		d.need(Need{Kind: NeedEntities})
		return nil
	}
	d.resetForRollback(onlyKept)
	if x.Forced = c.Force; c.Force {
		data["force"] = true
	}
	data["rollback"], data["try"] = true, x.Try
	d.transition(sm.EventExecutionRetried, sm.ExecutionRollback, c.Actor, data)
	return nil
}

// noRollbackToRetry says why there is no rollback that has failed and can be tried again; empty if there is one.
func (d *decider) noRollbackToRetry() string {
	x := d.execution
	if !slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Kind == workflow.JobRollback }) {
		why := "it has not begun to roll back"
		if class, obstacle := classifyChanges(x, d.config().Rollback); class == irreversibleChanges {
			why += ", because " + obstacle
		}
		return why + ": check it, then acknowledge it, or retry it without rollback, which goes forward"
	}
	remaining := stepRunsToUndo(x)
	if x.Undo != nil {
		remaining = slices.DeleteFunc(remaining, func(r *workflow.StepRun) bool { return !slices.Contains(x.Undo.StepRuns, r.Seq) || d.wasCompleted(r.Seq) })
	}
	if len(remaining) == 0 {
		return "nothing of it is left to undo: acknowledge it"
	}
	if isEntityNotHeld(x.Error) {
		return x.Error.Message + ": undo by hand what remains, and acknowledge it"
	}
	if x.Undo == nil {
		for _, r := range remaining {
			if why := obstacleTo(r); why != "" {
				return why + ": undo by hand what remains, and acknowledge it"
			}
		}
	}
	return ""
}

// releasedUnsafe reports whether an operator has released entities of which changes remain. What the end
// released by itself is safe, and recorded as such.
func (d *decider) releasedUnsafe() bool {
	x := d.execution
	switch {
	case x.Kept == nil:
		return false
	case x.Result == nil:
		return x.Scope.Total() > 0
	case len(x.Result.Sets) == 0:
		return x.Result.Count[workflow.EntityFailedUnsafe] > x.Kept.Len()
	}
	return x.Result.Sets[workflow.EntityFailedUnsafe].Without(*x.Kept).Len() > 0
}

// resetForRollback resets the execution for a try that only rolls back. It keeps why the execution has failed,
// or was cancelled: its end says that once more. onlyKept restricts it to the entities that are still held.
func (d *decider) resetForRollback(onlyKept bool) {
	x := d.execution
	past := maps.Clone(x.PastScopes)
	if past == nil {
		past = map[int]workflow.Scope{}
	}
	past[x.Try] = x.Scope
	x.PastScopes = past
	x.Try++
	x.RollbackTries++
	if onlyKept {
		d.tryKept()
	}
	if x.Undo != nil { // it had come to its end, and failed because it could not undo that of some
		undo := *x.Undo
		if x.Kept != nil {
			undo.Entities = undo.Entities.Both(*x.Kept)
		}
		x.Undo, x.Cause, x.Reason, x.Error = &undo, "", "", nil
	}
	x.EndedAt, x.RolledBack, x.Acknowledged = time.Time{}, false, nil
}
