package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/intake"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// scheduleActor is who creates the runs of schedules.
const scheduleActor = "schedule"

// Fire creates a schedule's run under an id, unless it exists, and sends a look at
// it: whoever sweeps the schedules starts runs and does not drive them.
func (e *Engine) Fire(ctx context.Context, s spec.Schedule, id string) error {
	w := e.work(s.Tenant, id)
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
		return w.ports.Board.Notify(ctx, 0, workflow.Look{Tenant: s.Tenant, Execution: id, Why: "schedule"})
	}
	in, err := intake.Input(d.Definition, views.StartRequest{Parameters: s.Cron.Parameters, ExecuteOnParameters: s.Cron.On})
	if err != nil {
		return err
	}
	if in, err = w.KeepInput(ctx, in); err != nil {
		return err
	}
	x := lifecycle.New(workflow.Execution{
		Tenant: s.Tenant, ID: id, Workflow: d.Ref(), CreatedBy: scheduleActor,
		Labels: map[string]string{spec.LabelSchedule: s.Name}, Input: in, Trace: w.telling.Root(ctx, "schedule"),
	}, e.now())
	x.Version, x.Commit, x.Engine, x.Floor = 1, e.Nonce(), e.version, e.Policy.Floor
	x.DueAt = e.now().Add(e.Policy.Poll) // if the look is lost
	x.Cost.Add(w.ports.Meter.Take())
	if _, err := w.ports.Store.Create(ctx, x); err != nil {
		return err
	}
	return w.ports.Board.Notify(ctx, 0, look(x, "schedule"))
}
