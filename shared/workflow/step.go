package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// StepRun is one run of a step, one wave of a rollback, or one call of a block's acquire. Its jobs
// are cut into lanes in a fixed order, so that a repeated dispatch sends the same packs.
//
// A step with nested steps has a step run without jobs, which stays open as long as the nested
// steps do.
type StepRun struct {
	Seq       int     `json:"seq"` // unique within the execution
	Try       int     `json:"try,omitempty"`
	StepIndex int     `json:"step"` // index of the step in the program; for an ACQUIRE, index of the acquisition
	Label     string  `json:"label"`
	Ordinal   int     `json:"ordinal"`             // number of this run of the step, from 1
	Iteration int     `json:"iteration,omitempty"` // number of the repetition, from 1; 0 without repeat
	Kind      JobKind `json:"kind,omitempty"`      // empty without jobs
	Wave      int     `json:"wave,omitempty"`      // for a rollback, from 1
	Undoes    int     `json:"undoes,omitempty"`    // for a rollback: Seq of the step run that it undoes
	Only      *Places `json:"only,omitempty"`      // for a rollback: the entities it covers; for a set of children: the items that have one, from 1; nil for all

	// In is the Seq of the innermost surrounding step run that executes its steps repeatedly or in
	// parallel; 0 for none. Index is the round or the branch, from 0.
	In    int `json:"in,omitempty"`
	Index int `json:"index,omitempty"`

	// Times is how often a loop has begun its steps. List is the list of a loop, or of a step that
	// has a job for each item; Items is its number of items. Capped means that the definition has
	// ended the loop before it was over. Continues is the Seq of the first step run of a loop that
	// a retry continues: step runs inside it have that number in In, and the list is stored there.
	Times     int    `json:"times,omitempty"`
	Items     int    `json:"items,omitempty"`
	List      *Value `json:"list,omitempty"`
	Capped    bool   `json:"capped,omitempty"`
	Continues int    `json:"continues,omitempty"`

	// Waves is the number of entities in each wave of a rollout. Times is the current wave, and
	// Items the number of waves. Its List, a [Waves], says which entity is in which wave. If the
	// rollout has stopped, StoppedAt is the first wave, from 1, that did not end well; the waves
	// before it stand.
	Waves     []int `json:"waves,omitempty"`
	StoppedAt int   `json:"stoppedAt,omitempty"`

	// Pipeline is the Seq of the first step run of a per-entity pipeline; 0 outside of a pipeline.
	// The step runs of a pipeline are open together and share their lanes: a lane enters the next
	// step run when it is over in this one. BytesBefore is the size of the results from before the
	// pipeline that the expressions of this step run read, of all entities; 0 if it is not known.
	Pipeline    int `json:"pipeline,omitempty"`
	BytesBefore int `json:"bytesBefore,omitempty"`

	// OnlyFailed is set by a retry: entities whose job in an earlier run of the step ended OK and
	// was not undone take no part and keep that result. SupersededBy is the try that repeats this
	// work; from then on the results of this step run are no longer read.
	OnlyFailed   bool `json:"onlyFailed,omitempty"`
	SupersededBy int  `json:"supersededBy,omitempty"`

	// ByEngine says that the engine itself does what the step says, as its one job.
	ByEngine bool `json:"byEngine,omitempty"`

	Child *Child    `json:"child,omitempty"` // the execution that this step run started
	Wait  *StepWait `json:"wait,omitempty"`  // what this step run waits for, or has waited for

	Answers []Answer `json:"answers,omitempty"` // answers to what it waits for

	// Value is the result of a step run without jobs: an object with result and perhaps other
	// fields, or with the values that it sets, by path. After waiting for people it is the accepted
	// answer; in CASE_HANDLED it is the failure as expressions see it. Route is the case of a
	// switch that was taken. Handled is the case of onFailure that handles the failure of the step
	// run. Both count from 1.
	Value   *Value `json:"value,omitempty"`
	Route   int    `json:"route,omitempty"`
	Next    string `json:"next,omitempty"` // label of the step that its block has named, or "end"
	Handled int    `json:"handled,omitempty"`

	// CaseErrors are the case conditions that could not be evaluated, and so counted as false:
	// those of the switch before the case that was taken, or those of each onFailure that was
	// tried. There are at most MaxCaseErrors.
	CaseErrors []CaseError `json:"caseErrors,omitempty"`

	// Resumes is the Seq of the step run of the same step that waited because its block asked for
	// that, and from which this one continues; 0 for none.
	Resumes int `json:"resumes,omitempty"`

	// Kept are the branches of an earlier step run that this one has not executed again, because they
	// ended well there. EndedWell are the branches that have, those included, in the order of time.
	Kept      *KeptBranches `json:"kept,omitempty"`
	EndedWell []int         `json:"endedWell,omitempty"`

	// FailedBranches is how many branches of a completed step did not end well.
	FailedBranches int `json:"failedBranches,omitempty"`

	// InDoubt means that it is unknown whether, or how far, a job was executed (in a step without
	// entities, or any job in a wave), or what a child will do that was left to itself. A doubt is
	// not tolerated: no branch with one may be left out, and no further wave begins. If the
	// definition handles it, the execution is only a partial success.
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

	// Compensation is the block that undoes the step instead of its own rollback. In the step run
	// of a rollback wave, it is the block that is called.
	Compensation *Compensation `json:"compensation,omitempty"`

	Jobs         int       `json:"jobs"`              // one per participating entity or item, or 1 for a global step
	Skipped      int       `json:"skipped,omitempty"` // entities whose condition was false
	Unmet        int       `json:"unmet,omitempty"`   // entities for which an assertion was false
	PackSize     int       `json:"packSize,omitempty"`
	Window       int       `json:"window,omitempty"` // lanes outstanding at a time; 0 for all
	MaxAttempts  int       `json:"maxAttempts,omitempty"`
	Pace         Rate      `json:"pace,omitzero"`         // how often a job starts; zero for no pace
	DispatchedAt time.Time `json:"dispatchedAt,omitzero"` // start for the notAfter of its messages
	OfferedAt    time.Time `json:"offeredAt,omitzero"`    // when jobs that had been unclaimed for too long were sent once more
	PassedOverAt time.Time `json:"passedOverAt,omitzero"` // since when workers of the pool have been seen only with messages that were sent after OfferedAt

	JobsOver   bool     `json:"jobsOver,omitempty"` // its jobs have ended well, and Counts is set, but it still waits
	Closing    bool     `json:"closing,omitempty"`  // no job of it may start any more, and no child may begin
	LetGo      bool     `json:"letGo,omitempty"`    // the child that it waited for continues without it
	Failure    *Failure `json:"failure,omitempty"`  // why it failed, if not because of its jobs
	Counts     Counts   `json:"counts,omitzero"`    // set once, when the step run has ended, or JobsOver
	HasUpdates bool     `json:"updates,omitempty"`  // some job requested entity updates
	Broke      bool     `json:"broke,omitempty"`    // some job, of an entity in a step that repeats, answered BREAK

	// Part is who has a job, in a repetition or before pipelines, on some entities only; Left is who has answered BREAK in it. So the next
	// repetition does not plan this one and those before it again. Both are nil if they would
	// take more than MaxPartBytes.
	Part *Places `json:"part,omitempty"`
	Left *Places `json:"left,omitempty"`
}

// PassedOver reports whether the queue of its pool has passed over the jobs since they were offered last, and was not seen before them again.
func (r *StepRun) PassedOver() bool { return r.PassedOverAt.After(r.OfferedAt) }

// MaxPartBytes is how long the set of the entities that take part in a repetition may be as text: about 3,000 entities,
// or as many as there are in few ranges.
const MaxPartBytes = 512

// PartOf returns a set as it is stored with a step run; nil if it is too long for that.
func PartOf(places ...int) *Places {
	set := NewPlaces(places...)
	if len(places) == 0 || slices.Contains(places, 0) || len(set.String()) > MaxPartBytes {
		return nil
	}
	return &set
}

// CaseError says why the condition of a case, of a switch or of an onFailure, has no value.
type CaseError struct {
	StepIndex int    `json:"step"`                // of the step that has the case
	OnFailure bool   `json:"onFailure,omitempty"` // a case of its onFailure; otherwise of its switch
	Case      int    `json:"case"`                // from 1
	Message   string `json:"message,omitempty"`   // shortened; empty if there was no space
}

// AddCaseErrors adds case errors, up to the number that a step run keeps.
func (r *StepRun) AddCaseErrors(all []CaseError) {
	r.CaseErrors = slices.Clip(r.CaseErrors)
	for _, e := range all[:min(len(all), MaxCaseErrors-len(r.CaseErrors))] {
		e.Message = Truncate(e.Message, MaxCaseErrorText)
		r.CaseErrors = append(r.CaseErrors, e)
	}
}

// Compensation is a block that undoes the work of another block, or a workflow that undoes the work
// of an execution.
type Compensation struct {
	Block      string `json:"block"`             // exact reference
	Workflow   Ref    `json:"workflow,omitzero"` // exact
	Pool       string `json:"pool,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
}

// Compensated is what an execution undoes.
type Compensated struct {
	Execution string `json:"execution"` // id of the execution to undo
	Step      string `json:"step"`      // label of the step that started it
}

// Undoes reports whether the execution undoes the work of another one.
func (x *Execution) Undoes() bool { return x.Parent != nil && x.Parent.Compensates != nil }

// Child is an execution that a step has started, or a set of them.
type Child struct {
	ID       string                       `json:"id,omitempty"` // empty for a set
	Workflow Ref                          `json:"workflow"`     // exact
	Mode     ReferenceMode                `json:"mode"`
	State    statemachines.ExecutionState `json:"state,omitempty"`   // as last read
	Partial  bool                         `json:"partial,omitempty"` // it completed, but something in it failed
	Abandon  bool                         `json:"abandon,omitempty"` // it continues if the step run is closed before it has ended

	// Set means that there is a child for each item of the step run, or for those in Only: as many
	// as the step run has jobs. They are numbered like the lanes of packs. Asks are the numbers of
	// the first children that wait for a person.
	Set  bool  `json:"set,omitempty"`
	Asks []int `json:"asks,omitempty"`

	Ask *ChildAsk `json:"ask,omitempty"` // of a child, or of the first in Asks, that waits for a person

	// Started means, for a set in fire-and-forget mode, that each of its children exists, except
	// those that could not be started. They begin, whatever happens to the step run.
	Started bool `json:"started,omitempty"`
}

// ChildAsk says that a child waits for a person, itself or below it.
type ChildAsk struct {
	ID     string    `json:"id"` // of the child
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// MaxAsks is how many children that wait for a person a step run names.
const MaxAsks = 32

// DefaultChildrenInFlight is how many children of a set run at a time if the definition does not
// say; MaxChildrenInFlight is the largest number.
const (
	DefaultChildrenInFlight = 100
	MaxChildrenInFlight     = 1000
)

// LacksChild reports whether the child that the step run was to start is known never to have been created.
func (r *StepRun) LacksChild() bool {
	return r.Child != nil && !r.Child.Set && r.Child.State == "" && !r.LetGo && !r.Open() && r.Counts.Unsent+r.Counts.NotExecuted > 0
}

// ChildOutput returns what the only child of the step run has given; nil if it has not completed.
func (r *StepRun) ChildOutput() *Value {
	if r.Value == nil && r.Status == statemachines.StepCompleted && r.Child != nil && r.Child.Mode == ModeDispatch && r.Child.State == statemachines.ExecutionCompletedAck {
		return &NoOutput
	}
	return r.Value
}

// IsSet reports whether the step run has started a child for each item.
func (r *StepRun) IsSet() bool { return r.Child != nil && r.Child.Set }

// IsForgotten reports whether the step run has started a child in fire-and-forget mode.
func (r *StepRun) IsForgotten() bool {
	return r.Child != nil && !r.Child.Set && r.Child.Mode == ModeFireAndForget
}

// ChildID returns the id of the child of a lane of a set. It is derived, so that there is only one
// child even if the start is repeated.
func (r *StepRun) ChildID(execution string, lane int) string {
	return DerivedID(r.EnteredAt, fmt.Sprintf("%s.%d.%d", execution, r.Seq, lane))
}

// ItemOf returns the index of the item of a lane of a set.
func (r *StepRun) ItemOf(lane int) int {
	if r.Only == nil {
		return lane
	}
	return r.Only.At(lane) - 1
}

// ReferenceMode says how a referenced definition runs.
type ReferenceMode string

// Modes of references. An embedded definition runs within the execution, under its locks. A
// dispatched one is a separate execution that the step waits for. Fire and forget starts an
// execution without waiting for it.
const (
	ModeEmbed         ReferenceMode = "embed"
	ModeDispatch      ReferenceMode = "dispatch"
	ModeFireAndForget ReferenceMode = "fireAndForget"
)

// OnParentClose says what happens to a child when the step run that waits for it is closed before
// it has ended.
type OnParentClose string

// What may happen to it: it is cancelled, or it continues.
const (
	OnParentCloseCancel  OnParentClose = "cancel"
	OnParentCloseAbandon OnParentClose = "abandon"
)

// needsOutcomes reports whether a release without entity outcomes and without variables could not
// plan the step run again.
func (r StepRun) needsOutcomes() bool {
	return r.Unmet > 0 || r.Only != nil || r.Child != nil && (r.Child.Partial || r.Child.Abandon) || r.LetGo || r.Value != nil || r.List != nil || r.Route+r.Handled+r.In+r.Times+r.FailedBranches > 0 || r.Next != "" || len(r.CaseErrors) > 0 || !r.Pace.IsZero() || r.Compensation != nil || r.ByEngine || r.Broke || r.Part != nil || r.Wait != nil
}

// Waiting reports whether the step run waits for somebody else's action, or for a time. A step run
// that is being closed waits only for its jobs: nothing else would be used.
func (r *StepRun) Waiting() bool {
	return r.Open() && !r.Closing && r.Wait != nil && !r.Wait.Decided && !r.Wait.Lapsed
}

// IsWorking reports whether the step run has jobs or a child that may not have ended, or the engine has
// still to do what its step says. One that waits
// beside its jobs only waits once they are over.
func (r *StepRun) IsWorking() bool {
	return r.Open() && (r.HasJobs() || r.Child != nil || r.ByEngine) && !(r.JobsOver && r.Waiting())
}

// LoopSeq returns the number that step runs inside a loop have in In.
func (r *StepRun) LoopSeq() int { return cmp.Or(r.Continues, r.Seq) }

// HasJobs reports whether the step run has jobs.
func (r *StepRun) HasJobs() bool { return r.Kind != "" && r.Child == nil }

// JobCount returns how many jobs the step run has. In a pipeline every lane counts until the step run
// is over: only then is it known for which entities there was nothing to do.
func (r *StepRun) JobCount() int {
	if r.Pipeline > 0 && r.Kind == JobExecute {
		return r.Jobs - r.Skipped - r.Unmet
	}
	return r.Jobs
}

// CanReadResultsOf reports whether the step run may read the results of another one: an earlier run
// of a step that no try up to its own has superseded. This is not enough for step runs that were
// cut off the path of the execution, which are never readable.
func (r *StepRun) CanReadResultsOf(o *StepRun) bool {
	return o.Forward() && o.Seq < r.Seq && (o.SupersededBy == 0 || r.Try < o.SupersededBy)
}

// Forward reports whether the step run executes a step; false for a rollback or an
// acquisition.
func (r *StepRun) Forward() bool { return r.Kind == "" || r.Kind == JobExecute }

// Lanes returns the number of lanes into which the jobs are cut.
func (r *StepRun) Lanes() int {
	if r.Jobs == 0 {
		return 0
	}
	return (r.Jobs + r.PackSize - 1) / r.PackSize
}

// LaneNotBefore returns the earliest start of a lane's first attempt, by the pace of the step; zero
// for none.
func (r *StepRun) LaneNotBefore(lane int) time.Time { return r.Pace.At(r.EnteredAt, lane) }

// LaneRange returns the half-open range of job indexes of a lane.
func (r *StepRun) LaneRange(lane int) (from, to int) {
	return lane * r.PackSize, min(r.Jobs, (lane+1)*r.PackSize)
}

// Open reports whether the step run may still have jobs outstanding.
func (r *StepRun) Open() bool { return r != nil && r.Status == statemachines.StepRunning }

// Repeatable reports whether the jobs may be executed again.
func (r *StepRun) Repeatable() bool { return r.Pure || r.Idempotent }

// LanesPerShard is how many lanes share one done set and one partition.
const LanesPerShard = 256

// LanesOfShard returns how many of a step run's lanes are in a shard.
func LanesOfShard(lanes, shard int) int { return min(LanesPerShard, lanes-shard*LanesPerShard) }

// Shards returns the number of done sets of the step run.
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

// Executed returns the number of jobs that were executed or may have been.
func (t Counts) Executed() int { return t.OK + t.Failed - t.Unsent + t.Unknown }
