package query

import (
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// addOutcome adds to a view how the execution has ended, and how each of its entities has.
func addOutcome(e *views.ExecutionView, x *workflow.Execution) {
	e.EntityOutcomes, e.FailedEntities, e.RerunBy = map[workflow.EntityOutcome]int{}, []workflow.EntityFailure{}, []string{}
	e.Probe = x.Probe
	e.Acknowledged, e.RerunBy = x.Acknowledged, append(e.RerunBy, x.RerunBy...)
	if x.RerunOf != "" {
		e.RerunOf = &x.RerunOf
	}
	outcome := x.Outcome()
	if outcome == "" {
		return
	}
	e.Outcome = &outcome
	e.EntityOutcomes = entityOutcomes(x)
	if x.Result != nil {
		e.FailedEntities = append(e.FailedEntities, x.Result.Named...)
	}
	e.Kept = new(int)
	if owner := x.OwnerStatus(); owner.Holds(x.Scope.HeldEpoch, 0) && sm.Terminal(x.State) && x.Scope.HeldEpoch > 0 {
		if *e.Kept = wholeScope(x); x.Kept != nil {
			*e.Kept = x.Kept.Len()
		}
	}
}

// wholeScope is how many entities the execution has, or had before it was retried for some.
func wholeScope(x *workflow.Execution) int {
	total := x.Scope.Total()
	if x.Scope.Only != nil {
		for _, s := range x.PastScopes {
			if s.HeldEpoch == x.Scope.HeldEpoch {
				total = max(total, s.Total())
			}
		}
	}
	return total
}

// entityOutcomes counts the entities of an ended execution by outcome. Where nothing is
// recorded about single entities, all have the outcome of the execution.
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
