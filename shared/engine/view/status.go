package view

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Status is the status contract: the lifecycle of a run, never a variable of it.
func (v *View) Status(ctx context.Context, c workflow.Caller, id string) (views.StatusView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.StatusView{}, err
	}
	return statusOf(i.Execution()), nil
}

func statusOf(x *workflow.Execution) views.StatusView {
	s := views.StatusView{
		ExecutionID: x.ID, State: x.Status(), CurrentStep: currentStep(x),
		StartedAt: timePointer(x.StartedAt), EndedAt: timePointer(x.EndedAt),
	}
	if e := sm.TerminalEvent(x.State); e != "" {
		s.TerminalEvent = pointer(string(e))
	}
	return s
}
