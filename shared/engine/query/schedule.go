package query

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Schedule returns the schedule of a workflow, with the states of its newest executions. It takes
// two reads.
func (v *Service) Schedule(ctx context.Context, caller workflow.Caller, fullName string) (views.ScheduleView, error) {
	ports := v.engine.OpenPorts()
	s, err := ports.Schedules.Schedule(ctx, caller.Tenant, fullName)
	if err != nil {
		return views.ScheduleView{}, err
	}
	if s.Off() {
		return views.ScheduleView{}, catalog.NoSchedule(s)
	}
	view := views.NewScheduleView(s)
	ids := make([]string, len(view.Executions))
	for i := range view.Executions {
		ids[i] = view.Executions[i].ID
	}
	heads, err := ports.Store.Heads(ctx, caller.Tenant, ids)
	for i := range view.Executions {
		view.Executions[i].State = nonZeroPtr(heads[ids[i]].State)
	}
	return view, err
}
