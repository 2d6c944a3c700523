package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// classify drives ERROR. It decides how a failed execution ends once every pack of it
// is final:
//
//   - only pure blocks were executed: FAILED_SAFE;
//   - every executed block that is not pure can be undone: ROLLBACK;
//   - otherwise FAILED_UNSAFE, with what an operator has to check.
func (d *decider) classify() {
	if !d.closeOpenSteps() {
		return
	}
	switch v, why := classifyChanges(d.execution, d.config().Rollback); {
	case v == noChanges:
		d.endSafe(sm.EventExecutionClassifiedSafe, sm.ExecutionFailedSafe)
	case v == reversibleChanges:
		d.transition(sm.EventRollbackStarted, sm.ExecutionRollback, "", nil)
	case isEntityNotHeld(d.execution.Error):
		d.end(sm.EventExecutionClassifiedUnsafe, sm.ExecutionFailedUnsafe, map[string]any{"because": why + notRolledBack(d.execution)})
	default:
		if o := d.outcomes(true); o != nil {
			d.endUnsafe(sm.EventExecutionClassifiedUnsafe, o, map[string]any{"because": why + notRolledBack(d.execution)})
		}
	}
}

// endSafe ends an execution that leaves no changes. If entities have failed, it records which ones,
// and why.
func (d *decider) endSafe(on sm.Event, to sm.ExecutionState) {
	if d.facts.Resolution != nil && (d.anyEntityFailed() || d.execution.Result != nil) {
		if !d.recordOutcomes() {
			return
		}
	}
	d.end(on, to, nil)
}

// remainingChanges classifies what remains of the executed jobs.
type remainingChanges int

// The classes, from the best to the worst.
const (
	noChanges           remainingChanges = iota // only pure blocks were executed
	reversibleChanges                           // everything executed can be undone
	irreversibleChanges                         // something cannot, or must not, be undone
)

// classifyChanges classifies what remains of the execution's step runs. The text is the reason for
// irreversibleChanges.
func classifyChanges(x *workflow.Execution, mode workflow.RollbackMode) (remainingChanges, string) {
	remaining := stepRunsToUndo(x)
	if isEntityNotHeld(x.Error) {
		return irreversibleChanges, x.Error.Message
	}
	if len(remaining) == 0 {
		return noChanges, ""
	}
	for _, r := range remaining {
		if rollbackOf(x, r.Seq) != nil || undoFailedBefore(x, r.Seq) {
			return irreversibleChanges, fmt.Sprintf("the rollback of step %q has failed", r.Label)
		}
		if why := obstacleTo(r); why != "" {
			return irreversibleChanges, why
		}
	}
	if mode == workflow.RollbackNever {
		return irreversibleChanges, "rollback is switched off"
	}
	return reversibleChanges, ""
}

// notRolledBack names the steps whose changes remain if an execution is not rolled back, newest
// first. It is empty if there is only one, because the reason names that one.
func notRolledBack(x *workflow.Execution) string {
	labels := remainingLabels(x)
	if len(labels) < 2 {
		return ""
	}
	text := "; nothing was rolled back: "
	if slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Kind == workflow.JobRollback }) {
		text = "; "
	}
	return text + "what these steps have changed remains: " + firstLabels(labels)
}

// remainingLabels returns the steps whose changes remain, newest first.
func remainingLabels(x *workflow.Execution) (labels []string) {
	for _, r := range stepRunsToUndo(x) {
		if !slices.Contains(labels, r.Label) {
			labels = append(labels, r.Label)
		}
	}
	return labels
}

// maxLabels bounds the steps that a reason names.
const maxLabels = 5

// firstLabels lists the first labels, and how many more there are.
func firstLabels(labels []string) string {
	shown := strings.Join(labels[:min(len(labels), maxLabels)], ", ")
	if more := len(labels) - maxLabels; more > 0 {
		shown += fmt.Sprintf(", %d more", more)
	}
	return shown
}

// obstacleTo returns why the work of a step run cannot be undone; empty if it can.
func obstacleTo(r *workflow.StepRun) string {
	switch {
	case r.IsSet() && r.LetGo:
		return fmt.Sprintf("executions that step %q started go on by themselves", r.Label)
	case r.IsSet():
		return fmt.Sprintf("the changes of the executions that step %q started remain", r.Label)
	case r.LetGo:
		return fmt.Sprintf("execution %s, which step %q started, goes on by itself", r.Child.ID, r.Label)
	case r.Child != nil && !r.Reversible:
		return fmt.Sprintf("the changes of execution %s, which step %q started, remain", r.Child.ID, r.Label)
	case r.Counts.Unknown > 0 && !r.UndoHarmless:
		return fmt.Sprintf("whether step %q changed %s is unknown", r.Label, cmp.Or(r.Counts.UnknownEntity, "an entity"))
	case !r.Reversible:
		return fmt.Sprintf("step %q has no rollback", r.Label)
	}
	return ""
}

// HasChanges reports whether changes of the execution remain: something that is not pure was
// executed and has not been undone. If the current try has executed nothing, the last end is
// decisive.
func HasChanges(x *workflow.Execution) bool {
	if x.LastEnd != nil {
		return x.LastEnd.Unsafe
	}
	return len(stepRunsToUndo(x)) > 0
}

// stepRunsToUndo lists the step runs that have changed something and have not been
// undone, newest first. A failed rollback has not undone its step run.
func stepRunsToUndo(x *workflow.Execution) []*workflow.StepRun {
	var remaining []*workflow.StepRun
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		r := &x.StepRuns[i]
		if r.Kind == workflow.JobRollback || r.Kind != workflow.JobExecute && r.Child == nil || r.Pure || r.Counts.Executed() == 0 {
			continue
		}
		if u := rollbackOf(x, r.Seq); u == nil || u.Status != sm.StepCompleted {
			remaining = append(remaining, r)
		}
	}
	return remaining
}

// undoFailedBefore reports whether a rollback of some entities of the step run has failed.
func undoFailedBefore(x *workflow.Execution, seq int) bool {
	return slices.ContainsFunc(x.StepRuns, func(u workflow.StepRun) bool {
		return u.Kind == workflow.JobRollback && u.Undoes == seq && u.Only != nil && u.Status == sm.StepFailed
	})
}

// rollbackOf returns the last rollback of a step run; nil if there is none. A rollback of only the
// failed entities does not count.
func rollbackOf(x *workflow.Execution, seq int) *workflow.StepRun {
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		if r := &x.StepRuns[i]; r.Kind == workflow.JobRollback && r.Undoes == seq && r.Only == nil {
			return r
		}
	}
	return nil
}
