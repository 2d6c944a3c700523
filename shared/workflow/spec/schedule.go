package spec

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Schedule is the schedule of one workflow of a tenant: the cron of its newest version, and
// its latest starts. A workflow whose newest version has no cron keeps a schedule that is
// off, so that a start that is under way is not lost.
type Schedule struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`    // package/name
	Version int64  `json:"version"` // +1 with every write; 0 is a schedule that was never written

	Workflow workflow.Ref `json:"workflow"` // exact
	Cron     *Cron        `json:"cron"`     // nil: off
	NextAt   time.Time    `json:"nextAt,omitzero"`

	// FiringAt is the fire time for which an execution is being started. No other fire
	// time is chosen until that execution exists. LastExecution is the newest execution,
	// and LastAt the fire time for which it was started.
	FiringAt      time.Time `json:"firingAt,omitzero"`
	LastExecution string    `json:"lastExecution,omitempty"`
	LastAt        time.Time `json:"lastAt,omitzero"`

	// Problem says why no execution was started for the fire time LastAt; empty if one
	// was.
	Problem string `json:"problem,omitempty"`

	// SkippedAt is the latest fire time that was missed during an absence, or skipped
	// because an earlier execution had not ended, and SkippedCount the number of them.
	SkippedAt    time.Time `json:"skippedAt,omitzero"`
	SkippedCount int       `json:"skipped,omitempty"`
}

// LabelSchedule is the label of executions that a schedule has started; its value is the
// full name of the workflow.
const LabelSchedule = "schedule"
