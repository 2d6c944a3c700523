package workflow

import (
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// StepRun is one visit of one step, or one wave of a rollback. Its jobs are cut
// into lanes in a fixed order, so that a repeated dispatch sends the same packs.
type StepRun struct {
	RunSeq int     `json:"runSeq"` // unique within the execution
	Step   int     `json:"step"`   // index of the step in the definition
	Label  string  `json:"label"`
	Visit  int     `json:"visit"` // from 1
	Kind   JobKind `json:"kind"`
	Wave   int     `json:"wave,omitempty"` // of a rollback, from 1
	Undoes int     `json:"undoes,omitempty"`

	Status    statemachines.StepState `json:"status"`
	EnteredAt time.Time               `json:"enteredAt"`
	EndedAt   time.Time               `json:"endedAt,omitzero"`

	Block        string `json:"block,omitempty"` // exact reference
	Pool         string `json:"pool,omitempty"`
	Pure         bool   `json:"pure,omitempty"`
	Idempotent   bool   `json:"idempotent,omitempty"`
	Reversible   bool   `json:"reversible,omitempty"`
	UndoHarmless bool   `json:"undoHarmless,omitempty"`

	Jobs        int       `json:"jobs"`              // one per participating entity, or 1 for a global step
	Skipped     int       `json:"skipped,omitempty"` // entities whose condition was not true
	PackSize    int       `json:"packSize,omitempty"`
	Window      int       `json:"window,omitempty"` // lanes outstanding at a time; 0 all
	MaxAttempts int       `json:"maxAttempts,omitempty"`
	EpochTime   time.Time `json:"epochTime,omitzero"` // notAfter of its messages counts from here

	Closing bool  `json:"closing,omitempty"` // no job of it may start any more
	Tally   Tally `json:"tally,omitzero"`    // counted once, when the run has ended
}

// Lanes is the number of packs the run is cut into.
func (r *StepRun) Lanes() int {
	if r.Jobs == 0 {
		return 0
	}
	return (r.Jobs + r.PackSize - 1) / r.PackSize
}

// LaneJobs is the half-open range of job indexes of a lane.
func (r *StepRun) LaneJobs(lane int) (from, to int) {
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

// Tally counts the final codes of a run's jobs, over the latest attempts.
type Tally struct {
	OK          int `json:"ok,omitempty"`
	Failed      int `json:"failed,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	NotExecuted int `json:"notExecuted,omitempty"`

	Failure       *Failure `json:"failure,omitempty"`       // the first failed job's, in job order
	UnknownEntity string   `json:"unknownEntity,omitempty"` // the first one's "type/id"
}

// Executed is the number of jobs that were started for certain or perhaps.
func (t Tally) Executed() int { return t.OK + t.Failed + t.Unknown }
