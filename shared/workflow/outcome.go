package workflow

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// EntityOutcome is the outcome of one entity in an execution that has ended.
type EntityOutcome string

// Outcomes of an entity, from the best to the worst.
const (
	EntitySucceeded    EntityOutcome = "SUCCEEDED"     // none of its jobs finally failed
	EntitySkipped      EntityOutcome = "SKIPPED"       // it was left out before anything ran on it, or the condition of no step was true of it
	EntityFailedSafe   EntityOutcome = "FAILED_SAFE"   // it failed; nothing that is not pure was executed on it, or all of that was undone
	EntityLeft         EntityOutcome = "LEFT"          // it failed in a known way, and the definition says to leave it as it is
	EntityFailedUnsafe EntityOutcome = "FAILED_UNSAFE" // it failed, and an operator must look at it
)

// EntityOutcomes returns the outcomes of an entity, from the best to the worst.
func EntityOutcomes() []EntityOutcome {
	return []EntityOutcome{EntitySucceeded, EntitySkipped, EntityFailedSafe, EntityLeft, EntityFailedUnsafe}
}

// OutcomeSets lists, for each outcome except SUCCEEDED, the entities that have it, by place.
// Entities in no set have succeeded.
type OutcomeSets map[EntityOutcome]Places

// Of returns the outcome of the entity at a place.
func (s OutcomeSets) Of(place int) EntityOutcome {
	for outcome, places := range s {
		if places.Contains(place) {
			return outcome
		}
	}
	return EntitySucceeded
}

// Outcome is how an execution ended, judged by its entities: the worst outcome of any.
type Outcome string

// Outcomes of an execution.
const (
	OutcomeSucceeded    Outcome = "SUCCEEDED"
	OutcomePartial      Outcome = "PARTIAL" // it completed, but something in it failed
	OutcomeFailedSafe   Outcome = "FAILED_SAFE"
	OutcomeFailedUnsafe Outcome = "FAILED_UNSAFE"
	OutcomeCancelled    Outcome = "CANCELLED"
	OutcomeProbed       Outcome = "PROBED" // it only executed the pure steps at its beginning
)

// Outcomes returns the outcomes of an execution.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomePartial, OutcomeFailedSafe, OutcomeFailedUnsafe, OutcomeCancelled, OutcomeProbed}
}

// RollbackMode says whether a failed execution is rolled back.
type RollbackMode string

// Rollback modes; RollbackAuto is the default.
const (
	RollbackAuto  RollbackMode = "auto"
	RollbackNever RollbackMode = "never"
)

// Result is what the state item keeps about the outcomes of the entities. An execution in which
// all entities succeeded has none.
type Result struct {
	Sets   OutcomeSets           `json:"sets,omitempty"`
	Stored *PayloadRef           `json:"stored,omitempty"` // where the sets are if they are too large for the item: under ValueKey of the execution
	Count  map[EntityOutcome]int `json:"count,omitempty"`  // by outcome, without SUCCEEDED
	Named  []EntityFailure       `json:"named,omitempty"`  // the first entities that failed, the worst outcomes first
}

// MaxInlineSetBytes bounds the encoded size of all sets of a result together, as they are in the
// state item.
const MaxInlineSetBytes = 1 << 10

// Bytes returns the encoded size of all sets together.
func (s OutcomeSets) Bytes() (n int) {
	for _, places := range s {
		n += len(places.String())
	}
	return n
}

// Unread reports whether the sets are stored in items of their own, and have not been read.
func (r *Result) Unread() bool { return r != nil && r.Stored != nil && r.Sets == nil }

// InItem returns the result as the state item has it: without sets that are in items of their own.
func (r *Result) InItem() *Result {
	if r == nil || r.Stored == nil {
		return r
	}
	bare := *r
	bare.Sets = nil
	return &bare
}

// failed reports whether an entity failed.
func (r *Result) failed() bool {
	for outcome, n := range r.Count {
		if outcome.Failed() && n > 0 {
			return true
		}
	}
	return false
}

// EntityFailure says why one entity failed.
type EntityFailure struct {
	Entity  string        `json:"entity"` // "type/id"
	Outcome EntityOutcome `json:"outcome"`
	Step    string        `json:"step"` // label
	Code    string        `json:"code"`
	Message string        `json:"message"`

	// Released means that somebody has acknowledged or unlocked this entity by its name: the execution
	// does not hold it any more.
	Released bool `json:"released,omitempty"`
}

// LastEnd is how an execution had ended before a new try. It holds what is needed if that try ends
// before it has executed anything.
type LastEnd struct {
	Unsafe    bool      `json:"unsafe,omitempty"` // FAILED_UNSAFE, acknowledged or not; otherwise FAILED_SAFE
	StartedAt time.Time `json:"startedAt,omitzero"`
	Result    *Result   `json:"result,omitempty"`
}

// MaxNamedFailures bounds [Result].Named.
const MaxNamedFailures = 10

// NoOutput is the output of an execution that has completed, and whose definition has none.
var NoOutput = Value{Inline: json.RawMessage("{}")}

// GivenOutput returns what the execution has given; nil before it has completed, and of a probe.
func (x *Execution) GivenOutput() *Value {
	completed := x.State == statemachines.ExecutionCompleted || x.State == statemachines.ExecutionCompletedAck
	if x.Output == nil && completed && !x.Probe {
		return &NoOutput
	}
	return x.Output
}

// Outcome returns how the execution ended; "" before its end.
func (x *Execution) Outcome() Outcome {
	switch x.State {
	case statemachines.ExecutionCompleted, statemachines.ExecutionCompletedAck:
		if x.Probe {
			return OutcomeProbed
		}
		if x.Result != nil && (x.Result.failed() || x.lacksWaves()) || slices.ContainsFunc(x.StepRuns, x.leavesFailure) {
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

// lacksWaves reports whether a rollout has stopped before its last wave. A retry of the entities
// that were kept does not begin the waves of the others.
func (x *Execution) lacksWaves() bool {
	return slices.ContainsFunc(x.StepRuns, func(r StepRun) bool { return r.StoppedAt > 0 && (r.SupersededBy == 0 || x.Scope.Only != nil) })
}

// FailedSteps returns the step runs whose failures remain at the end of the execution.
func (x *Execution) FailedSteps() (failed []*StepRun) {
	for i := range x.StepRuns {
		if x.leavesFailure(x.StepRuns[i]) {
			failed = append(failed, &x.StepRuns[i])
		}
	}
	return failed
}

// RestOutcome returns the outcome of the entities about which nothing is recorded.
func (x *Execution) RestOutcome() EntityOutcome {
	switch outcome := x.Outcome(); {
	case outcome == OutcomeSucceeded || outcome == OutcomePartial || outcome == OutcomeProbed || x.Result != nil:
		return EntitySucceeded
	case x.StartedAt.IsZero() && outcome != OutcomeFailedUnsafe:
		return EntitySkipped
	case outcome == OutcomeFailedUnsafe || x.State == statemachines.ExecutionCancelled || outcome == OutcomeCancelled && x.Acknowledged != nil:
		return EntityFailedUnsafe
	}
	return EntityFailedSafe
}

// EntityOutcome returns the outcome of the entity at a place; "" before the end of the execution.
// known is false if the sets have not been read.
func (x *Execution) EntityOutcome(place int) (outcome EntityOutcome, known bool) {
	switch {
	case x.Outcome() == "":
		return "", true
	case x.Result == nil:
		return x.RestOutcome(), true
	}
	if x.Result.Unread() {
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

// leavesFailure reports whether something in the step run failed and no later try has repeated it.
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
	return slices.ContainsFunc(x.StepRuns, func(o StepRun) bool { return x.repeatsFailed(&o, r) })
}

// repeatsFailed reports whether the step run o repeats the failed jobs of r.
func (x *Execution) repeatsFailed(o, r *StepRun) bool {
	return o.OnlyFailed && o.StepIndex == r.StepIndex && o.Kind == r.Kind && o.Try > r.Try && o.SupersededBy == 0 && x.SameRound(o, r)
}

// Acknowledgement records who acknowledged the end of an execution, or some of its entities, and why.
type Acknowledgement struct {
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
	Entities *int      `json:"entities"` // the number that it released by name; nil if it was of all that were left
}

// Acknowledgements is the latest acknowledgement of an execution with those before it.
type Acknowledgements struct {
	Acknowledgement
	Earlier     []Acknowledgement `json:"earlier"`     // the last MaxEarlierAcks, with the beginning of their reasons
	EarlierMore int               `json:"earlierMore"` // those before them; the history has all
}

// And returns the acknowledgements with a later one.
func (a *Acknowledgements) And(next Acknowledgement) *Acknowledgements {
	if a == nil {
		return &Acknowledgements{Acknowledgement: next}
	}
	last := a.Acknowledgement
	last.Reason = Truncate(last.Reason, MaxShortMessage)
	earlier := append(slices.Clone(a.Earlier), last)
	over := max(0, len(earlier)-MaxEarlierAcks)
	return &Acknowledgements{Acknowledgement: next, Earlier: earlier[over:], EarlierMore: a.EarlierMore + over}
}
