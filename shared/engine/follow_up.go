package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An event of an execution can start another execution, a follow-up: through a subscription to a
// workflow, or at the end, as the definition says. Its id is derived from the event, so that it is
// started once however often the delivery is repeated. Nothing in the execution waits for it.

// startFollowUps starts an execution for each event, through a subscription.
func (e *Engine) startFollowUps(ctx context.Context, s *workflow.Subscription, d *workflow.Delivery) error {
	for i := range d.Events {
		if err := e.startFollowUp(ctx, s, d, &d.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) startFollowUp(ctx context.Context, s *workflow.Subscription, d *workflow.Delivery, event *workflow.ObservedEvent) error {
	parameters, err := workflow.EncodeJSON(map[string]string{"execution": d.Execution, "workflow": d.Workflow, "event": event.Type, "state": event.To})
	if err != nil {
		return err
	}
	w := e.newWorkspace(d.Tenant, workflow.DerivedID(event.At, s.ID+" follows "+event.ID))
	return w.createFollowUp(ctx, workflow.Execution{CreatedBy: workflow.FollowUpActor + s.Name, CorrelationID: d.Execution, FollowUpOf: &workflow.FollowUpOf{Execution: d.Execution, Depth: 1}},
		func() (views.StartRequest, error) {
			return views.StartRequest{Workflow: s.To.Workflow, Parameters: parameters}, nil
		})
}

// createFollowUp creates the execution of the workspace as requested, unless it exists, and sends a
// wake-up for it. It evaluates the request only if the execution does not exist.
func (w *workspace) createFollowUp(ctx context.Context, x workflow.Execution, request func() (views.StartRequest, error)) error {
	heads, err := w.ports.Store.Heads(ctx, w.tenant, []string{w.id})
	if err != nil {
		return err
	}
	if heads[w.id].State != "" {
		return w.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: w.tenant, Execution: w.id, Reason: "follow-up"})
	}
	req, err := request()
	if err != nil {
		return err
	}
	d, err := w.resolveWorkflow(ctx, req)
	if err != nil {
		return err
	}
	in, err := validateStart(d.Definition, req)
	if err != nil {
		return err
	}
	if len(in.Plain) > 0 {
		return workflow.Errorf(workflow.CodeInvalid, "a parameter of %s is sealed: only a request can give it", d.Ref())
	}
	x.Workflow = d.Ref()
	created, err := w.newExecution(ctx, x, in)
	if err != nil {
		return err
	}
	return w.createForWakeup(ctx, created, "follow-up")
}

// endDeliveries makes a delivery for each end among events that are published at which the
// definition starts a workflow.
func endDeliveries(ctx context.Context, ports port.Ports, x *workflow.Execution, after int64, events []workflow.Event) (all []*workflow.Delivery, err error) {
	if !slices.ContainsFunc(events, func(e workflow.Event) bool { return startsAtEnd(x, &e) }) {
		return nil, nil
	}
	// An event does not say in which try it happened: that is the try of the execution, less those
	// that have begun since.
	try := x.Try
	err = eachEvent(ctx, ports, x, events[len(events)-1].Sequence, x.Sequence, func(e *workflow.Event) {
		if beginsTry(e) {
			try--
		}
	})
	if err != nil {
		return nil, err
	}
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		if beginsTry(e) {
			try--
		} else if startsAtEnd(x, e) {
			all = append(all, &workflow.Delivery{
				Tenant: x.Tenant, Subscription: workflow.OnEndSubscriber, SubscriptionID: workflow.OnEndSubscriber, Execution: x.ID, Workflow: x.Workflow.String(),
				After: after, Through: e.Sequence, Events: []workflow.ObservedEvent{e.Observed(x.ID)}, Try: try,
			})
		}
	}
	return all, nil
}

// beginsTry reports whether an event begins another try.
func beginsTry(e *workflow.Event) bool {
	return isRetry(e) || e.Type == string(sm.EventExecutionRewound)
}

// startsAtEnd reports whether an event is an end at which the definition starts a workflow.
func startsAtEnd(x *workflow.Execution, e *workflow.Event) bool {
	return isEnd(e) && slices.Contains(x.OnEnd, workflow.EndKindOf(sm.ExecutionState(e.To)))
}

// deliverEnd starts what the definition of an execution starts at its end, as [Engine.Deliver] does.
func (e *Engine) deliverEnd(ctx context.Context, d *workflow.Delivery, receives int) (retryAfter time.Duration, err error) {
	if err = e.startAtEnd(ctx, d, receives); err == nil {
		return 0, nil
	}
	e.rememberUnstarted(ctx, d, receives, err)
	e.Log.LogAttrs(ctx, slog.LevelWarn, "follow-up not started", append(observe.ExecutionAttrs(d.Tenant, d.Execution, ""), slog.Int(observe.Receives, receives), observe.Err(err))...)
	return retryDelay(receives), err
}

// rememberUnstarted stores why an end did not start what it should, for whoever looks at the
// execution.
func (e *Engine) rememberUnstarted(ctx context.Context, d *workflow.Delivery, receives int, err error) {
	id := workflow.FollowUpID(d.Execution, d.Events[0].At, d.Try)
	e.rememberDelivery(ctx, d.Tenant, workflow.EndSubscriber(id), workflow.DeliveryAttempt{Delivery: id, Execution: d.Execution, Attempts: receives}, err)
}

func (e *Engine) startAtEnd(ctx context.Context, d *workflow.Delivery, receives int) error {
	end := &d.Events[0]
	kind := workflow.EndKindOf(sm.ExecutionState(end.To))
	i, err := e.Inspect(ctx, d.Tenant, d.Execution)
	if workflow.Is(err, workflow.CodeNotFound) {
		return nil // it has been removed: nobody knows what to start
	}
	if err != nil {
		return err
	}
	x := i.w.execution
	by := &workflow.FollowUpOf{Execution: x.ID, Depth: x.Depth() + 1}
	if by.Depth > workflow.MaxDepth {
		e.Log.LogAttrs(ctx, slog.LevelWarn, "no follow-up: too many executions have started each other", append(observe.ExecutionAttrs(d.Tenant, d.Execution, ""), slog.Int("depth", by.Depth))...)
		e.rememberUnstarted(ctx, d, receives, workflow.Errorf(workflow.CodeLimit, "%d executions in a row have started each other, and that is the limit: it is not tried again", workflow.MaxDepth))
		return nil
	}
	w := e.newWorkspace(d.Tenant, workflow.FollowUpID(x.ID, end.At, d.Try))
	return w.createFollowUp(ctx, workflow.Execution{CreatedBy: workflow.OnEndActor, CorrelationID: x.CorrelationID, Labels: x.Labels, FollowUpOf: by}, func() (views.StartRequest, error) {
		return i.followUp(ctx, d, kind)
	})
}

// FollowUp returns the id of the execution that the last end of the execution has started, as its
// definition says; nil if none has been started. If that was tried, failed says how it failed last.
func (i *Inspection) FollowUp(ctx context.Context) (started *string, failed *views.FollowUpFailure, err error) {
	x := i.w.execution
	if x.EndedAt.IsZero() || len(x.OnEnd) == 0 {
		return nil, nil, nil
	}
	id := workflow.FollowUpID(x.ID, x.EndedAt, x.Try)
	heads, err := i.w.ports.Store.Heads(ctx, x.Tenant, []string{id})
	if err != nil {
		return nil, nil, err
	}
	if heads[id].State != "" {
		return &id, nil, nil
	}
	tried, err := i.w.ports.Registry.DeliveryAttempts(ctx, x.Tenant, workflow.EndSubscriber(id))
	if err != nil {
		return nil, nil, err
	}
	last := slices.IndexFunc(tried, func(a workflow.DeliveryAttempt) bool { return a.Delivery == id && !a.Delivered })
	if last < 0 {
		return nil, nil, nil
	}
	a := tried[last]
	failed = &views.FollowUpFailure{At: a.At, Attempts: a.Attempts, Error: a.Error}
	switch {
	case x.Depth() >= workflow.MaxDepth: // it is never tried again
	case a.DeadLetter:
		failed.DeadLetter = true
	default:
		failed.RetryAt = new(a.At.Add(retryDelay(a.Attempts)))
	}
	return nil, failed, nil
}

// followUp returns the request that starts what the definition of an execution starts at an end.
func (i *Inspection) followUp(ctx context.Context, d *workflow.Delivery, kind workflow.EndKind) (req views.StartRequest, err error) {
	x, end := i.w.execution, &d.Events[0]
	definition, err := i.w.definition(ctx, x.Workflow)
	if err != nil {
		return req, err
	}
	f := definition.OnEnd.Of(kind)
	if f == nil {
		return req, workflow.Errorf(workflow.CodeInternal, "%s starts nothing when an execution has %s", x.Workflow, kind)
	}
	in, err := i.Input(ctx)
	if err != nil {
		return req, err
	}
	ended := &program.EndedExecution{
		Parameters: in.Parameters,
		Execution: map[string]any{
			"id": x.ID, "workflow": x.Workflow.String(), "state": end.To, "try": int64(d.Try), "key": x.Key, "createdBy": x.CreatedBy,
			"createdAt": x.CreatedAt, "endedAt": end.At,
		},
	}
	if x.Try == d.Try && x.EndedAt.Equal(end.At) { // what an earlier try, or one before a restore of the tables, ended with is gone
		ended.Failure = x.Error
		if output := x.GivenOutput(); output != nil {
			if ended.Output, err = i.w.loadValue(ctx, output); err != nil {
				return req, err
			}
		}
	}
	req.Workflow = f.Workflow
	req.Parameters, err = definition.FollowUpParameters(kind, ended)
	return req, err
}
