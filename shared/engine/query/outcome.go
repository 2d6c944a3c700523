package query

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// addOutcome adds to a view how the execution and each of its entities ended.
func addOutcome(e *views.ExecutionView, x *workflow.Execution) {
	e.EntityOutcomes, e.FailedEntities, e.FailedSteps, e.RerunBy = map[workflow.EntityOutcome]int{}, []workflow.EntityFailure{}, []views.FailedStep{}, []string{}
	e.Probe = x.Probe
	e.FailedRollback = failedRollback(x)
	e.Remains, e.Rollback, e.Region = remains(x), nonZeroPtr(x.Rollback), nonZeroPtr(x.Region)
	e.Acknowledged, e.RerunBy = x.Acknowledged, append(e.RerunBy, x.RerunBy...)
	if l := x.Limits; l != (workflow.RunLimits{}) {
		e.Limits = &views.ExecutionLimits{Steps: nonZeroPtr(l.Steps), StepRuns: len(x.StepRuns), Wall: nonZeroPtr(l.Wall)}
	}
	if x.Key != "" {
		e.Key = &x.Key
	}
	if x.KeyOwner != "" {
		e.KeyOwner = &x.KeyOwner
	}
	if x.RerunOf != "" {
		e.RerunOf = &x.RerunOf
	}
	if x.FollowUpOf != nil {
		e.FollowUpOf = &x.FollowUpOf.Execution
	}
	outcome := x.Outcome()
	if outcome == "" {
		return
	}
	e.Outcome = &outcome
	e.EntityOutcomes = entityOutcomes(x)
	if outcome == workflow.OutcomePartial {
		e.FailedSteps = failedSteps(x)
	}
	if x.Result != nil {
		e.FailedEntities = append(e.FailedEntities, x.Result.Named...)
	}
	e.Kept = new(int)
	if epoch := x.Scope.LockEpoch(); epoch > 0 && sm.Terminal(x.State) && x.OwnerStatus().Holds(epoch, 0) {
		if *e.Kept = wholeScope(x); x.Kept != nil {
			*e.Kept = x.Kept.Len()
		}
	}
}

// failedSteps returns the first steps whose failure remains, without the surrounding steps.
func failedSteps(x *workflow.Execution) []views.FailedStep {
	steps := []views.FailedStep{}
	for _, r := range x.FailedSteps() {
		why, jobs := r.Failure, r.Counts.Failed+r.Counts.Unknown
		switch {
		case why == nil && jobs > 0:
			_, why = lifecycle.FailureOf(r, r.Counts)
		case why == nil && r.Unmet > 0:
			why = unmetFailure(x, r)
		}
		partial := r.Child != nil && r.Child.Partial // its failures are not known here
		if (why != nil || partial) && len(steps) < workflow.MaxNamedFailures {
			steps = append(steps, views.FailedStep{Step: r.Label, Visit: r.Ordinal, Jobs: jobs, Unmet: r.Unmet, Failure: views.NewFailureView(why), Because: failureLeft(x, r), Child: childView(r)})
		}
	}
	return steps
}

// failureLeft is why the execution has completed although something in the step run failed.
func failureLeft(x *workflow.Execution, r *workflow.StepRun) views.FailureLeft {
	switch {
	case r.Status != sm.StepFailed && r.Child != nil:
		return views.LeftChild
	case r.Status != sm.StepFailed:
		return views.LeftTolerated
	}
	in := r
	for around := x.StepRunBySeq(r.In); around != nil && r.In > 0; in, around = around, x.StepRunBySeq(around.In) {
		switch {
		case around.FailedBranches > 0 && !slices.Contains(around.EndedWell, in.Index):
			return views.LeftBranch
		case around.StoppedAt > 0:
			return views.LeftRollout
		case around.In == 0:
			return views.LeftContinueOnError
		}
	}
	return views.LeftContinueOnError
}

// unmetFailure returns why entities of a step run have no job. It takes the reason from one of the
// named entities, if there is one.
func unmetFailure(x *workflow.Execution, r *workflow.StepRun) *workflow.Failure {
	if x.Result != nil {
		for _, f := range x.Result.Named {
			if f.Step == r.Label && f.Code == workflow.FailureAssertion {
				return &workflow.Failure{Code: f.Code, Step: f.Step, Entity: f.Entity, Message: f.Message}
			}
		}
	}
	return &workflow.Failure{Code: workflow.FailureAssertion, Step: r.Label, Message: fmt.Sprintf("an assertion of step %q is not true of %d entities", r.Label, r.Unmet)}
}

// wholeScope returns how many entities the execution has, or had before it was retried for some of
// them.
func wholeScope(x *workflow.Execution) int {
	total := x.Scope.Total()
	if x.Scope.Only != nil {
		for _, s := range x.PastScopes {
			if s.LockEpoch() == x.Scope.LockEpoch() {
				total = max(total, s.Total())
			}
		}
	}
	return total
}

// entityOutcomes counts the entities of an ended execution by outcome. If nothing is recorded about
// single entities, all have the outcome of the execution.
func entityOutcomes(x *workflow.Execution) map[workflow.EntityOutcome]int {
	counts := map[workflow.EntityOutcome]int{}
	rest := wholeScope(x)
	if x.Result != nil {
		for outcome, n := range x.Result.Count {
			counts[outcome] += n
			rest -= n
		}
	}
	if rest > 0 {
		counts[x.RestOutcome()] += rest
	}
	if x.DroppedCount > 0 {
		counts[workflow.EntitySkipped] += x.DroppedCount
	}
	return counts
}

// remains returns what may remain of an execution that ended unsafely, and why it was not undone,
// as stated in the event of its end; nil for any other execution.
func remains(x *workflow.Execution) *string {
	if x.State != sm.ExecutionFailedUnsafe && x.State != sm.ExecutionFailedUnsafeAck {
		return nil
	}
	for i := len(x.Events) - 1; i >= 0; i-- {
		if e := &x.Events[i]; e.To != string(sm.ExecutionFailedUnsafe) || e.From == e.To { // some entities were acknowledged later
			continue
		}
		var data struct {
			Because string `json:"because"`
		}
		if json.Unmarshal(x.Events[i].Data, &data) != nil {
			return nil
		}
		return nonZeroPtr(data.Because)
	}
	return nil
}
