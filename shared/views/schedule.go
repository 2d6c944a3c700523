package views

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// ScheduleView is the clock of one workflow as it is shown.
type ScheduleView struct {
	Schedule        string       `json:"schedule"` // package/name
	Workflow        workflow.Ref `json:"workflow"` // exact: the version that runs
	Cron            string       `json:"cron"`
	Zone            string       `json:"zone"`
	Concurrency     bool         `json:"concurrency"`
	NextAt          *time.Time   `json:"nextAt"`
	LastExecutionID *string      `json:"last"` // id of the newest run
	LastAt          *time.Time   `json:"lastAt"`
	SkippedAt       *time.Time   `json:"skippedAt"` // the newest moment skipped because a run had not ended
	Skipped         int          `json:"skipped"`
	Problem         *string      `json:"problem"` // what kept the newest moment from being a run
}

// NewScheduleView is the schedule as it is shown.
func NewScheduleView(s spec.Schedule) ScheduleView {
	v := ScheduleView{
		Schedule: s.Name, Workflow: s.Workflow, NextAt: nilIfZero(s.NextAt), LastExecutionID: nilIfZero(s.LastExecution), LastAt: nilIfZero(s.LastAt),
		SkippedAt: nilIfZero(s.SkippedAt), Skipped: s.SkippedCount, Problem: nilIfZero(s.Problem),
	}
	if c := s.Cron; c != nil {
		v.Cron, v.Zone, v.Concurrency = c.Schedule, c.Zone, c.Concurrency
	}
	if v.Zone == "" {
		v.Zone = "UTC"
	}
	return v
}
