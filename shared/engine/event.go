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

// eventLife is how long an event is known: longer than its message lies among the dead letters.
const eventLife = 15 * 24 * time.Hour

// maxEventWait is how long the execution of an event may wait for the rate of its trigger. What comes
// above that comes again.
const maxEventWait = 24 * time.Hour

// maxEventRetry is the longest time after which an event comes again because of a rate: so that it is
// among the dead letters before the queue drops its message.
const maxEventRetry = 6 * time.Hour

// TakeEvent hands an event to the triggers of a tenant whose patterns it matches: each starts an
// execution, or sends a signal. The same event again, by its source and id, is answered with the same executions.
//
// The caller is who hands it in, and the creator of what it starts; of an event that has come by itself he
// has a tenant only. The event is an object as EventBridge makes it, with an id. What a trigger refuses for good is in the
// receipt, and in the history of the trigger. An error means that the event has to be handed in again:
// what it has started stays, and is found again.
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

// prefixMessage puts a text in front of the message of an error with a code, and leaves any other as it is.
func prefixMessage(err error, prefix string) error {
	var coded *workflow.Error
	if !errors.As(err, &coded) {
		return err
	}
	prefixed := *coded
	prefixed.Message = prefix + coded.Message
	return &prefixed
}

// HandleEvent hands an event that EventBridge has sent to the triggers of its tenant. receives is how
// often it has come, with this time. An error means that it has to come again, after retryAfter.
func (e *Engine) HandleEvent(ctx context.Context, event workflow.BusEvent, receives int) (retryAfter time.Duration, err error) {
	_, err = e.TakeEvent(ctx, workflow.Caller{Tenant: event.Tenant}, event.Event)
	if err == nil {
		return 0, nil
	}
	retryAfter = retryDelays[min(max(receives, 1), len(retryDelays))-1]
	var coded *workflow.Error
	if errors.As(err, &coded) {
		retryAfter = max(retryAfter, min(coded.RetryAfter, maxEventRetry))
	}
	if code := workflow.CodeOf(err); code == workflow.CodeInvalid || code == workflow.CodeTooLarge {
		retryAfter = suspendedRetry // so that it is soon among the dead letters
	}
	return retryAfter, err
}

// takeEvent hands an event to one trigger. An error may pass.
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
		return taken, err // until the execution that has it ends
	}
	switch taken.Code {
	case workflow.CodeInvalid, workflow.CodeTooLarge, workflow.CodeForbidden, workflow.CodeConflict, workflow.CodeIdempotencyMismatch:
		e.Log.InfoContext(ctx, "trigger has refused an event", observe.Tenant, caller.Tenant, "trigger", t.Name, observe.Err(err))
		taken.Message = err.Error()
		if refused := (*workflow.Error)(nil); errors.As(err, &refused) {
			taken.Message, taken.Issues = refused.Message, refused.Issues
		}
		return taken, nil // the next time it would be the same
	}
	return taken, err
}

// firstToRetry is the error of two after which an event comes again earlier: not that of a rate.
func firstToRetry(a, b error) error {
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

// eventKey is by what an event is known again: its id within its source, which numbers its own. It is
// empty if the event has no id.
func eventKey(event json.RawMessage) string {
	id := eventID(event)
	if id == "" {
		return ""
	}
	var fields struct {
		Source string `json:"source"`
	}
	_ = json.Unmarshal(event, &fields) // a source of another type is none
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(fields.Source), fields.Source, id))
	return "event/" + hex.EncodeToString(sum[:])
}
