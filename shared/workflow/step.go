package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// StepRun is one run of a step, one wave of a rollback, or one call of a block's acquire.
// Its jobs are cut into lanes in a fixed order, so that a repeated dispatch sends the same
// packs.
//
// A step with nested steps has a step run without jobs, which is open as long as the
// nested steps are.
type StepRun struct {
	Seq       int     `json:"seq"` // unique within the execution
	Try       int     `json:"try,omitempty"`
	StepIndex int     `json:"step"` // index of the step in the program; of an ACQUIRE, index of the acquisition
	Label     string  `json:"label"`
	Ordinal   int     `json:"ordinal"`             // which run of the step this is, from 1
	Iteration int     `json:"iteration,omitempty"` // which repetition of the step, from 1; 0 without repeat
	Kind      JobKind `json:"kind,omitempty"`      // empty without jobs
	Wave      int     `json:"wave,omitempty"`      // of a rollback, from 1
	Undoes    int     `json:"undoes,omitempty"`    // of a rollback: Seq of the step run it undoes
	Only      *Places `json:"only,omitempty"`      // of a rollback: the entities it is about; of a set of children: the items that have one, from 1; nil for all

	// In is the Seq of the innermost step run around this one that executes its steps several
	// times or side by side, 0 for none. Index says for which time or branch, from 0.
	In    int `json:"in,omitempty"`
	Index int `json:"index,omitempty"`

	// Times says how often a loop has begun its steps. List is the list of a loop, or of a step
	// that has a job for each item, and Items how many items that has. Capped says that the
	// definition has ended the loop before it was over. Continues is the Seq of the first step
	// run of a loop that a retry continues: the step runs in it have that number in In, and the
	// list is there.
	Times     int    `json:"times,omitempty"`
	Items     int    `json:"items,omitempty"`
	List      *Value `json:"list,omitempty"`
	Capped    bool   `json:"capped,omitempty"`
	Continues int    `json:"continues,omitempty"`

	// Waves says how many entities each wave of a rollout has, of which Times is the one that is
	// executed and Items the number. Its List, a [Waves], says who is in which. StoppedAt is the
	// first wave, from 1, that did not end well, of a rollout that has stopped for that: those
	// before it stand.
	Waves     []int `json:"waves,omitempty"`
	StoppedAt int   `json:"stoppedAt,omitempty"`

	// Pipeline is the Seq of the first step run of a per-entity pipeline, 0 outside a
	// pipeline. The step runs of a pipeline are open together and share their lanes: a
	// lane enters the next step run when it is over in this one.
	Pipeline int `json:"pipeline,omitempty"`

	// OnlyFailed is set by a retry: entities whose job in an earlier run of the step
	// ended with OK, and was not undone, take no part and keep that result.
	// SupersededBy is the try that does this work again: from then on the results of
	// this step run are not read any more.
	OnlyFailed   bool `json:"onlyFailed,omitempty"`
	SupersededBy int  `json:"supersededBy,omitempty"`

	// ByEngine says that the engine itself does what the step says, as its one job.
	ByEngine bool `json:"byEngine,omitempty"`

	Child *Child    `json:"child,omitempty"` // the execution that this step run started
	Wait  *StepWait `json:"wait,omitempty"`  // what this step run waits for, or has waited for

	Answers []Answer `json:"answers,omitempty"` // to what it waits for

	// Value is what a step run without jobs gives: an object with result and perhaps other
	// fields, or with the values that it sets, by path. Of one that has waited for people it is
	// the answer that was taken; of one in CASE_HANDLED it is the failure
	// as expressions see it. Route is the case of a switch that was taken, Handled the case of
	// onFailure that handles the failure of the step run, both from 1.
	Value   *Value `json:"value,omitempty"`
	Route   int    `json:"route,omitempty"`
	Next    string `json:"next,omitempty"` // label of the step that its block has named, or "end"
	Handled int    `json:"handled,omitempty"`

	// CaseErrors are the conditions of cases that could not be evaluated, and so were not true:
	// of the switch before its case was taken, or of every onFailure that was asked about the
	// failure. They are at most MaxCaseErrors.
	CaseErrors []CaseError `json:"caseErrors,omitempty"`

	// Resumes is the Seq of the step run of the same step that has waited because its block had
	// asked for that, and that this one goes on with; 0 for none.
	Resumes int `json:"resumes,omitempty"`

	// Kept are the branches of an earlier step run that this one has not executed again, because they
	// ended well there. EndedWell are the branches that have, those included, in the order of time.
	Kept      *KeptBranches `json:"kept,omitempty"`
	EndedWell []int         `json:"endedWell,omitempty"`

	// FailedBranches is how many branches of a step that has completed did not end well.
	FailedBranches int `json:"failedBranches,omitempty"`

	// InDoubt says that nobody knows whether, or how far, a job was executed: one of a step without
	// entities, or any in a wave; or what a child will do that was left to itself. No branch is done without, no wave begins behind it, and where the
	// definition handles it the execution has not wholly succeeded.
	InDoubt bool `json:"inDoubt,omitempty"`

	Status    statemachines.StepState `json:"status"`
	EnteredAt time.Time               `json:"enteredAt"`
	EndedAt   time.Time               `json:"endedAt,omitzero"`
	Deadline  time.Time               `json:"deadline,omitzero"` // when stepTimeout ends it; zero for none

	Block        string `json:"block,omitempty"` // exact reference
	Pool         string `json:"pool,omitempty"`
	Pure         bool   `json:"pure,omitempty"`
	Idempotent   bool   `json:"idempotent,omitempty"`
	Reversible   bool   `json:"reversible,omitempty"`
	UndoHarmless bool   `json:"undoHarmless,omitempty"`

	// Compensation is the block that undoes the step in place of the rollback of its own; in the
	// step run of a wave, it is the block that is called.
	Compensation *Compensation `json:"compensation,omitempty"`

	Jobs         int       `json:"jobs"`              // one per participating entity or item, or 1 for a global step
	Skipped      int       `json:"skipped,omitempty"` // entities whose condition was not true
	Unmet        int       `json:"unmet,omitempty"`   // entities of which an assertion was not true
	PackSize     int       `json:"packSize,omitempty"`
	Window       int       `json:"window,omitempty"` // lanes outstanding at a time; 0 all
	MaxAttempts  int       `json:"maxAttempts,omitempty"`
	Pace         Rate      `json:"pace,omitzero"`         // how often a job of it begins; zero for no pace
	DispatchedAt time.Time `json:"dispatchedAt,omitzero"` // notAfter of its messages is counted from here
	OfferedAt    time.Time `json:"offeredAt,omitzero"`    // when jobs that nobody had claimed for too long were sent once more

	JobsOver   bool     `json:"jobsOver,omitempty"` // its jobs have ended well, and Counts is set, but it goes on waiting
	Closing    bool     `json:"closing,omitempty"`  // no job of it may start any more, and no child may begin
	LetGo      bool     `json:"letGo,omitempty"`    // the child that it waited for goes on without it
	Failure    *Failure `json:"failure,omitempty"`  // why it failed, if not because of its jobs
	Counts     Counts   `json:"counts,omitzero"`    // set once, when the step run has ended, or JobsOver
	HasUpdates bool     `json:"updates,omitempty"`  // some job asked for updates of entities
	Broke      bool     `json:"broke,omitempty"`    // some job, of an entity in a step that repeats, answered BREAK
}

// CaseError says why the condition of a case of a switch, or of an onFailure, has no value.
type CaseError struct {
	StepIndex int    `json:"step"`                // of the step that has the case
	OnFailure bool   `json:"onFailure,omitempty"` // of its onFailure; otherwise of its switch
	Case      int    `json:"case"`                // from 1
	Message   string `json:"message,omitempty"`   // shortened; empty if there was no room
}

// AddCaseErrors adds the first of some case errors, as far as a step run keeps them.
func (r *StepRun) AddCaseErrors(all []CaseError) {
	r.CaseErrors = slices.Clip(r.CaseErrors)
	for _, e := range all[:min(len(all), MaxCaseErrors-len(r.CaseErrors))] {
		e.Message = Truncate(e.Message, MaxCaseErrorText)
		r.CaseErrors = append(r.CaseErrors, e)
	}
}

// Compensation is a block that undoes what another has done, or a workflow that undoes what an execution has.
type Compensation struct {
	Block      string `json:"block"`             // exact reference
	Workflow   Ref    `json:"workflow,omitzero"` // exact
	Pool       string `json:"pool,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
}

// Compensated is what an execution undoes.
type Compensated struct {
	Execution string `json:"execution"` // id of the execution that has done it
	Step      string `json:"step"`      // label of the step that had started that one
}

// Undoes reports whether the execution undoes what another one has done.
func (x *Execution) Undoes() bool { return x.Parent != nil && x.Parent.Compensates != nil }

// Child is an execution that a step has started, or a set of them.
type Child struct {
	ID       string                       `json:"id,omitempty"` // empty for a set
	Workflow Ref                          `json:"workflow"`     // exact
	Mode     ReferenceMode                `json:"mode"`
	State    statemachines.ExecutionState `json:"state,omitempty"`   // as last read
	Partial  bool                         `json:"partial,omitempty"` // it completed, and something in it failed
	Abandon  bool                         `json:"abandon,omitempty"` // it goes on if the step run is closed before it has ended

	// Set says that there is a child for each item of the step run, or for those in Only: as
	// many as the step run has jobs. They are numbered like the lanes of packs. Asks are the
	// numbers of those that wait for a person: the first of them.
	Set  bool  `json:"set,omitempty"`
	Asks []int `json:"asks,omitempty"`

	Ask *ChildAsk `json:"ask,omitempty"` // of a child, or of the first in Asks, that waits for a person

	// Started says of a set that nobody waits for that each of its children exists, except those
	// that could not be started: they begin, whatever becomes of the step run.
	Started bool `json:"started,omitempty"`
}

// ChildAsk says that a child waits for a person, itself or below it.
type ChildAsk struct {
	ID     string    `json:"id"` // of the child
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// MaxAsks is how many children of a set a step run names that wait for a person.
const MaxAsks = 32

// DefaultChildrenInFlight is how many children of a set are at work at a time, if the definition
// does not say, and MaxChildrenInFlight how many at most.
const (
	DefaultChildrenInFlight = 100
	MaxChildrenInFlight     = 1000
)

// IsSet reports whether the step run has started a child for each item.
func (r *StepRun) IsSet() bool { return r.Child != nil && r.Child.Set }

// IsForgotten reports whether the step run has started a child that nobody waits for.
func (r *StepRun) IsForgotten() bool {
	return r.Child != nil && !r.Child.Set && r.Child.Mode == ModeFireAndForget
}

// ChildID is the id of the child of a lane of a set. It is derived, so that there is one
// child however often it is started.
func (r *StepRun) ChildID(execution string, lane int) string {
	return DerivedID(r.EnteredAt, fmt.Sprintf("%s.%d.%d", execution, r.Seq, lane))
}

// ItemOf is the number of the item of a lane of a set.
func (r *StepRun) ItemOf(lane int) int {
	if r.Only == nil {
		return lane
	}
	return r.Only.At(lane) - 1
}

// ReferenceMode says how a referenced definition runs.
type ReferenceMode string

// The modes. An embedded definition runs within the execution, under its locks. A
// dispatched one is an execution of its own, for which the step waits. Fire and forget
// starts one and does not wait.
const (
	ModeEmbed         ReferenceMode = "embed"
	ModeDispatch      ReferenceMode = "dispatch"
	ModeFireAndForget ReferenceMode = "fireAndForget"
)

// OnParentClose says what becomes of a child when the step run that waits for it is closed before
// it has ended.
type OnParentClose string

// What may become of it: it is cancelled, or it goes on.
const (
	OnParentCloseCancel  OnParentClose = "cancel"
	OnParentCloseAbandon OnParentClose = "abandon"
)

// needsOutcomes reports whether the step run has what a release without outcomes of entities
// and without variables cannot plan again.
func (r StepRun) needsOutcomes() bool {
	return r.Unmet > 0 || r.Only != nil || r.Child != nil && (r.Child.Partial || r.Child.Abandon) || r.LetGo || r.Value != nil || r.List != nil || r.Route+r.Handled+r.In+r.Times+r.FailedBranches > 0 || r.Next != "" || len(r.CaseErrors) > 0 || !r.Pace.IsZero() || r.Compensation != nil || r.ByEngine || r.Broke || r.Wait != nil
}

// Waiting reports whether the step run waits for what somebody else has to do, or for a time. One
// that is being closed waits for its jobs only: nobody would use what it is given.
func (r *StepRun) Waiting() bool {
	return r.Open() && !r.Closing && r.Wait != nil && !r.Wait.Decided && !r.Wait.Lapsed
}

// AtWork reports whether the step run has jobs or a child that may not have ended, or the engine has
// still to do what its step says. One that waits
// beside its jobs only waits once they are over.
func (r *StepRun) AtWork() bool {
	return r.Open() && (r.HasJobs() || r.Child != nil || r.ByEngine) && !(r.JobsOver && r.Waiting())
}

// LoopSeq is the number that the step runs in a loop have in In.
func (r *StepRun) LoopSeq() int { return cmp.Or(r.Continues, r.Seq) }

// HasJobs reports whether the step run has jobs.
func (r *StepRun) HasJobs() bool { return r.Kind != "" && r.Child == nil }

// CanReadResultsOf reports whether the step run may read the results of another: of an
// earlier run of a step that no try up to its own has superseded. Those that were cut off the
// path of the execution are not readable all the same.
func (r *StepRun) CanReadResultsOf(o *StepRun) bool {
	return o.Forward() && o.Seq < r.Seq && (o.SupersededBy == 0 || r.Try < o.SupersededBy)
}

// Forward reports whether the step run executes a step; false for a rollback or an
// acquisition.
func (r *StepRun) Forward() bool { return r.Kind == "" || r.Kind == JobExecute }

// Lanes is the number of lanes the jobs are cut into.
func (r *StepRun) Lanes() int {
	if r.Jobs == 0 {
		return 0
	}
	return (r.Jobs + r.PackSize - 1) / r.PackSize
}

// LaneNotBefore is the time before which the first attempt of a lane does not begin, by the pace of the
// step; zero for none.
func (r *StepRun) LaneNotBefore(lane int) time.Time { return r.Pace.At(r.EnteredAt, lane) }

// LaneRange is the half-open range of job indexes of a lane.
func (r *StepRun) LaneRange(lane int) (from, to int) {
	return lane * r.PackSize, min(r.Jobs, (lane+1)*r.PackSize)
}

// Open reports whether the step run may still have jobs outstanding.
func (r *StepRun) Open() bool { return r != nil && r.Status == statemachines.StepRunning }

// Repeatable reports whether the jobs may be executed again.
func (r *StepRun) Repeatable() bool { return r.Pure || r.Idempotent }

// LanesPerShard is how many lanes share one done set and one partition.
const LanesPerShard = 256

// Shards is the number of done sets of the step run.
func (r *StepRun) Shards() int { return (r.Lanes() + LanesPerShard - 1) / LanesPerShard }

// Counts counts the jobs of a step run by final code, over their latest attempts.
type Counts struct {
	OK          int `json:"ok,omitempty"`
	Failed      int `json:"failed,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	NotExecuted int `json:"notExecuted,omitempty"`
	Unsent      int `json:"unsent,omitempty"` // failed jobs whose call was never made; included in Failed

	Failure       *Failure `json:"failure,omitempty"`       // of the first failed job, in job order; shortened, see package lifecycle
	UnknownEntity string   `json:"unknownEntity,omitempty"` // "type/id" of the first unknown job
}

// Executed is the number of jobs that were executed or may have been.
func (t Counts) Executed() int { return t.OK + t.Failed - t.Unsent + t.Unknown }
