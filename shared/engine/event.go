package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/eventpattern"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// eventLife is how long an event is known: longer than its message lies among the dead letters.
const eventLife = 15 * 24 * time.Hour

// TakeEvent hands an event to the triggers of a tenant whose patterns it matches: each starts an
// execution, or sends a signal. The same event again, by its id, is answered with the same executions.
//
// The event is an object as EventBridge makes it, with an id. What a trigger refuses for good is in the
// receipt, and in the history of the trigger. An error means that the event has to be handed in again:
// what it has started stays, and is found again.
func (e *Engine) TakeEvent(ctx context.Context, tenant string, event json.RawMessage) (receipt views.EventReceipt, err error) {
	receipt.Triggers = []views.EventTaken{}
	if len(event) > spec.MaxTriggerBody {
		return receipt, workflow.Errorf(workflow.CodeTooLarge, "the event is larger than %d bytes", spec.MaxTriggerBody)
	}
	if receipt.ID = eventID(event); receipt.ID == "" {
		return receipt, workflow.Invalid("this is no event", []workflow.Issue{{Path: "id", Code: "required", Message: "an event has an id, by which it is known again"}})
	}
	decoded, err := eventpattern.Decode(event)
	if err != nil {
		return receipt, workflow.Errorf(workflow.CodeInvalid, "the event is not JSON")
	}
	all, err := e.OpenPorts().Registry.Triggers(ctx, tenant)
	if err != nil {
		return receipt, err
	}
	for _, t := range all {
		if t.Trigger == nil || !t.Trigger.TakesEvents() {
			continue
		}
		pattern, issues := eventpattern.Parse(t.Trigger.Pattern)
		if len(issues) > 0 { // a later release has published it
			e.Log.ErrorContext(ctx, "pattern of a trigger cannot be read", observe.Tenant, tenant, "trigger", t.Name)
			err = worse(err, workflow.Errorf(workflow.CodeUnavailable, "the pattern of trigger %s cannot be read", t.Name))
			continue
		}
		if !pattern.Matches(decoded) {
			continue
		}
		taken, failed := e.takeEvent(ctx, tenant, t, event)
		receipt.Triggers = append(receipt.Triggers, taken)
		err = worse(err, failed)
	}
	return receipt, err
}

// HandleEvent hands an event that EventBridge has sent to the triggers of its tenant. receives is how
// often it has come, with this time. An error means that it has to come again, after retryAfter.
func (e *Engine) HandleEvent(ctx context.Context, event workflow.BusEvent, receives int) (retryAfter time.Duration, err error) {
	_, err = e.TakeEvent(ctx, event.Tenant, event.Event)
	if err == nil {
		return 0, nil
	}
	retryAfter = retryDelays[min(max(receives, 1), len(retryDelays))-1]
	var coded *workflow.Error
	if errors.As(err, &coded) {
		retryAfter = max(retryAfter, coded.RetryAfter)
	}
	if code := workflow.CodeOf(err); code == workflow.CodeInvalid || code == workflow.CodeTooLarge {
		retryAfter = suspendedRetry // so that it is soon among the dead letters
	}
	return retryAfter, err
}

// takeEvent hands an event to one trigger. An error may pass.
func (e *Engine) takeEvent(ctx context.Context, tenant string, t spec.PublishedTrigger, event json.RawMessage) (views.EventTaken, error) {
	c := triggered{
		e: e, caller: workflow.Caller{Tenant: tenant, Actor: spec.TriggerActor + t.Name}, name: t.Name, trigger: t, now: e.now(),
		call: views.TriggerCall{Body: event, Headers: map[string]string{}}, signed: eventKey(event),
	}
	receipt, err := c.admit(ctx)
	c.remember(ctx, receipt, err)
	taken := views.EventTaken{Trigger: t.Name, Execution: receipt.ID, Duplicate: receipt.Duplicate}
	if err == nil {
		return taken, nil
	}
	switch taken.Code = workflow.CodeOf(err); taken.Code {
	case workflow.CodeInvalid, workflow.CodeTooLarge, workflow.CodeForbidden, workflow.CodeConflict, workflow.CodeIdempotencyMismatch:
		e.Log.InfoContext(ctx, "trigger has refused an event", observe.Tenant, tenant, "trigger", t.Name, observe.Err(err))
		return taken, nil // the next time it would be the same
	}
	return taken, err
}

// worse is the error of two that says more of when to come again.
func worse(a, b error) error {
	if a == nil || workflow.Is(a, workflow.CodeRateLimited) && b != nil {
		return b
	}
	return a
}

// eventID is the id of an event; empty if it has none.
func eventID(event json.RawMessage) string {
	var fields struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(event, &fields) != nil {
		return ""
	}
	return fields.ID
}

// eventKey is by what an event is known again; empty if it has no id.
func eventKey(event json.RawMessage) string {
	id := eventID(event)
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return "event/" + hex.EncodeToString(sum[:])
}
