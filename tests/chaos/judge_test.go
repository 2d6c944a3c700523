package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator/devicelog"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// evidence is everything that is judged: what the devices have logged, and what
// the service says of its runs.
type evidence struct {
	logs     map[string][]devicelog.Entry
	versions map[string]string // what each device runs in the end
	runs     []told
	locks    []views.LockView
}

// told is what the service says of one run.
type told struct {
	views.ExecutionView
	events []workflow.Event
	jobs   []workflow.Job
	target string
}

// gather asks the service for everything. Nobody kills any more.
func (r *rig) gather(ctx context.Context) (e evidence, err error) {
	e.logs, e.versions = r.entries(), map[string]string{}
	for _, d := range r.fleet.Devices() {
		e.versions[d.ID] = d.Version
	}
	for x, err := range r.Executions(ctx, views.ExecutionFilter{}) {
		if err != nil {
			return e, err
		}
		run := told{}
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
		e.runs = append(e.runs, run)
	}
	for l, err := range r.Locks(ctx) {
		if err != nil {
			return e, err
		}
		e.locks = append(e.locks, l)
	}
	if len(e.runs) == 0 {
		return e, errors.New("the service knows of no run")
	}
	return e, nil
}

// judge returns everything that is wrong.
func judge(e evidence) []string {
	v := &verdict{evidence: e, jobs: map[string]owned{}, acted: map[string]bool{}}
	for i := range e.runs {
		run := &e.runs[i]
		for _, j := range run.jobs {
			v.jobs[j.ID] = owned{j, run}
		}
		v.history(run)
		v.ending(run)
	}
	for _, l := range e.locks {
		if l.HeldBy != nil {
			v.wrong("%s is locked by %s when all is over", l.Entity, *l.HeldBy)
		}
	}
	for _, id := range sorted(e.logs) {
		for _, broken := range devicelog.Judge(id, e.logs[id]) {
			v.wrong("%s", broken)
		}
		v.changes(id)
		v.promises(id)
	}
	for _, run := range e.runs {
		for _, j := range run.jobs {
			if changes(j) && j.State == sm.JobCompleted && !v.acted[j.ID] {
				v.wrong("job %s, %s of %s on %s, is told as done, and the device knows nothing of it", j.ID, j.Kind, j.Step, j.Entity)
			}
		}
	}
	return v.found
}

// changes tells whether a job is one that changes a device.
func changes(j workflow.Job) bool {
	return j.Entity != nil && slices.Contains([]string{"set", "first", "bump", "touch"}, j.Step)
}

type owned struct {
	workflow.Job
	run *told
}

type verdict struct {
	evidence
	found []string
	jobs  map[string]owned
	acted map[string]bool // jobs of which a device says that it has done it
}

func (v *verdict) wrong(format string, args ...any) {
	v.found = append(v.found, fmt.Sprintf(format, args...))
}

// history: no gaps, and one terminal event for every try.
func (v *verdict) history(run *told) {
	terminal := 0
	for i, e := range run.events {
		if e.Sequence != int64(i+1) {
			v.wrong("run %s: event %d stands at %d of the history", run.ID, e.Sequence, i+1)
		}
		switch e.Type {
		case "execution.completed", "execution.failed_safe", "execution.failed_unsafe", "execution.cancelled":
			terminal++
		case "execution.retried":
			if terminal != 1 {
				v.wrong("run %s is tried again after %d terminal events", run.ID, terminal)
			}
			terminal = 0
		}
	}
	if terminal != 1 {
		v.wrong("run %s is %s and has %d terminal events", run.ID, run.State, terminal)
	}
}

// ending: a run is over, or names what it waits for; a run that is over has no
// job that is not.
func (v *verdict) ending(run *told) {
	if !sm.Acknowledged(run.State) {
		if run.Waiting == nil {
			v.wrong("run %s is %s and does not say what it waits for", run.ID, run.State)
		} else {
			v.wrong("run %s is %s and waits for %s when everything has had its time", run.ID, run.State, run.Waiting.Kind)
		}
		return
	}
	done := map[string]bool{}
	for _, j := range run.jobs {
		switch j.State {
		case sm.JobCompleted, sm.JobFailed, sm.JobCancelled, sm.JobUnknown:
		default:
			v.wrong("run %s is %s, its job %s of %s is %s", run.ID, run.State, j.ID, j.Step, j.State)
		}
		if changes(j) && j.Kind == workflow.JobExecute && j.State == sm.JobCompleted {
			done[j.Step+" "+j.Entity.ID] = true
		}
	}
	if run.State != sm.ExecutionCompletedAck {
		return
	}
	for _, j := range run.jobs {
		if changes(j) && !done[j.Step+" "+j.Entity.ID] {
			v.wrong("run %s has completed without %s on %s", run.ID, j.Step, j.Entity)
		}
	}
	// What an earlier try has undone, a later one has done again.
	type place struct{ step, device string }
	undone := map[place]bool{}
	for device, log := range v.logs {
		for _, e := range log {
			if j, mine := v.jobs[e.IdempotencyKey]; mine && j.run == run && e.Applied {
				undone[place{j.Step, device}] = j.Kind == workflow.JobRollback
			}
		}
	}
	for at, is := range undone {
		if is {
			v.wrong("run %s has completed in try %d, and %s is undone on %s", run.ID, run.Try, at.step, at.device)
		}
	}
}

// changes: whatever a device has taken was asked by a job that the service knows
// and does not take for one that never ran, under the lock that the job names,
// and no two runs change a device in turns.
func (v *verdict) changes(device string) {
	over := map[string]bool{}
	last := ""
	for _, e := range v.logs[device] {
		if !e.Accepted {
			continue
		}
		j, known := v.jobs[e.IdempotencyKey]
		if !known {
			v.wrong("%s: entry %d is of job %q, of which the service knows nothing", device, e.Seq, e.IdempotencyKey)
			continue
		}
		if e.Applied {
			v.acted[j.ID] = true
		}
		if j.Entity == nil || j.Entity.ID != device {
			v.wrong("%s: entry %d is of job %s, which is of %v", device, e.Seq, j.ID, j.Entity)
		}
		if j.Token == nil || uint64(*j.Token) != e.Token {
			v.wrong("%s: entry %d has token %d, job %s %v", device, e.Seq, e.Token, j.ID, j.Token)
		}
		if j.State == sm.JobCancelled || j.State == sm.JobPending {
			v.wrong("%s: entry %d is of job %s, which is told as %s", device, e.Seq, j.ID, j.State)
		}
		if id := j.run.ID; id != last {
			if over[id] {
				v.wrong("%s: entry %d is of run %s, which had made way for %s", device, e.Seq, id, last)
			}
			over[last], last = true, id
		}
	}
}

// promises: what a device runs is what its runs have promised, one after the
// other, in the order of their locks.
func (v *verdict) promises(device string) {
	type hold struct {
		token int64
		run   *told
	}
	var holds []hold
	for i := range v.runs {
		h := hold{run: &v.runs[i]}
		for _, j := range v.runs[i].jobs {
			if j.Step == "set" && j.Entity != nil && j.Entity.ID == device && j.Token != nil {
				h.token = max(h.token, *j.Token)
			}
		}
		if h.token > 0 {
			holds = append(holds, h)
		}
	}
	slices.SortFunc(holds, func(a, b hold) int { return int(a.token - b.token) })
	may := []string{"1.0.0"}
	for _, h := range holds {
		var mine []devicelog.Entry
		for _, e := range v.logs[device] {
			if e.Accepted && strings.HasPrefix(e.IdempotencyKey, h.run.ID+".") && e.From != "" {
				mine = append(mine, e)
			}
		}
		if len(mine) > 0 {
			if !slices.Contains(may, mine[0].From) {
				v.wrong("%s: run %s finds %s, after %v was promised", device, h.run.ID, mine[0].From, may)
			}
			may = []string{mine[0].From}
		}
		may = promise(h.run, device, may)
		if n := len(mine); n > 0 && !slices.Contains(may, mine[n-1].To) {
			v.wrong("%s: run %s is %s and leaves %s, not %v", device, h.run.ID, h.run.State, mine[n-1].To, may)
		}
	}
	if !slices.Contains(may, v.versions[device]) {
		v.wrong("%s runs %s, not %v", device, v.versions[device], may)
	}
}

// promise is what a device may run after a run that began when it ran one of may.
func promise(run *told, device string, may []string) []string {
	either := append(slices.Clone(may), run.target)
	switch run.State {
	case sm.ExecutionCompletedAck:
		return []string{run.target}
	case sm.ExecutionFailedSafeAck:
		return may
	}
	if run.RolledBack {
		return may
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
		return may
	case perhaps && !done, perhaps && done && hasUndo(run, device):
		return either
	case done:
		return []string{run.target}
	}
	return may
}

func hasUndo(run *told, device string) bool {
	return slices.ContainsFunc(run.jobs, func(j workflow.Job) bool {
		return j.Step == "set" && j.Kind == workflow.JobRollback && j.Entity != nil && j.Entity.ID == device
	})
}

func sorted[T any](m map[string]T) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
