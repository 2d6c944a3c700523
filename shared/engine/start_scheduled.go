package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// scheduleActor is who creates the runs of schedules.
const scheduleActor = "schedule"

// StartScheduled creates a schedule's run under an id, unless it exists, and sends a look at
// it: whoever sweeps the schedules starts runs and does not drive them.
func (e *Engine) StartScheduled(ctx context.Context, s spec.Schedule, id string) error {
	w := e.newWorkspace(s.Tenant, id)
	d, err := w.definition(ctx, s.Workflow)
	if err != nil {
		return err
	}
	// One that exists is left alone, its stored input too: the schedule may have been
	// published anew since.
	heads, err := w.ports.Store.Heads(ctx, s.Tenant, []string{id})
	if err != nil {
		return err
	}
	if heads[id].State != "" {
		return w.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: s.Tenant, Execution: id, Reason: "schedule"})
	}
	in, err := validateStart(d.Definition, views.StartRequest{Parameters: s.Cron.Parameters, ExecuteOnParameters: s.Cron.ExecuteOnParameters})
	if err != nil {
		return err
	}
	if in, err = w.offloadInput(ctx, in); err != nil {
		return err
	}
	x := lifecycle.NewExecution(workflow.Execution{
		Tenant: s.Tenant, ID: id, Workflow: d.Ref(), CreatedBy: scheduleActor,
		Labels: map[string]string{spec.LabelSchedule: s.Name}, Input: in, TraceParent: w.recorder.RecordRootSpan(ctx, "schedule"),
	}, e.now())
	x.Version, x.Commit, x.EngineVersion, x.MinFencingToken = 1, e.Nonce(), e.version, e.Policy.MinFencingToken
	x.DueAt = e.now().Add(e.Policy.PollInterval) // if the look is lost
	x.Cost.Add(w.ports.Meter.Take())
	if _, err := w.ports.Store.Create(ctx, x); err != nil {
		return err
	}
	return w.ports.Sender.SendWakeups(ctx, 0, wakeup(x, "schedule"))
}
