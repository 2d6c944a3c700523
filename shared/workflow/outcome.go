package workflow

import (
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// EntityOutcome is what an execution has made of one entity, once it has ended.
type EntityOutcome string

// The outcomes of an entity, from the best to the worst.
const (
	EntitySucceeded    EntityOutcome = "SUCCEEDED"     // none of its jobs finally failed
	EntitySkipped      EntityOutcome = "SKIPPED"       // it was left out before anything ran on it
	EntityFailedSafe   EntityOutcome = "FAILED_SAFE"   // it failed, and nothing that is not pure was executed on it or all of that is undone
	EntityLeft         EntityOutcome = "LEFT"          // it failed in a known way, and the definition says to leave it as it is
	EntityFailedUnsafe EntityOutcome = "FAILED_UNSAFE" // it failed, and an operator has to look at it
)

// EntityOutcomes are the outcomes of an entity, from the best to the worst.
func EntityOutcomes() []EntityOutcome {
	return []EntityOutcome{EntitySucceeded, EntitySkipped, EntityFailedSafe, EntityLeft, EntityFailedUnsafe}
}

// OutcomeSets lists, of each outcome but SUCCEEDED, the entities that have it, by place.
// Entities in no set have succeeded.
type OutcomeSets map[EntityOutcome]Places

// Of is the outcome of the entity at a place.
func (s OutcomeSets) Of(place int) EntityOutcome {
	for outcome, places := range s {
		if places.Contains(place) {
			return outcome
		}
	}
	return EntitySucceeded
}

// Outcome is how an execution has ended, as its entities tell: the worst outcome of any.
type Outcome string

// The outcomes of an execution.
const (
	OutcomeSucceeded    Outcome = "SUCCEEDED"
	OutcomePartial      Outcome = "PARTIAL" // it completed, and something in it failed
	OutcomeFailedSafe   Outcome = "FAILED_SAFE"
	OutcomeFailedUnsafe Outcome = "FAILED_UNSAFE"
	OutcomeCancelled    Outcome = "CANCELLED"
	OutcomeProbed       Outcome = "PROBED" // it only executed the pure steps at its beginning
)

// Outcomes are the outcomes of an execution.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomePartial, OutcomeFailedSafe, OutcomeFailedUnsafe, OutcomeCancelled, OutcomeProbed}
}

// RollbackMode says whether a failed execution is rolled back.
type RollbackMode string

// The rollback modes; RollbackAuto is the default.
const (
	RollbackAuto  RollbackMode = "auto"
	RollbackNever RollbackMode = "never"
)

// Result is what the state item keeps of the outcomes of the entities. An execution in
// which nothing failed has none.
type Result struct {
	Sets  OutcomeSets           `json:"sets,omitempty"`  // empty if they are too large for the item
	Count map[EntityOutcome]int `json:"count,omitempty"` // by outcome, without SUCCEEDED
	Named []EntityFailure       `json:"named,omitempty"` // the first that failed, the worst outcomes first
}

// EntityFailure is why one entity failed.
type EntityFailure struct {
	Entity  string        `json:"entity"` // "type/id"
	Outcome EntityOutcome `json:"outcome"`
	Step    string        `json:"step"` // label
	Code    string        `json:"code"`
	Message string        `json:"message"`
}

// LastEnd is how an execution had ended before a new try, as far as an end of that try needs it
// that comes before it has executed anything.
type LastEnd struct {
	Unsafe    bool      `json:"unsafe,omitempty"` // as FAILED_UNSAFE, acknowledged or not; else as FAILED_SAFE
	StartedAt time.Time `json:"startedAt,omitzero"`
	Result    *Result   `json:"result,omitempty"`
}

// MaxNamedFailures bounds [Result].Named.
const MaxNamedFailures = 10

// Outcome is how the execution has ended, "" before its end.
func (x *Execution) Outcome() Outcome {
	switch x.State {
	case statemachines.ExecutionCompleted, statemachines.ExecutionCompletedAck:
		if x.Probe {
			return OutcomeProbed
		}
		if x.Result != nil || slices.ContainsFunc(x.StepRuns, x.leavesFailure) {
			return OutcomePartial
		}
		return OutcomeSucceeded
	case statemachines.ExecutionFailedSafe, statemachines.ExecutionFailedSafeAck:
		return OutcomeFailedSafe
	case statemachines.ExecutionFailedUnsafe, statemachines.ExecutionFailedUnsafeAck:
		return OutcomeFailedUnsafe
	case statemachines.ExecutionCancelled, statemachines.ExecutionCancelledAck:
		return OutcomeCancelled
	}
	return ""
}

// FailedSteps are the step runs whose failures the execution has left when it has ended.
func (x *Execution) FailedSteps() (failed []*StepRun) {
	for i := range x.StepRuns {
		if x.leavesFailure(x.StepRuns[i]) {
			failed = append(failed, &x.StepRuns[i])
		}
	}
	return failed
}

// RestOutcome is the outcome of the entities about which nothing is recorded.
func (x *Execution) RestOutcome() EntityOutcome {
	switch outcome := x.Outcome(); {
	case outcome == OutcomeSucceeded || outcome == OutcomePartial || outcome == OutcomeProbed || x.Result != nil && len(x.Result.Sets) > 0:
		return EntitySucceeded
	case x.StartedAt.IsZero() && outcome != OutcomeFailedUnsafe:
		return EntitySkipped
	case outcome == OutcomeFailedUnsafe || x.State == statemachines.ExecutionCancelled || outcome == OutcomeCancelled && x.Acknowledged != nil:
		return EntityFailedUnsafe
	}
	return EntityFailedSafe
}

// EntityOutcome is what the execution has made of the entity at a place, "" before its end.
// known is false if the sets were too large to be kept.
func (x *Execution) EntityOutcome(place int) (outcome EntityOutcome, known bool) {
	switch {
	case x.Outcome() == "":
		return "", true
	case x.Result == nil:
		return x.RestOutcome(), true
	case len(x.Result.Sets) == 0 && len(x.Result.Count) > 0:
		return "", false
	}
	if outcome := x.Result.Sets.Of(place); outcome != EntitySucceeded {
		return outcome, true
	}
	return x.RestOutcome(), true
}

// Failed reports whether the entity failed.
func (o EntityOutcome) Failed() bool {
	return o == EntityFailedSafe || o == EntityLeft || o == EntityFailedUnsafe
}

// leavesFailure reports whether something in the step run failed and no later try has
// done it again.
func (x *Execution) leavesFailure(r StepRun) bool {
	if r.Child != nil && r.Child.Partial && r.SupersededBy == 0 && !x.RetriedLater(&r) {
		return true
	}
	if r.FailedBranches > 0 && r.SupersededBy == 0 {
		return true
	}
	if !r.Forward() || r.SupersededBy != 0 || r.Handled > 0 && !r.InDoubt || r.Status != statemachines.StepFailed && r.Counts.Failed+r.Counts.Unknown+r.Unmet == 0 {
		return false
	}
	return !x.RetriedLater(&r)
}

// RetriedLater reports whether a later try repeats the failed jobs of a step run. Then only
// its jobs that ended OK still count.
func (x *Execution) RetriedLater(r *StepRun) bool {
	return slices.ContainsFunc(x.StepRuns, func(o StepRun) bool {
		return o.OnlyFailed && o.StepIndex == r.StepIndex && o.Kind == r.Kind && o.Try > r.Try && o.SupersededBy == 0 && x.SameTime(&o, r)
	})
}
