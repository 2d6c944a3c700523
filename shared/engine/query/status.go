package query

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Status is the status contract: the lifecycle of a run, never a variable of it.
func (v *Service) Status(ctx context.Context, c workflow.Caller, id string) (views.StatusView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.StatusView{}, err
	}
	return statusView(i.Execution()), nil
}

func statusView(x *workflow.Execution) views.StatusView {
	s := views.StatusView{
		ExecutionID: x.ID, State: x.Status(), CurrentStep: currentStep(x),
		StartedAt: timePtr(x.StartedAt), EndedAt: timePtr(x.EndedAt),
	}
	if e := sm.TerminalEvent(x.State); e != "" {
		s.TerminalEvent = ptr(string(e))
	}
	return s
}
