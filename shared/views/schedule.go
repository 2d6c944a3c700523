package views

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/statemachines"
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

	Paused     *SchedulePause       `json:"paused"`     // null unless it is paused
	Executions []ScheduledExecution `json:"executions"` // the newest ones, newest first
}

// SchedulePause is who has paused a schedule. By is null if nobody has: a version was archived,
// which leaves an older version with a schedule of its own, and pauses it.
type SchedulePause struct {
	By     *string   `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// ScheduledExecution is an execution that a schedule has started. State is null in lists, and if
// the execution was never created or was deleted.
type ScheduledExecution struct {
	ID    string                        `json:"id"`
	At    time.Time                     `json:"at"` // the fire time
	By    *string                       `json:"by"` // who has fired the schedule, null for a fire time
	State *statemachines.ExecutionState `json:"state"`
}

// FiredView names the execution that was started by firing a schedule.
type FiredView struct {
	ID string `json:"id"`
}

// NewScheduleView returns the view of a schedule.
func NewScheduleView(s spec.Schedule) ScheduleView {
	v := ScheduleView{
		Schedule: s.Name, Workflow: s.Workflow, NextAt: nilIfZero(s.NextAt), LastExecutionID: nilIfZero(s.LastExecution), LastAt: nilIfZero(s.LastAt),
		SkippedAt: nilIfZero(s.SkippedAt), Skipped: s.SkippedCount, Problem: nilIfZero(s.Problem), Executions: []ScheduledExecution{},
	}
	if p := s.Paused; p != nil {
		v.Paused = &SchedulePause{By: nilIfZero(p.By), At: p.At, Reason: p.Reason}
	}
	for _, r := range s.Recent {
		v.Executions = append(v.Executions, ScheduledExecution{ID: r.Execution, At: r.At, By: nilIfZero(r.By)})
	}
	if c := s.Cron; c != nil {
		v.Cron, v.Zone, v.Concurrency = c.Schedule, c.Zone, c.Concurrency
	}
	if v.Zone == "" {
		v.Zone = "UTC"
	}
	return v
}
