package views

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// ScheduleView is the schedule of one workflow.
type ScheduleView struct {
	Schedule        string       `json:"schedule"` // package/name
	Workflow        workflow.Ref `json:"workflow"` // exact: the version that is started
	Cron            string       `json:"cron"`
	Zone            string       `json:"zone"`
	Concurrency     bool         `json:"concurrency"`
	NextAt          *time.Time   `json:"nextAt"`
	LastExecutionID *string      `json:"last"` // id of the newest execution
	LastAt          *time.Time   `json:"lastAt"`
	SkippedAt       *time.Time   `json:"skippedAt"` // the latest fire time that was missed, or skipped because an execution had not ended
	Skipped         int          `json:"skipped"`
	Problem         *string      `json:"problem"` // why no execution was started for the latest fire time
}

// NewScheduleView is the view of a schedule.
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
