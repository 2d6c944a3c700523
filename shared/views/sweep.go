package views

import (
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// SweepView is what the next sweep would do.
type SweepView struct {
	AsOf       time.Time      `json:"asOf"`
	Executions []DueExecution `json:"executions"`
	Workers    []DueWorker    `json:"workers"`
	Schedules  []DueSchedule  `json:"schedules"`
	Complete   bool           `json:"complete"` // everything that is due was looked at
}

// DueExecution is a run whose alarm has rung, since when.
type DueExecution struct {
	Execution string                       `json:"execution"`
	State     statemachines.ExecutionState `json:"state"`
	Since     time.Time                    `json:"since"`
}

// DueWorker is a polling worker that has been silent for too long, since when.
type DueWorker struct {
	Worker    string                    `json:"worker"`
	State     statemachines.WorkerState `json:"state"`
	NextState statemachines.WorkerState `json:"becomes"`
	Since     time.Time                 `json:"since"`
}

// DueSchedule is a schedule whose moment has come. Run is the id of the run that
// would be started, null if it would be skipped.
type DueSchedule struct {
	Schedule    string    `json:"schedule"` // package/name
	FireTime    time.Time `json:"moment"`
	Skipped     bool      `json:"skipped"`
	ExecutionID *string   `json:"run"`
}
