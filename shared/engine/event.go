package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/eventpattern"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// eventLife is how long an event is remembered: longer than its message can stay among the dead
// letters.
const eventLife = 15 * 24 * time.Hour

// maxEventWait is how long an execution started by an event may wait for the rate of its trigger.
// Events beyond that are retried.
const maxEventWait = 24 * time.Hour

// maxEventRetry is the longest retry delay of an event that exceeds a rate. It is short enough for
// the event to become a dead letter before the queue drops its message.
const maxEventRetry = 6 * time.Hour

// TakeEvent hands an event to those triggers of a tenant whose patterns match it. Each starts an
// execution or sends a signal. An event with the same source and id is answered with the same
// executions.
//
// The caller is whoever sends the event, and becomes the creator of what it starts. An event from
// EventBridge has a caller with a tenant only. The event is an object in the EventBridge format,
// with an id. If a trigger refuses the event for good, the receipt and the trigger's history say
// so. On an error the event must be sent again: what it has started stays, and is found again.
func (e *Engine) TakeEvent(ctx context.Context, caller workflow.Caller, event json.RawMessage) (receipt views.EventReceipt, err error) {
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
	all, err := e.eventTriggers(ctx, caller)
	if err != nil {
		return receipt, err
	}
	for _, t := range all {
		matches, failed := e.matchEvent(ctx, caller, &t, decoded)
		if matches {
			var taken views.EventTaken
			taken, failed = e.takeEvent(ctx, caller, t.published, event)
			receipt.Triggers = append(receipt.Triggers, taken)
		}
		err = firstToRetry(err, failed)
	}
	return receipt, prefixMessage(err, "hand in the event "+workflow.Truncate(receipt.ID, 100)+" again, with this id: ")
}

// prefixMessage puts a prefix before the message of an error that has a code, and returns any other
// error unchanged.
func prefixMessage(err error, prefix string) error {
	var coded *workflow.Error
	if !errors.As(err, &coded) {
		return err
	}
	prefixed := *coded
	prefixed.Message = prefix + coded.Message
	return &prefixed
}

// HandleEvent hands an event from EventBridge to the triggers of its tenant. receives is how often
// it has been received, this time included. On an error it must be received again, after
// retryAfter.
func (e *Engine) HandleEvent(ctx context.Context, event workflow.BusEvent, receives int) (retryAfter time.Duration, err error) {
	_, err = e.TakeEvent(ctx, workflow.Caller{Tenant: event.Tenant}, event.Event)
	if err == nil {
		return 0, nil
	}
	retryAfter = growingDelay(receives)
	var coded *workflow.Error
	if errors.As(err, &coded) {
		retryAfter = max(retryAfter, min(coded.RetryAfter, maxEventRetry))
	}
	if code := workflow.CodeOf(err); code == workflow.CodeInvalid || code == workflow.CodeTooLarge {
		retryAfter = suspendedRetry // so that it becomes a dead letter soon
	}
	return retryAfter, err
}

// takeEvent hands an event to one trigger. It returns an error only if a repetition may succeed.
func (e *Engine) takeEvent(ctx context.Context, caller workflow.Caller, t spec.PublishedTrigger, event json.RawMessage) (views.EventTaken, error) {
	sent := caller.Actor != ""
	if !sent {
		caller.Actor = spec.TriggerActor + t.Name
	}
	c := triggered{
		e: e, caller: caller, name: t.Name, trigger: t, now: e.now(), sent: sent,
		call: views.TriggerCall{Body: event, Headers: map[string]string{}}, signed: eventKey(event),
	}
	receipt, err := c.admit(ctx)
	c.remember(ctx, receipt, err)
	taken := views.EventTaken{Trigger: t.Name, Execution: receipt.ID, Duplicate: receipt.Duplicate}
	if err == nil {
		return taken, nil
	}
	taken.Code, err = workflow.CodeOf(err), prefixMessage(err, "trigger "+t.Name+": ")
	if keyIsHeld(err) {
		return taken, err // retry until the execution that holds the key ends
	}
	switch taken.Code {
	case workflow.CodeInvalid, workflow.CodeTooLarge, workflow.CodeForbidden, workflow.CodeConflict, workflow.CodeIdempotencyMismatch:
		e.Log.InfoContext(ctx, "trigger has refused an event", observe.Tenant, caller.Tenant, "trigger", t.Name, observe.Err(err))
		taken.Message = err.Error()
		if refused := (*workflow.Error)(nil); errors.As(err, &refused) {
			taken.Message, taken.Issues = refused.Message, refused.Issues
		}
		return taken, nil // a retry would have the same result
	}
	return taken, err
}

// firstToRetry returns the error that is retried sooner. The error of a rate is retried later than
// any other.
func firstToRetry(a, b error) error {
	if a == nil || workflow.Is(a, workflow.CodeRateLimited) && b != nil {
		return b
	}
	return a
}

// eventID returns the id of an event; empty if it has none.
func eventID(event json.RawMessage) string {
	var fields struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(event, &fields) != nil {
		return ""
	}
	return fields.ID
}

// eventKey returns the key under which a repeated event is recognised: its source and its id,
// because each source numbers its own events. It is empty if the event has no id.
func eventKey(event json.RawMessage) string {
	id := eventID(event)
	if id == "" {
		return ""
	}
	var fields struct {
		Source string `json:"source"`
	}
	_ = json.Unmarshal(event, &fields) // a source that is not a string counts as missing
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(fields.Source), fields.Source, id))
	return "event/" + hex.EncodeToString(sum[:])
}
