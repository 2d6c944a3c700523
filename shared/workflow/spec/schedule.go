package spec

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// MaxCrons is how many named schedules a definition has at most.
const MaxCrons = 10

// CronNamed is the schedule of a name that the definition has, nil if it has none. The name of the one
// without a name is empty.
func (d *Definition) CronNamed(name string) *Cron {
	if name == "" {
		return d.Cron
	}
	i := slices.IndexFunc(d.Crons, func(c Cron) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Crons[i]
}

// CronNames are the names of the schedules of the definition that have one.
func (d *Definition) CronNames() []string {
	names := make([]string, len(d.Crons))
	for i, c := range d.Crons {
		names[i] = c.Name
	}
	return names
}

// ScheduleName is the name of a schedule of a workflow: that of the workflow and, of one of several, @ and
// its own.
func ScheduleName(workflow, name string) string {
	if name == "" {
		return workflow
	}
	return workflow + "@" + name
}

// SplitScheduleName is the workflow, and the own name, of a schedule.
func SplitScheduleName(schedule string) (workflow, name string) {
	workflow, name, _ = strings.Cut(schedule, "@")
	return workflow, name
}

// Schedule is one schedule of a workflow of a tenant: the cron of its newest version, and
// its latest starts. A workflow whose newest version has no cron keeps a schedule that is
// off, so that a start that is under way is not lost.
type Schedule struct {
	Tenant  string `json:"tenant"`
	Name    string `json:"name"`    // package/name, or package/name@name
	Version int64  `json:"version"` // +1 with every write; 0 for a schedule that was never written

	Workflow workflow.Ref `json:"workflow"` // exact: the newest version when the schedule was last written
	Cron     *Cron        `json:"cron"`     // nil: off
	NextAt   time.Time    `json:"nextAt,omitzero"`

	// MadeBy is the step run that has made the schedule, or has removed it; nil for one of a definition. What it
	// starts is the newest version that fits Follows.
	MadeBy  *ScheduleMaker `json:"madeBy,omitempty"`
	Follows string         `json:"follows,omitempty"`

	// ChangedBy are the step runs that have changed the schedule last, the newest last, at most
	// [MaxScheduleMakers] and one for each execution. Whatever has changed it since, none of them does so again.
	ChangedBy []ScheduleMaker `json:"changedBy,omitempty"`

	// Named are the own names of the schedules that the newest version of the workflow has, and of those that
	// are still on; only in the schedule without a name.
	Named []string `json:"named,omitempty"`

	// FiringAt is the fire time for which an execution is being started. No other fire
	// time is chosen until that execution exists. LastExecution is the newest execution,
	// and LastAt the fire time for which it was started.
	FiringAt      time.Time `json:"firingAt,omitzero"`
	LastExecution string    `json:"lastExecution,omitempty"`
	LastAt        time.Time `json:"lastAt,omitzero"`

	// Problem is why no execution was started for the fire time LastAt; empty if one was.
	Problem string `json:"problem,omitempty"`

	// SkippedAt is the latest fire time that was missed during an absence, or skipped
	// because an earlier execution had not ended, and SkippedCount the number of them.
	SkippedAt    time.Time `json:"skippedAt,omitzero"`
	SkippedCount int       `json:"skipped,omitempty"`

	// Paused is who has paused the schedule, which then has no next fire time. Removed is who has
	// switched it off for one version of the definition; publishing another version switches it on
	// again.
	Paused  *ScheduleHalt `json:"paused,omitempty"`
	Removed *ScheduleHalt `json:"removed,omitempty"`

	// Recent are the newest executions, newest first, at most [MaxRecent].
	Recent []ScheduledStart `json:"recent,omitempty"`
}

// ScheduleMaker is a step run that makes a schedule.
type ScheduleMaker struct {
	Execution string `json:"execution"`
	StepRun   int    `json:"stepRun"`
}

// MaxScheduleMakers bounds the step runs that a schedule remembers.
const MaxScheduleMakers = 16

// Made reports whether a step run, or a later one of its execution, has changed the schedule.
func (s *Schedule) Made(by ScheduleMaker) bool {
	return slices.ContainsFunc(s.ChangedBy, func(o ScheduleMaker) bool { return o.Execution == by.Execution && o.StepRun >= by.StepRun })
}

// SetMaker records that a step run changes the schedule.
func (s *Schedule) SetMaker(by ScheduleMaker) {
	s.MadeBy = &by
	others := slices.DeleteFunc(slices.Clone(s.ChangedBy), func(o ScheduleMaker) bool { return o.Execution == by.Execution })
	s.ChangedBy = append(others[max(0, len(others)-MaxScheduleMakers+1):], by)
}

// MaxRecent bounds the executions that a schedule names.
const MaxRecent = 10

// ScheduleHalt is by whom, when and why a schedule was paused or removed.
type ScheduleHalt struct {
	By      string    `json:"by,omitempty"` // empty if archiving a version has paused it
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
	Version string    `json:"version,omitempty"` // the version that was archived, or for which the schedule was removed
}

// ScheduledStart is one execution that a schedule has started.
type ScheduledStart struct {
	Execution string    `json:"execution"`
	At        time.Time `json:"at"`
	By        string    `json:"by,omitempty"`  // who has fired it; empty for a fire time
	Key       string    `json:"key,omitempty"` // digest of the Idempotency-Key
}

// Off reports whether the schedule starts nothing, and cannot be fired. A start that was begun
// before is still completed.
func (s *Schedule) Off() bool { return s.Cron == nil || s.Removed != nil }

// Begin records that an execution is being started. No fire time is chosen until it exists.
func (s *Schedule) Begin(start ScheduledStart) {
	s.FiringAt, s.LastExecution, s.LastAt, s.Problem = start.At, start.Execution, start.At, ""
	s.Recent = append([]ScheduledStart{start}, s.Recent...)
	s.Recent = s.Recent[:min(len(s.Recent), MaxRecent)]
}

// LabelSchedule is the label of executions that a schedule has started; its value is the
// name of the schedule.
const LabelSchedule = "schedule"
