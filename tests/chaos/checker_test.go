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

// observations are what the checker uses: the devices' logs and the service's
// executions.
type observations struct {
	logs       map[string][]simulator.LogEntry
	versions   map[string]string // version of each device at the end
	executions []observedExecution
	locks      []views.LockView
	calls      []blockCall
}

// observedExecution is an execution with its history and jobs.
type observedExecution struct {
	views.ExecutionView
	events []workflow.Event
	jobs   []workflow.Job
	failed map[string]workflow.EntityOutcome // by "type/id": the entities that did not succeed
	target string
}

// observe reads everything from the service and the devices, after the kills.
func (f *fixture) observe(ctx context.Context) (e observations, err error) {
	e.logs, e.versions, e.calls = f.deviceLogs(), map[string]string{}, f.calls.all()
	for _, d := range f.fleet.Devices() {
		e.versions[d.ID] = d.Version
	}
	for x, err := range f.Executions(ctx, views.ExecutionFilter{}) {
		if err != nil {
			return e, err
		}
		observed := observedExecution{}
		if observed.ExecutionView, err = f.Execution(ctx, x.ID); err != nil {
			return e, err
		}
		var parameters struct{ Target string }
		if err := json.Unmarshal(observed.Parameters, &parameters); err != nil {
			return e, err
		}
		observed.target = parameters.Target
		for ev, err := range f.History(ctx, x.ID) {
			if err != nil {
				return e, err
			}
			observed.events = append(observed.events, ev)
		}
		for j, err := range f.Jobs(ctx, x.ID, views.JobFilter{}) {
			if err != nil {
				return e, err
			}
			observed.jobs = append(observed.jobs, j)
		}
		e.executions = append(e.executions, observed)
	}
	failed := map[string]map[string]workflow.EntityOutcome{}
	for entity, err := range f.Failures(ctx, views.FailureFilter{}) {
		if err != nil {
			return e, err
		}
		if failed[entity.Execution] == nil {
			failed[entity.Execution] = map[string]workflow.EntityOutcome{}
		}
		failed[entity.Execution][entity.Entity] = entity.Outcome
	}
	for i := range e.executions {
		e.executions[i].failed = failed[e.executions[i].ID]
	}
	for l, err := range f.Locks(ctx) {
		if err != nil {
			return e, err
		}
		e.locks = append(e.locks, l)
	}
	if len(e.executions) == 0 {
		return e, errors.New("the service has no execution")
	}
	return e, nil
}

// describe tells all that the service says of an execution, a line each.
func (x observedExecution) describe() string {
	var lines strings.Builder
	add := func(kind string, value any) {
		text, err := json.Marshal(value)
		fmt.Fprintln(&lines, kind, string(text), err)
	}
	add("execution", x.ExecutionView)
	for _, ev := range x.events {
		add("event", ev)
	}
	for _, j := range x.jobs {
		add("job", j)
	}
	return lines.String()
}

// findViolations returns all violations of the rules.
func findViolations(e observations) []string {
	v := &checker{observations: e, jobs: map[string]executionJob{}, appliedJobs: map[string]bool{}}
	for i := range e.executions {
		x := &e.executions[i]
		for _, j := range x.jobs {
			v.jobs[j.ID] = executionJob{j, x}
		}
		v.checkHistory(x)
		v.checkEnd(x)
	}
	v.checkCalls()
	for _, l := range e.locks {
		if l.HeldBy != nil {
			v.violate("%s is still locked by %s after the end", l.Entity, *l.HeldBy)
		}
	}
	for _, id := range sortedKeys(e.logs) {
		for _, violation := range simulator.CheckLog(id, e.logs[id]) {
			v.violate("%s", violation)
		}
		v.checkDeviceLog(id)
		v.checkVersions(id)
	}
	for _, x := range e.executions {
		for _, j := range x.jobs {
			if changesDevice(j) && j.State == sm.JobCompleted && !v.appliedJobs[j.ID] {
				v.violate("job %s, %s of %s on %s, is COMPLETED and the device has no record of it", j.ID, j.Kind, j.Step, j.Entity)
			}
		}
	}
	return v.violations
}

// changesDevice reports whether a job changes a device.
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
	appliedJobs map[string]bool // jobs that a device has applied
}

func (v *checker) violate(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// checkHistory checks that the history has no gaps and one terminal event per try.
func (v *checker) checkHistory(x *observedExecution) {
	terminal := 0
	for i, e := range x.events {
		if e.Sequence != int64(i+1) {
			v.violate("execution %s: event %d is at position %d of the history", x.ID, e.Sequence, i+1)
		}
		switch e.Type {
		case "execution.completed", "execution.failed_safe", "execution.failed_unsafe", "execution.cancelled":
			terminal++
		case "execution.retried":
			if terminal != 1 {
				v.violate("execution %s was retried after %d terminal events", x.ID, terminal)
			}
			terminal = 0
		}
	}
	if terminal != 1 {
		v.violate("execution %s is %s and has %d terminal events", x.ID, x.State, terminal)
	}
}

// checkEnd checks that the execution has ended with all its jobs final, and that a
// completed one has done every change and undone none.
func (v *checker) checkEnd(x *observedExecution) {
	if !sm.Acknowledged(x.State) {
		if x.Waiting == nil {
			v.violate("execution %s is %s and waits without a reason", x.ID, x.State)
		} else {
			v.violate("execution %s is %s and still waits for %s", x.ID, x.State, x.Waiting.Kind)
		}
		return
	}
	done := map[string]bool{}
	for _, j := range x.jobs {
		switch j.State {
		case sm.JobCompleted, sm.JobFailed, sm.JobCancelled, sm.JobUnknown:
		default:
			v.violate("execution %s is %s, its job %s of %s is %s", x.ID, x.State, j.ID, j.Step, j.State)
		}
		if changesDevice(j) && j.Kind == workflow.JobExecute && j.State == sm.JobCompleted {
			done[j.Step+" "+j.Entity.ID] = true
		}
	}
	if x.State != sm.ExecutionCompletedAck {
		return
	}
	// No definition tolerates a failure. Only a try of the entities that an unsafe end has kept
	// completes without others: those that were undone, and released by that end.
	for entity, outcome := range x.failed {
		if x.Try == 1 || outcome != workflow.EntityFailedSafe {
			v.violate("execution %s completed in try %d, and tells that %s is %s", x.ID, x.Try, entity, outcome)
		}
	}
	for _, j := range x.jobs {
		if changesDevice(j) && !done[j.Step+" "+j.Entity.ID] && !released(x, j.Entity.ID) {
			v.violate("execution %s completed without %s on %s", x.ID, j.Step, j.Entity)
		}
	}
	// A later try must have repeated what an earlier one rolled back, except on what it released.
	type change struct{ step, device string }
	rolledBack := map[change]bool{}
	for device, log := range v.logs {
		for _, e := range log {
			if j, known := v.jobs[e.IdempotencyKey]; known && j.execution == x && e.Applied {
				rolledBack[change{j.Step, device}] = j.Kind == workflow.JobRollback
			}
		}
	}
	for c, last := range rolledBack {
		switch left := released(x, c.device); {
		case last && !left:
			v.violate("execution %s completed in try %d, and %s was rolled back on %s", x.ID, x.Try, c.step, c.device)
		case left && !last:
			v.violate("execution %s tells that nothing remains on %s, and %s was not rolled back", x.ID, c.device, c.step)
		}
	}
}

// released reports whether a completed execution tells that it left a device as it had been.
func released(x *observedExecution, device string) bool {
	return x.failed["device/"+device] == workflow.EntityFailedSafe
}

// checkDeviceLog checks that every change that a device accepted belongs to a job that
// the service knows and does not report as never started, under the job's lock token,
// and that executions do not alternate on a device.
func (v *checker) checkDeviceLog(device string) {
	ended := map[string]bool{}
	last := ""
	for _, e := range v.logs[device] {
		if !e.Accepted {
			continue
		}
		j, known := v.jobs[e.IdempotencyKey]
		if !known {
			v.violate("%s: entry %d is of job %q, which is unknown", device, e.Seq, e.IdempotencyKey)
			continue
		}
		if e.Applied {
			v.appliedJobs[j.ID] = true
		}
		if j.Entity == nil || j.Entity.ID != device {
			v.violate("%s: entry %d is of job %s, which belongs to %v", device, e.Seq, j.ID, j.Entity)
		}
		if j.Token == nil || uint64(*j.Token) != e.Token {
			v.violate("%s: entry %d has token %d, job %s %v", device, e.Seq, e.Token, j.ID, j.Token)
		}
		if j.State == sm.JobCancelled || j.State == sm.JobPending {
			v.violate("%s: entry %d is of job %s, which is %s", device, e.Seq, j.ID, j.State)
		}
		if id := j.execution.ID; id != last {
			if ended[id] {
				v.violate("%s: entry %d is of execution %s, which had been followed by %s", device, e.Seq, id, last)
			}
			ended[last], last = true, id
		}
	}
}

// checkVersions checks that each execution, in the order of their locks, left a version
// that its result allows.
func (v *checker) checkVersions(device string) {
	type hold struct {
		token     int64
		execution *observedExecution
	}
	var holds []hold
	for i := range v.executions {
		h := hold{execution: &v.executions[i]}
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
		var changes []simulator.LogEntry
		for _, e := range v.logs[device] {
			if e.Accepted && strings.HasPrefix(e.IdempotencyKey, h.execution.ID+".") && e.From != "" {
				changes = append(changes, e)
			}
		}
		if len(changes) > 0 {
			if !slices.Contains(allowed, changes[0].From) {
				v.violate("%s: execution %s found %s, want one of %v", device, h.execution.ID, changes[0].From, allowed)
			}
			allowed = []string{changes[0].From}
		}
		allowed = allowedVersions(h.execution, device, allowed)
		if n := len(changes); n > 0 && !slices.Contains(allowed, changes[n-1].To) {
			v.violate("%s: execution %s is %s and left %s, want one of %v", device, h.execution.ID, h.execution.State, changes[n-1].To, allowed)
		}
	}
	if !slices.Contains(allowed, v.versions[device]) {
		v.violate("%s runs %s, want one of %v", device, v.versions[device], allowed)
	}
}

// allowedVersions are the versions that a device may run after an execution, given those
// allowed before it.
func allowedVersions(x *observedExecution, device string, allowed []string) []string {
	either := append(slices.Clone(allowed), x.target)
	switch x.State {
	case sm.ExecutionCompletedAck:
		if released(x, device) {
			return allowed
		}
		return []string{x.target}
	case sm.ExecutionFailedSafeAck:
		return allowed
	}
	if x.RolledBack {
		return allowed
	}
	if x.Try > 1 {
		return either
	}
	done, undone, unknown := false, false, false
	for _, j := range x.jobs {
		if j.Step != "set" || j.Entity == nil || j.Entity.ID != device {
			continue
		}
		switch {
		case j.Kind == workflow.JobExecute && j.State == sm.JobCompleted:
			done = true
		case j.Kind == workflow.JobRollback && j.State == sm.JobCompleted:
			undone = true
		case j.State == sm.JobFailed || j.State == sm.JobUnknown:
			unknown = true
		}
	}
	switch {
	case undone:
		return allowed
	case unknown && !done, unknown && done && hasRollback(x, device):
		return either
	case done:
		return []string{x.target}
	}
	return allowed
}

func hasRollback(x *observedExecution, device string) bool {
	return slices.ContainsFunc(x.jobs, func(j workflow.Job) bool {
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
