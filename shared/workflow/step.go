package workflow

import (
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// StepRun is one visit of one step, or one wave of a rollback, or one call of a
// block's acquire. Its jobs are cut into lanes in a fixed order, so that a
// repeated dispatch sends the same packs.
//
// A step with nested steps has a run without jobs, open as long as these run.
type StepRun struct {
	Seq       int     `json:"seq"` // unique within the execution
	Try       int     `json:"try,omitempty"`
	StepIndex int     `json:"step"` // index of the step in the run's program; of an ACQUIRE, of the acquisition
	Label     string  `json:"label"`
	Ordinal   int     `json:"ordinal"`             // from 1
	Iteration int     `json:"iteration,omitempty"` // which repetition of the step this visit is, from 1; 0 without repeat
	Kind      JobKind `json:"kind,omitempty"`      // empty without jobs
	Wave      int     `json:"wave,omitempty"`      // of a rollback, from 1
	Undoes    int     `json:"undoes,omitempty"`

	// Pipeline is the RunSeq of the first run of a stretch of per-entity pipelines,
	// 0 outside one. The runs of a stretch are open together and share their
	// lanes: a lane enters the next run when it is over in this one.
	Pipeline int `json:"pipeline,omitempty"`

	// OnlyFailed is set by a retry: entities with which an earlier run of the step
	// came to OK, and that has not been undone, take no part and keep that result.
	// Superseded is the try that does the run's work again: from then on its results
	// are not seen any more.
	OnlyFailed   bool `json:"onlyFailed,omitempty"`
	SupersededBy int  `json:"supersededBy,omitempty"`

	Child *Child `json:"child,omitempty"` // the run that this visit started

	Status    statemachines.StepState `json:"status"`
	EnteredAt time.Time               `json:"enteredAt"`
	EndedAt   time.Time               `json:"endedAt,omitzero"`

	Block        string `json:"block,omitempty"` // exact reference
	Pool         string `json:"pool,omitempty"`
	Pure         bool   `json:"pure,omitempty"`
	Idempotent   bool   `json:"idempotent,omitempty"`
	Reversible   bool   `json:"reversible,omitempty"`
	UndoHarmless bool   `json:"undoHarmless,omitempty"`

	Jobs         int       `json:"jobs"`              // one per participating entity, or 1 for a global step
	Skipped      int       `json:"skipped,omitempty"` // entities whose condition was not true
	PackSize     int       `json:"packSize,omitempty"`
	Window       int       `json:"window,omitempty"` // lanes outstanding at a time; 0 all
	MaxAttempts  int       `json:"maxAttempts,omitempty"`
	DispatchedAt time.Time `json:"dispatchedAt,omitzero"` // notAfter of its messages counts from here

	Closing    bool     `json:"closing,omitempty"` // no job of it may start any more
	Failure    *Failure `json:"failure,omitempty"` // why it failed, if not for its jobs
	Counts     Counts   `json:"counts,omitzero"`   // counted once, when the run has ended
	HasUpdates bool     `json:"updates,omitempty"` // some job asked for updates of entities
}

// Child is a run that a step has started.
type Child struct {
	ID       string                       `json:"id"`
	Workflow Ref                          `json:"workflow"` // exact
	Mode     ReferenceMode                `json:"mode"`
	State    statemachines.ExecutionState `json:"state,omitempty"` // as last seen
}

// HasJobs reports whether the run is one of jobs.
func (r *StepRun) HasJobs() bool { return r.Kind != "" }

// CanReadResultsOf reports whether the run sees what came of another: of a visit before it
// that no try up to its own has done again. What earlier tries have done in later
// steps lies ahead.
func (r *StepRun) CanReadResultsOf(o *StepRun) bool {
	return o.Forward() && o.Seq < r.Seq && (o.SupersededBy == 0 || r.Try < o.SupersededBy) && (o.Try == r.Try || o.StepIndex <= r.StepIndex)
}

// Forward reports whether the run is a visit of a step, not the undoing of one
// or an acquisition.
func (r *StepRun) Forward() bool { return r.Kind == "" || r.Kind == JobExecute }

// Lanes is the number of packs the run is cut into.
func (r *StepRun) Lanes() int {
	if r.Jobs == 0 {
		return 0
	}
	return (r.Jobs + r.PackSize - 1) / r.PackSize
}

// LaneRange is the half-open range of job indexes of a lane.
func (r *StepRun) LaneRange(lane int) (from, to int) {
	return lane * r.PackSize, min(r.Jobs, (lane+1)*r.PackSize)
}

// Open reports whether the run may still have jobs outstanding.
func (r *StepRun) Open() bool { return r != nil && r.Status == statemachines.StepRunning }

// Repeatable reports whether the run's jobs may run again.
func (r *StepRun) Repeatable() bool { return r.Pure || r.Idempotent }

// LanesPerShard is how many lanes share one done set and one partition.
const LanesPerShard = 256

// Shards is the number of done sets of the run.
func (r *StepRun) Shards() int { return (r.Lanes() + LanesPerShard - 1) / LanesPerShard }

// Counts counts the final codes of a run's jobs, over the latest attempts.
type Counts struct {
	OK          int `json:"ok,omitempty"`
	Failed      int `json:"failed,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	NotExecuted int `json:"notExecuted,omitempty"`
	Unsent      int `json:"unsent,omitempty"` // of those failed, jobs whose call was never made

	Failure       *Failure `json:"failure,omitempty"`       // the first failed job's, in job order
	UnknownEntity string   `json:"unknownEntity,omitempty"` // the first one's "type/id"
}

// Executed is the number of jobs that were started for certain or perhaps.
func (t Counts) Executed() int { return t.OK + t.Failed - t.Unsent + t.Unknown }
