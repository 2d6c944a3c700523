package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The state item of an execution must never become too large to be written, because then nobody
// could end the execution. Package workflow defines the limits; this file enforces them.

// maxEntered bounds the size of the step runs, in bytes, that one decision enters before it is
// committed. Only a commit tells how many bytes they take in the item.
const maxEntered = 64 << 10

// hasRoom reports whether n more step runs may be entered: the item has space for them, and enough
// numbers are left for them and for a rollback of everything entered.
func (d *decider) hasRoom(n int) bool {
	last := d.execution.StepRunSeq + n
	return d.execution.ItemBytes <= workflow.MaxRunningBytes && last+len(d.execution.StepRuns)+n <= workflow.MaxStepRunSeq
}

// maxStepRuns returns how many step runs the execution may have.
func (d *decider) maxStepRuns() int {
	if n := d.execution.Limits.Steps; n > 0 {
		return min(n, d.policy.MaxStepRuns)
	}
	return d.policy.MaxStepRuns
}

// fits reports whether the item has space for step runs that are entered together. Compression
// reduces their JSON to less than half.
func (d *decider) fits(stepRuns []workflow.StepRun) bool {
	return d.execution.ItemBytes+(d.entered+d.jsonBytes(stepRuns))/2 <= workflow.MaxRunningBytes
}

// hasRoomFor reports whether the item has space for n bytes of optional data, and also for
// everything that every execution may need: the command of an operator.
func (d *decider) hasRoomFor(n int) bool {
	return d.execution.ItemBytes+n <= workflow.MaxItemBytes-workflow.CommandBytes
}

// refuseForRoom refuses an addition to a waiting step run if the item has no space for it. The wait
// still ends at its deadline, and operators can still end the execution.
func (d *decider) refuseForRoom(r *workflow.StepRun, v any) error {
	if d.execution.ItemBytes+d.jsonBytes(v) <= workflow.MaxAnsweredBytes {
		return nil
	}
	return workflow.Errorf(workflow.CodeLimit, "execution %s takes %d KiB, and has no room for more answers or tokens of step %q: cancel it, or let the step end at its deadline",
		d.execution.ID, (d.execution.ItemBytes+1023)>>10, r.Label)
}

// jsonBytes returns the size of a value as JSON.
func (d *decider) jsonBytes(v any) int {
	raw, err := workflow.EncodeJSON(v)
	if err != nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "encode a step run: %w", err)
	}
	return len(raw)
}

// failAtLimit fails the execution instead of entering a step.
func (d *decider) failAtLimit(n *spec.Node) {
	d.decision.LimitReached = true
	message := fmt.Sprintf("the execution has %d step runs and %d events, which take %d KiB, and one of these numbers is at its limit: split it into several executions",
		len(d.execution.StepRuns), d.execution.Sequence, (d.execution.ItemBytes+1023)>>10)
	if most := d.execution.Limits.Steps; most > 0 && len(d.execution.StepRuns) >= most {
		message = fmt.Sprintf("the execution has had %d step runs, and is to have no more (limits.steps)", most)
	}
	d.setFailure(workflow.CauseLimit, &workflow.Failure{Code: workflow.FailureLimit, Step: n.Label, Message: message})
	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": n.Label})
	d.thread = nil
	d.stopAll()
}

// noRoomToRollBack returns why a rollback wave cannot begin for lack of space; nil if it can. It
// reserves space for the commands of operators.
func (d *decider) noRoomToRollBack(r *workflow.StepRun) *workflow.Failure {
	if d.execution.ItemBytes <= workflow.MaxRollbackBytes && r.Seq <= workflow.MaxStepRunSeq {
		return nil
	}
	return &workflow.Failure{
		Code: workflow.FailureLimit, Step: r.Label,
		Message: fmt.Sprintf("the execution has %d step runs, which take %d KiB, and no room for another: undo the rest by hand", len(d.execution.StepRuns), (d.execution.ItemBytes+1023)>>10),
	}
}

// boundFailures limits the space that the failures of step runs and branches take. The first and
// the last step run that failed keep the full text, and so does the first branch that failed. The
// others keep the beginning of the message and no details; the oldest of these keep only a code.
// The messages of case errors share the same space. The whole failure stays in the pack of the job.
func boundFailures(stepRuns []workflow.StepRun, threads []workflow.Thread) {
	first, last := -1, -1
	for i := range stepRuns {
		if r := &stepRuns[i]; r.Failure != nil || r.Counts.Failure != nil {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	room := workflow.MaxFailureTexts
	firstBranch := slices.IndexFunc(threads, func(t workflow.Thread) bool { return t.Failure != nil })
	for i := range threads {
		if t := &threads[i]; i == firstBranch {
			t.Failure = t.Failure.Truncated()
		} else {
			t.Failure = shortFailure(t.Failure, &room)
		}
	}
	for i := len(stepRuns) - 1; i >= 0; i-- {
		r := &stepRuns[i]
		r.CaseErrors = slices.Clone(r.CaseErrors)
		for j := range r.CaseErrors {
			if room -= len(r.CaseErrors[j].Message); room < 0 {
				r.CaseErrors[j].Message = ""
			}
		}
		if i == first || i == last {
			r.Failure, r.Counts.Failure = r.Failure.Truncated(), r.Counts.Failure.Truncated()
			continue
		}
		r.Failure, r.Counts.Failure = shortFailure(r.Failure, &room), shortFailure(r.Counts.Failure, &room)
		if room -= len(r.Counts.UnknownEntity); room < 0 {
			r.Counts.UnknownEntity = ""
		}
	}
}

// shortFailure returns a failure without details and with only the beginning of its message. It
// keeps only the code if room, the number of bytes left for all texts, is used up.
func shortFailure(f *workflow.Failure, room *int) *workflow.Failure {
	if f == nil {
		return nil
	}
	short := *f
	short.Code, short.Message, short.Details = workflow.Truncate(f.Code, workflow.MaxFailureCode), workflow.Truncate(f.Message, workflow.MaxShortMessage), nil
	if *room -= len(short.Code) + len(short.Message) + len(short.Entity); *room < 0 {
		short.Code, short.Message, short.Entity = workflow.Truncate(f.Code, workflow.MaxShortCode), "", ""
	}
	return &short
}

// executionFailure returns a failure as the execution keeps it. Its message may be longer than that
// of a step run, because it names every child that passed the failure on.
func executionFailure(f *workflow.Failure) *workflow.Failure {
	b := *f.Truncated()
	b.Message = workflow.Truncate(f.Message, workflow.MaxReasonBytes)
	return &b
}
