package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// observations is everything that is judged: what the devices have logged, and what
// the service says of its runs.
type observations struct {
	logs       map[string][]simulator.LogEntry
	versions   map[string]string // what each device runs in the end
	executions []observedExecution
	locks      []views.LockView
}

// observedExecution is what the service says of one run.
type observedExecution struct {
	views.ExecutionView
	events []workflow.Event
	jobs   []workflow.Job
	target string
}

// observe asks the service for everything. Nobody kills any more.
func (r *fixture) observe(ctx context.Context) (e observations, err error) {
	e.logs, e.versions = r.deviceLogs(), map[string]string{}
	for _, d := range r.fleet.Devices() {
		e.versions[d.ID] = d.Version
	}
	for x, err := range r.Executions(ctx, views.ExecutionFilter{}) {
		if err != nil {
			return e, err
		}
		run := observedExecution{}
		if run.ExecutionView, err = r.Execution(ctx, x.ID); err != nil {
			return e, err
		}
		var parameters struct{ Target string }
		if err := json.Unmarshal(run.Parameters, &parameters); err != nil {
			return e, err
		}
		run.target = parameters.Target
		for ev, err := range r.History(ctx, x.ID) {
			if err != nil {
				return e, err
			}
			run.events = append(run.events, ev)
		}
		for j, err := range r.Jobs(ctx, x.ID, views.JobFilter{}) {
			if err != nil {
				return e, err
			}
			run.jobs = append(run.jobs, j)
		}
		e.executions = append(e.executions, run)
	}
	for l, err := range r.Locks(ctx) {
		if err != nil {
			return e, err
		}
		e.locks = append(e.locks, l)
	}
	if len(e.executions) == 0 {
		return e, errors.New("the service knows of no run")
	}
	return e, nil
}

// findViolations returns everything that is wrong.
func findViolations(e observations) []string {
	v := &checker{observations: e, jobs: map[string]executionJob{}, appliedJobs: map[string]bool{}}
	for i := range e.executions {
		run := &e.executions[i]
		for _, j := range run.jobs {
			v.jobs[j.ID] = executionJob{j, run}
		}
		v.checkHistory(run)
		v.checkEnd(run)
	}
	for _, l := range e.locks {
		if l.HeldBy != nil {
			v.violate("%s is locked by %s when all is over", l.Entity, *l.HeldBy)
		}
	}
	for _, id := range sortedKeys(e.logs) {
		for _, violation := range simulator.CheckLog(id, e.logs[id]) {
			v.violate("%s", violation)
		}
		v.checkDeviceLog(id)
		v.checkVersions(id)
	}
	for _, run := range e.executions {
		for _, j := range run.jobs {
			if changesDevice(j) && j.State == sm.JobCompleted && !v.appliedJobs[j.ID] {
				v.violate("job %s, %s of %s on %s, is told as done, and the device knows nothing of it", j.ID, j.Kind, j.Step, j.Entity)
			}
		}
	}
	return v.violations
}

// changesDevice tells whether a job is one that changes a device.
func changesDevice(j workflow.Job) bool {
	return j.Entity != nil && slices.Contains([]string{"set", "first", "bump", "touch"}, j.Step)
}

type executionJob struct {
	workflow.Job
	execution *observedExecution
}

type checker struct {
	observations
	violations  []string
	jobs        map[string]executionJob
	appliedJobs map[string]bool // jobs of which a device says that it has done it
}

func (v *checker) violate(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// checkHistory: no gaps, and one terminal event for every try.
func (v *checker) checkHistory(run *observedExecution) {
	terminal := 0
	for i, e := range run.events {
		if e.Sequence != int64(i+1) {
			v.violate("run %s: event %d stands at %d of the history", run.ID, e.Sequence, i+1)
		}
		switch e.Type {
		case "execution.completed", "execution.failed_safe", "execution.failed_unsafe", "execution.cancelled":
			terminal++
		case "execution.retried":
			if terminal != 1 {
				v.violate("run %s is tried again after %d terminal events", run.ID, terminal)
			}
			terminal = 0
		}
	}
	if terminal != 1 {
		v.violate("run %s is %s and has %d terminal events", run.ID, run.State, terminal)
	}
}

// checkEnd: a run is over, or names what it waits for; a run that is over has no
// job that is not.
func (v *checker) checkEnd(run *observedExecution) {
	if !sm.Acknowledged(run.State) {
		if run.Waiting == nil {
			v.violate("run %s is %s and does not say what it waits for", run.ID, run.State)
		} else {
			v.violate("run %s is %s and waits for %s when everything has had its time", run.ID, run.State, run.Waiting.Kind)
		}
		return
	}
	done := map[string]bool{}
	for _, j := range run.jobs {
		switch j.State {
		case sm.JobCompleted, sm.JobFailed, sm.JobCancelled, sm.JobUnknown:
		default:
			v.violate("run %s is %s, its job %s of %s is %s", run.ID, run.State, j.ID, j.Step, j.State)
		}
		if changesDevice(j) && j.Kind == workflow.JobExecute && j.State == sm.JobCompleted {
			done[j.Step+" "+j.Entity.ID] = true
		}
	}
	if run.State != sm.ExecutionCompletedAck {
		return
	}
	for _, j := range run.jobs {
		if changesDevice(j) && !done[j.Step+" "+j.Entity.ID] {
			v.violate("run %s has completed without %s on %s", run.ID, j.Step, j.Entity)
		}
	}
	// What an earlier try has undone, a later one has done again.
	type place struct{ step, device string }
	undone := map[place]bool{}
	for device, log := range v.logs {
		for _, e := range log {
			if j, mine := v.jobs[e.IdempotencyKey]; mine && j.execution == run && e.Applied {
				undone[place{j.Step, device}] = j.Kind == workflow.JobRollback
			}
		}
	}
	for at, is := range undone {
		if is {
			v.violate("run %s has completed in try %d, and %s is undone on %s", run.ID, run.Try, at.step, at.device)
		}
	}
}

// checkDeviceLog: whatever a device has taken was asked by a job that the service knows
// and does not take for one that never ran, under the lock that the job names,
// and no two runs change a device in turns.
func (v *checker) checkDeviceLog(device string) {
	over := map[string]bool{}
	last := ""
	for _, e := range v.logs[device] {
		if !e.Accepted {
			continue
		}
		j, known := v.jobs[e.IdempotencyKey]
		if !known {
			v.violate("%s: entry %d is of job %q, of which the service knows nothing", device, e.Seq, e.IdempotencyKey)
			continue
		}
		if e.Applied {
			v.appliedJobs[j.ID] = true
		}
		if j.Entity == nil || j.Entity.ID != device {
			v.violate("%s: entry %d is of job %s, which is of %v", device, e.Seq, j.ID, j.Entity)
		}
		if j.Token == nil || uint64(*j.Token) != e.Token {
			v.violate("%s: entry %d has token %d, job %s %v", device, e.Seq, e.Token, j.ID, j.Token)
		}
		if j.State == sm.JobCancelled || j.State == sm.JobPending {
			v.violate("%s: entry %d is of job %s, which is told as %s", device, e.Seq, j.ID, j.State)
		}
		if id := j.execution.ID; id != last {
			if over[id] {
				v.violate("%s: entry %d is of run %s, which had made way for %s", device, e.Seq, id, last)
			}
			over[last], last = true, id
		}
	}
}

// checkVersions: what a device runs is what its runs have promised, one after the
// other, in the order of their locks.
func (v *checker) checkVersions(device string) {
	type hold struct {
		token int64
		run   *observedExecution
	}
	var holds []hold
	for i := range v.executions {
		h := hold{run: &v.executions[i]}
		for _, j := range v.executions[i].jobs {
			if j.Step == "set" && j.Entity != nil && j.Entity.ID == device && j.Token != nil {
				h.token = max(h.token, *j.Token)
			}
		}
		if h.token > 0 {
			holds = append(holds, h)
		}
	}
	slices.SortFunc(holds, func(a, b hold) int { return int(a.token - b.token) })
	allowed := []string{"1.0.0"}
	for _, h := range holds {
		var mine []simulator.LogEntry
		for _, e := range v.logs[device] {
			if e.Accepted && strings.HasPrefix(e.IdempotencyKey, h.run.ID+".") && e.From != "" {
				mine = append(mine, e)
			}
		}
		if len(mine) > 0 {
			if !slices.Contains(allowed, mine[0].From) {
				v.violate("%s: run %s finds %s, after %v was promised", device, h.run.ID, mine[0].From, allowed)
			}
			allowed = []string{mine[0].From}
		}
		allowed = allowedVersions(h.run, device, allowed)
		if n := len(mine); n > 0 && !slices.Contains(allowed, mine[n-1].To) {
			v.violate("%s: run %s is %s and leaves %s, not %v", device, h.run.ID, h.run.State, mine[n-1].To, allowed)
		}
	}
	if !slices.Contains(allowed, v.versions[device]) {
		v.violate("%s runs %s, not %v", device, v.versions[device], allowed)
	}
}

// allowedVersions is what a device may run after a run that began when it ran one of may.
func allowedVersions(run *observedExecution, device string, allowed []string) []string {
	either := append(slices.Clone(allowed), run.target)
	switch run.State {
	case sm.ExecutionCompletedAck:
		return []string{run.target}
	case sm.ExecutionFailedSafeAck:
		return allowed
	}
	if run.RolledBack {
		return allowed
	}
	if run.Try > 1 {
		return either
	}
	done, undone, perhaps := false, false, false
	for _, j := range run.jobs {
		if j.Step != "set" || j.Entity == nil || j.Entity.ID != device {
			continue
		}
		switch {
		case j.Kind == workflow.JobExecute && j.State == sm.JobCompleted:
			done = true
		case j.Kind == workflow.JobRollback && j.State == sm.JobCompleted:
			undone = true
		case j.State == sm.JobFailed || j.State == sm.JobUnknown:
			perhaps = true
		}
	}
	switch {
	case undone:
		return allowed
	case perhaps && !done, perhaps && done && hasRollback(run, device):
		return either
	case done:
		return []string{run.target}
	}
	return allowed
}

func hasRollback(run *observedExecution, device string) bool {
	return slices.ContainsFunc(run.jobs, func(j workflow.Job) bool {
		return j.Step == "set" && j.Kind == workflow.JobRollback && j.Entity != nil && j.Entity.ID == device
	})
}

func sortedKeys[T any](m map[string]T) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
