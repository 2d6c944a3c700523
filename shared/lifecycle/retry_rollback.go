package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A failed rollback can be retried after an operator has fixed the cause. It undoes what is left,
// under the locks that the execution has kept for that, and ends like any rollback. It is a
// separate try that executes no step, and belongs to the try whose changes it undoes.

// retryRollback continues a failed rollback, or refuses and says what to do instead.
func (d *decider) retryRollback(c Command, data map[string]any) error {
	x := d.execution
	switch {
	case c.FromStep != "":
		return invalidRequest("from", "a rollback has no step to begin with: leave out from or rollback")
	case c.Entities != "":
		return invalidRequest("entities", "a rollback is about all that is left to undo: leave out entities or rollback")
	}
	refuse := func(why string) error {
		return workflow.Errorf(workflow.CodeIllegalTransition, "cannot roll back execution %s once more: %s", x.ID, why)
	}
	if why := NoRollbackToRetry(x); why != "" {
		return refuse(why)
	}
	if _, err := sm.TransitionExecution(x.State, sm.EventExecutionRetried, sm.ExecutionRollback); err != nil {
		return d.refusal(c, err)
	}
	if ok, err := d.mayRetryUnder(sm.ExecutionRollback); !ok {
		return err
	}
	if err := d.mayTryAgain(); err != nil {
		return err
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	if p := d.facts.Resolution.Invalid(); p != nil {
		return refuse(p.Message)
	}
	onlyKept := x.Kept != nil && (x.Undo != nil || releasedUnsafe(x))
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

// NoRollbackToRetry returns why an ended execution has no rollback that can be retried, and what to
// do instead. It is empty if there is one, and for an execution that has not ended.
func NoRollbackToRetry(x *workflow.Execution) string {
	switch {
	case x.State == sm.ExecutionFailedUnsafeAck:
		return "its end was acknowledged, which released its locks: undo by hand what remains, or retry it without rollback, which takes the locks anew and goes forward"
	case x.State == sm.ExecutionFailedSafeAck:
		return fmt.Sprintf("it has ended in %s, and there is nothing to undo", x.State)
	case x.State != sm.ExecutionFailedUnsafe:
		return ""
	case !slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return IsLastRollback(x, &r) }):
		why := ""
		if _, obstacle := classifyChanges(x, ""); obstacle != "" {
			why = " (" + obstacle + ")"
		}
		return "it has not begun to roll back what it has executed last" + why + ": check what remains, then acknowledge it, or retry it without rollback, which goes forward"
	}
	remaining := slices.DeleteFunc(stepRunsToUndo(x), func(r *workflow.StepRun) bool {
		return wasCompleted(x, r.Seq) || x.Undo != nil && !slices.Contains(x.Undo.StepRuns, r.Seq)
	})
	if len(remaining) == 0 {
		return "nothing of it is left to undo: acknowledge it"
	}
	obstacle := ""
	for _, r := range remaining {
		if obstacle = cmp.Or(obstacle, undoGivenUp(x, r)); x.Undo == nil { // otherwise it covers only entities that are known to be undoable
			obstacle = cmp.Or(obstacle, obstacleTo(r))
		}
	}
	switch byHand := ": undo by hand what remains, and acknowledge it"; {
	case isEntityNotHeld(x.Error):
		return x.Error.Message + byHand
	case obstacle != "":
		return obstacle + byHand
	case x.Unlocked || x.Scope.LockEpoch() != x.Epoch || x.Kept != nil && x.Kept.Len() == 0 && releasedUnsafe(x):
		return "it has released its locks, so others may have changed its entities" + byHand + ", or retry it without rollback, which takes the locks anew and goes forward"
	case x.Scope.EpochBeforeRestore > 0:
		return "the tables were restored since it took its locks, so what was done since is unknown" + byHand + ", or retry it without rollback, which takes the locks anew and goes forward"
	case x.Key != "":
		return fmt.Sprintf("it has the key %q, which another execution may have taken since it ended", x.Key) + byHand
	}
	return ""
}

// undoGivenUp reports that an execution was started to undo a step run but nobody waited for its
// end, because the engine had given up on the rollback. It is empty if there is none.
func undoGivenUp(x *workflow.Execution, undone *workflow.StepRun) string {
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.Kind == workflow.JobRollback && r.Undoes == undone.Seq && r.Child != nil && r.Status == sm.StepCancelled {
			return fmt.Sprintf("whether execution %s has undone what step %q has done is unknown", r.Child.ID, undone.Label)
		}
	}
	return ""
}

// IsLastRollback reports whether a step run is a wave of the rollback of the last try's work: a
// wave of that try, or of a try that only continues it.
func IsLastRollback(x *workflow.Execution, r *workflow.StepRun) bool {
	return r.Kind == workflow.JobRollback && r.Try >= x.LastForwardTry()
}

// releasedUnsafe reports whether an operator has released entities whose changes remain. What the
// end released by itself is safe, and recorded as such.
func releasedUnsafe(x *workflow.Execution) bool {
	switch {
	case x.Kept == nil:
		return false
	case x.Result == nil:
		return x.Scope.Total() > 0
	case x.Result.Unread():
		return x.Kept.Len() != x.Result.Count[workflow.EntityFailedUnsafe] // what the end kept by itself are these
	}
	return x.Result.Sets[workflow.EntityFailedUnsafe].Without(*x.Kept).Len() > 0
}

// resetForRollback resets the execution for a try that only rolls back. It keeps why the execution
// failed or was cancelled, because its end reports that again. onlyKept restricts it to the
// entities that are still held.
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
	if IsCancelled(x) && x.Cause != workflow.CauseCancelled { // do not report again that its rollback has failed
		x.Error = nil
		d.recordCancelled()
	}
	if x.Undo != nil { // it had come to its end, and failed because it could not undo the work on some entities
		undo := *x.Undo
		if x.Kept != nil {
			undo.Entities = undo.Entities.Both(*x.Kept)
		}
		x.Undo, x.Cause, x.Reason, x.Error = &undo, "", "", nil
	}
	x.EndedAt, x.RolledBack, x.Acknowledged = time.Time{}, false, nil
}

// endWithReleased ends a retried rollback that has undone everything it covered. What an operator
// had released before stays as it was.
func (d *decider) endWithReleased(o *Outcomes) {
	d.endUnsafe(sm.EventRollbackFailed, o, map[string]any{"because": "what was changed on entities that had been released before was not undone"})
}
