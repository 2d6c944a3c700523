package spec

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Schedule is the clock of one workflow of a tenant: the cron of its newest
// version, and what has come of it. A workflow that has no cron any more keeps a
// schedule that is off, so that a fire which is under way stays known.
type Schedule struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`    // package/name
	Version int64  `json:"version"` // +1 with every write; 0 is a schedule that was never written

	Workflow workflow.Ref `json:"workflow"` // exact
	Cron     *Cron        `json:"cron"`     // nil: off
	NextAt   time.Time    `json:"nextAt,omitzero"`

	// FiringAt is the moment for which a run is being started: from then on no other
	// moment is chosen until its run stands. Last is the newest run, and LastAt the
	// moment for which it was started.
	FiringAt      time.Time `json:"firingAt,omitzero"`
	LastExecution string    `json:"lastExecution,omitempty"`
	LastAt        time.Time `json:"lastAt,omitzero"`

	// Problem, if it is set, says what kept the moment LastAt from being a run.
	Problem string `json:"problem,omitempty"`

	// The newest moment at which no run was started, because an earlier one had
	// not ended; and how many such moments there were.
	SkippedAt    time.Time `json:"skippedAt,omitzero"`
	SkippedCount int       `json:"skipped,omitempty"`
}

// LabelSchedule is the label by which the runs of a schedule are found; its value
// is the workflow's full name.
const LabelSchedule = "schedule"
