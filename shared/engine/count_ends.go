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
	var began time.Time
	for i := range events {
		event := &events[i]
		if isRetry(event) {
			began = event.At
		}
		if !isEnd(event) {
			continue
		}
		if began.IsZero() {
			var err error
			if began, err = tryBegan(ctx, ports, x, events[0].Sequence); err != nil {
				return err
			}
		}
		state := sm.ExecutionState(event.To)
		end := workflow.End{
			Workflow: x.Workflow, Execution: x.ID, Sequence: event.Sequence, At: event.At, State: state,
			// One that has completed is never retried: its outcome is still that of this end.
			Partial: state == sm.ExecutionCompleted && x.Outcome() == workflow.OutcomePartial, Took: max(event.At.Sub(began), time.Duration(0)),
		}
		if err := ports.Registry.PutEnd(ctx, x.Tenant, end); err != nil {
			return err
		}
	}
	return nil
}

// tryBegan returns when the try began that was under way before an event: when the execution was last retried
// before it, or else created. The execution may have been retried since, so only its history knows.
func tryBegan(ctx context.Context, ports port.Ports, x *workflow.Execution, before int64) (time.Time, error) {
	began := x.CreatedAt
	if x.Try <= 1 {
		return began, nil
	}
	err := eachEvent(ctx, ports, x, 0, before-1, func(e *workflow.Event) {
		if isRetry(e) {
			began = e.At
		}
	})
	return began, err
}

func isRetry(e *workflow.Event) bool { return e.Type == string(sm.EventExecutionRetried) }

// isEnd reports whether an event is the one that ends a try.
func isEnd(e *workflow.Event) bool {
	return e.Layer == string(sm.LayerExecution) && e.From != e.To && workflow.EndKindOf(sm.ExecutionState(e.To)) != ""
}
