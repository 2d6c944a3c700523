package engine

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// countEnds stores the ends among events that are published, if they are counted. It comes before the
// cursor moves, so none is missed; an end has an item of its own, so none is counted twice.
func (e *Engine) countEnds(ctx context.Context, ports port.Ports, x *workflow.Execution, events []workflow.Event) error {
	if !e.CountEnds || x.Probe {
		return nil
	}
	began := x.CreatedAt
	if x.Try > 1 && !x.StartedAt.IsZero() {
		began = x.StartedAt
	}
	for i := range events {
		event := &events[i]
		if event.Type == string(sm.EventExecutionRetried) {
			began = event.At
		}
		if !isEnd(event) {
			continue
		}
		if event.At.Before(began) { // the execution has been retried meanwhile
			began = x.CreatedAt
		}
		state := sm.ExecutionState(event.To)
		end := workflow.End{
			Workflow: x.Workflow, Execution: x.ID, Sequence: event.Sequence, At: event.At, State: state,
			Partial: state == sm.ExecutionCompleted && x.Outcome() == workflow.OutcomePartial, Took: max(event.At.Sub(began), time.Duration(0)),
		}
		if err := ports.Registry.PutEnd(ctx, x.Tenant, end); err != nil {
			return err
		}
	}
	return nil
}

// isEnd reports whether an event is the one that ends a try.
func isEnd(e *workflow.Event) bool {
	return e.Layer == string(sm.LayerExecution) && e.From != e.To && workflow.EndKindOf(sm.ExecutionState(e.To)) != ""
}
