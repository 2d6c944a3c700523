package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// unauthenticated is the error for every call that proves nothing. A trigger that does not exist gives the
// same error, so that callers do not learn which triggers exist.
func unauthenticated() error {
	return workflow.Errorf(workflow.CodeUnauthorized, "the call is not signed as its trigger wants, or there is no such trigger")
}

// CallTrigger starts an execution, or sends a signal, for a call that proves who makes it. A
// refused call leaves no trace except in the history of calls. A repeated call is answered with the
// same execution, and duplicate is set.
func (e *Engine) CallTrigger(ctx context.Context, tenant, name string, call views.TriggerCall) (views.TriggerReceipt, error) {
	c := triggered{e: e, caller: workflow.Caller{Tenant: tenant, Actor: spec.TriggerActor + name}, name: name, call: call, now: e.now()}
	receipt, err := c.serve(ctx)
	c.remember(ctx, receipt, err)
	if c.trigger.Trigger != nil && c.trigger.Trigger.Form != nil {
		return c.answerForm(receipt, err)
	}
	return receipt, err
}

// FireTrigger does what a call with this body would do, on behalf of a user who may start
// executions. It works even while the trigger is paused.
func (e *Engine) FireTrigger(ctx context.Context, caller workflow.Caller, name string, req views.FireRequest) (views.TriggerReceipt, error) {
	call := views.TriggerCall{Headers: map[string]string{}, Query: req.Query, Body: req.Body}
	for k, v := range req.Headers {
		call.Headers[strings.ToLower(k)] = v
	}
	c := triggered{e: e, caller: caller, name: name, call: call, now: e.now(), byHand: true, key: req.IdempotencyKey}
	receipt, err := c.fire(ctx)
	c.remember(ctx, receipt, err)
	return receipt, err
}

// triggered is one call of a trigger.
type triggered struct {
	e       *Engine
	caller  workflow.Caller
	name    string
	call    views.TriggerCall
	now     time.Time
	byHand  bool
	sent    bool   // an event that a caller has sent
	key     string // the Idempotency-Key, if called by hand
	trigger spec.PublishedTrigger

	signed    string    // the signed part of the call; empty if only the secret is proved
	sequence  int64     // number of the call among those that the rate let pass
	notBefore time.Time // for events: when the rate lets the execution begin; zero for now

	made *program.Triggered // what the trigger makes of the call; nil before that is evaluated

	dedupe  string                      // for forms: calls with the same key count as one, for a while
	allowed func(context.Context) error // for forms: checks whether a valid form may start something
	trapped bool                        // for forms: the field that is hidden from people was filled in
}

func (c *triggered) serve(ctx context.Context) (none views.TriggerReceipt, err error) {
	if c.trigger, err = c.e.OpenPorts().Registry.Trigger(ctx, c.caller.Tenant, c.name); err != nil {
		return none, err
	}
	if c.trigger.Trigger == nil || c.trigger.Trigger.TakesEvents() {
		c.trigger.Trigger = nil
		workflow.MAC([]byte(c.name), c.call.Body) // as long as for one that exists
		return none, unauthenticated()
	}
	if c.trigger.Trigger.Form != nil {
		return c.serveForm(ctx)
	}
	if err := c.verify(ctx); err != nil {
		return none, err
	}
	return c.admit(ctx)
}

// takeRate takes one call from the rate of the trigger. A call above the rate is refused, and its
// caller can send it again. An event has no such caller, so it takes a place in advance and its
// execution waits until then. A place that is taken and then not used is lost, so that fewer
// executions may begin, but never more.
func (c *triggered) takeRate(ctx context.Context) error {
	rate, within := c.trigger.Trigger.EffectiveRate(), time.Duration(0)
	if c.trigger.Trigger.TakesEvents() {
		within = maxEventWait
	}
	use, err := c.e.OpenPorts().Registry.TakeRate(ctx, c.caller.Tenant, "trigger/"+c.name, rate, within, c.now)
	if err != nil {
		return err
	}
	c.sequence = use.Sequence
	wait := use.Wait
	// Headers with an accepted form would tell a stranger that it was not sent before.
	if within == 0 && (use.Sequence == 0 || c.trigger.Trigger.Form == nil) {
		views.ReportRate(ctx, use)
	}
	switch {
	case use.Sequence == 0:
		if within > 0 {
			wait = maxEventRetry // by then many places are free again
		}
		return &workflow.Error{Code: workflow.CodeRateLimited, Message: "the trigger may be called " + rate.String(), RetryAfter: wait}
	case wait > 0:
		c.notBefore = c.now.Add(wait + time.Millisecond - 1) // times of executions are cut to milliseconds
	}
	return nil
}

var errPaused = workflow.Errorf(workflow.CodeForbidden, "the trigger is paused")

// admit handles a proven call, or an event, if the rate allows it and the trigger is not paused. A
// call that was accepted before is always finished: its handler may have died between binding the
// key and starting the execution.
func (c *triggered) admit(ctx context.Context) (none views.TriggerReceipt, err error) {
	known, err := c.known(ctx)
	if err != nil {
		return none, err
	}
	if !known {
		if err := c.takeRate(ctx); err != nil {
			return none, err
		}
		if c.trigger.Paused != nil {
			return none, errPaused
		}
	}
	return c.start(ctx)
}

func (c *triggered) fire(ctx context.Context) (none views.TriggerReceipt, err error) {
	if c.trigger, err = c.e.OpenPorts().Registry.Trigger(ctx, c.caller.Tenant, c.name); err != nil {
		return none, err
	}
	if c.trigger.Trigger == nil {
		return none, spec.NoTrigger(c.name, c.trigger)
	}
	if c.trigger.Trigger.TakesEvents() {
		c.signed = eventKey(c.call.Body)
	}
	return c.start(ctx)
}

// verify checks the proof of the call.
func (c *triggered) verify(ctx context.Context) error {
	v := &c.trigger.Trigger.Verify
	if c.e.Secret == nil {
		return workflow.Errorf(workflow.CodeUnavailable, "calls cannot be checked: this installation has no secrets")
	}
	secret, err := c.e.Secret(ctx, c.caller.Tenant, v.Secret)
	if err != nil {
		c.e.Log.ErrorContext(ctx, "secret of a trigger cannot be read", observe.Tenant, c.caller.Tenant, "trigger", c.name, observe.Err(err))
		return workflow.Errorf(workflow.CodeUnavailable, "calls cannot be checked: the secret of the trigger cannot be read")
	}
	if len(secret) < workflow.MinSecretBytes {
		c.e.Log.ErrorContext(ctx, "secret of a trigger is too short", observe.Tenant, c.caller.Tenant, "trigger", c.name)
		return workflow.Errorf(workflow.CodeUnavailable, "calls cannot be checked: the secret of the trigger is shorter than %d bytes", workflow.MinSecretBytes)
	}
	header := v.HeaderName()
	signed, ok := v.Check([]byte(secret), c.call.Headers[header], c.call.Body, c.now)
	if !ok {
		return unauthenticated()
	}
	c.signed = signed
	delete(c.call.Headers, header)
	return nil
}

// hiddenHeaders are headers that expressions do not see, because they contain credentials for other
// systems.
var hiddenHeaders = []string{"authorization", "cookie", "proxy-authorization", "x-amz-security-token"}

// evaluate evaluates what the trigger makes of the call, once.
func (c *triggered) evaluate(ctx context.Context) (*program.Triggered, error) {
	if c.made != nil {
		return c.made, nil
	}
	body, err := callBody(c.call)
	if err != nil {
		return nil, err
	}
	for _, h := range hiddenHeaders {
		delete(c.call.Headers, h)
	}
	d, err := c.e.newWorkspace(c.caller.Tenant, "").definition(ctx, c.trigger.Workflow)
	if err != nil {
		return nil, err
	}
	made, err := d.Triggered(c.name, program.Call{Body: body, Headers: c.call.Headers, Query: c.call.Query})
	if err != nil {
		return nil, err
	}
	c.made = &made
	return c.made, nil
}

// start turns the call into what the trigger defines.
func (c *triggered) start(ctx context.Context) (none views.TriggerReceipt, err error) {
	made, err := c.evaluate(ctx)
	if err != nil {
		return none, err
	}
	if c.allowed != nil {
		if err := c.allowed(ctx); err != nil {
			return none, err
		}
	}
	req := views.StartRequest{
		Workflow: c.trigger.Workflow.String(), Parameters: made.Parameters, ExecuteOnParameters: made.Selector, Key: made.Key, NotBefore: c.notBefore,
		Labels:         map[string]string{spec.LabelTrigger: c.name},
		IdempotencyKey: c.key, IdempotencyLife: c.replayLife(),
	}
	if c.key == "" {
		if req.IdempotencyKey, err = c.deduplicate(ctx, cmp.Or(made.IdempotencyKey, c.dedupe)); err != nil {
			return none, err
		}
		req.IdempotencyDigest = "trigger"
	}
	var x *workflow.Execution
	var existed bool
	if signal := c.trigger.Trigger.Signal; signal != "" {
		req.Signal = &views.StartSignal{Name: signal, Data: made.Parameters}
		x, _, existed, err = c.e.SignalWithStart(ctx, c.caller, req)
	} else {
		x, existed, err = c.e.Start(ctx, c.caller, req)
	}
	if workflow.Is(err, workflow.CodeNotFound) { // the version was archived after the trigger was read
		return none, &workflow.Error{Code: workflow.CodeUnavailable, Message: "another version of the workflow is about to take its calls: try again", Cause: err}
	}
	if err != nil {
		return none, err
	}
	return views.TriggerReceipt{ID: x.ID, Duplicate: existed}, nil
}

// replayLife is how long a call is remembered: longer than its proof is accepted or, if the proof
// has no time, as long as possible.
func (c *triggered) replayLife() time.Duration {
	if c.trigger.Trigger.TakesEvents() {
		return eventLife
	}
	if c.dedupe != "" {
		return c.trigger.Trigger.Form.Dedupe.Window.Std()
	}
	if v := &c.trigger.Trigger.Verify; v.Timed() {
		return max(c.e.IdempotencyKeyTTL, 2*v.Window())
	}
	return views.MaxIdempotencyLife
}

// deduplicate returns the idempotency key of the call: the one that the trigger derives from the
// call, or else the signed part. If both exist, they are bound to each other. Otherwise somebody
// who has seen a call could send it again under another key, taken from a part that is not signed.
func (c *triggered) deduplicate(ctx context.Context, given string) (key string, err error) {
	prefix := spec.TriggerActor + c.name + "/"
	if given == "" {
		if c.signed == "" {
			return "", nil
		}
		return prefix + c.signed, nil
	}
	key = c.givenKey(given)
	if c.signed == "" {
		return key, nil
	}
	// Also if the key is known: only who has the secret can sign anew, and so have this written.
	want := workflow.IdempotencyRecord{Execution: key, Digest: "call", ExpiresAt: c.now.Add(max(c.replayLife(), c.e.IdempotencyKeyTTL))}
	bound, _, err := c.e.OpenPorts().Registry.BindIdempotencyKey(ctx, c.caller.Tenant, prefix+"signed/"+c.signed, want, c.now)
	if err == nil && bound.Execution != key {
		err = workflow.Errorf(workflow.CodeConflict, "this call was made before, with another idempotency key")
	}
	return key, err
}

// givenKey returns the idempotency key of a call for which the trigger derives one.
func (c *triggered) givenKey(given string) string {
	sum := sha256.Sum256([]byte(given))
	return spec.TriggerActor + c.name + "/key/" + hex.EncodeToString(sum[:])
}

// known reports whether the call was accepted before: its signed part, or one with the same
// idempotency key. Such a call takes nothing from the rate, so that a replayed call cannot use up
// what belongs to others.
func (c *triggered) known(ctx context.Context) (bool, error) {
	if known, err := c.knownBySignature(ctx); known || err != nil || c.trigger.Trigger.IdempotencyKey == "" || c.trigger.Trigger.Form != nil {
		return known, err
	}
	made, err := c.evaluate(ctx)
	if err != nil || made.IdempotencyKey == "" {
		return false, nil //nolint:nilerr // the start reports it
	}
	record, err := c.e.OpenPorts().Registry.IdempotencyRecord(ctx, c.caller.Tenant, c.givenKey(made.IdempotencyKey), c.now)
	return record.Execution != "", err
}

func (c *triggered) knownBySignature(ctx context.Context) (bool, error) {
	if c.signed == "" {
		return false, nil
	}
	key := spec.TriggerActor + c.name + "/" + c.signed
	if c.trigger.Trigger.IdempotencyKey != "" || c.dedupe != "" {
		key = spec.TriggerActor + c.name + "/signed/" + c.signed
	}
	record, err := c.e.OpenPorts().Registry.IdempotencyRecord(ctx, c.caller.Tenant, key, c.now)
	return record.Execution != "", err
}

// callBody returns the body of a call as JSON. A form becomes an object of strings, an empty body null. An object in
// JSON is none, whatever its Content-Type says: curl says form unless it is told otherwise.
func callBody(call views.TriggerCall) (json.RawMessage, error) {
	if len(call.Body) > spec.MaxTriggerBody {
		return nil, workflow.Errorf(workflow.CodeTooLarge, "the body is larger than %d bytes", spec.MaxTriggerBody)
	}
	if len(strings.TrimSpace(string(call.Body))) == 0 {
		return json.RawMessage("null"), nil
	}
	if kind, _, err := mime.ParseMediaType(call.Headers["content-type"]); err == nil && kind == "application/x-www-form-urlencoded" && !(call.Body[0] == '{' && json.Valid(call.Body)) {
		fields, err := url.ParseQuery(string(call.Body))
		if err != nil {
			return nil, workflow.Errorf(workflow.CodeInvalid, "the body is no form")
		}
		return workflow.EncodeJSON(firstValues(fields))
	}
	return compactJSON(call.Body, "body")
}

func firstValues(fields url.Values) map[string]string {
	all := make(map[string]string, len(fields))
	for name, values := range fields {
		all[name] = values[0]
	}
	return all
}

// remember stores the result of a call. The answer does not depend on it.
func (c *triggered) remember(ctx context.Context, receipt views.TriggerReceipt, failed error) {
	if c.trigger.Trigger == nil {
		return // a flood of calls to triggers that do not exist writes nothing
	}
	call := workflow.TriggerCall{At: c.now, Status: 202, Execution: receipt.ID, Duplicate: receipt.Duplicate}
	if receipt.Duplicate {
		call.Status = 200
	}
	kind := ""
	if c.trapped {
		kind = "honeypot"
		call.Issues = []workflow.RefusedPart{{Path: "body." + c.trigger.Trigger.Form.Honeypot, Code: "honeypot"}}
	}
	if failed != nil {
		call.Code = workflow.CodeOf(failed)
		kind = string(call.Code)
		var coded *workflow.Error
		if errors.As(failed, &coded) && call.Code != workflow.CodeInternal {
			for _, i := range coded.Issues[:min(len(coded.Issues), maxRememberedIssues)] {
				call.Issues = append(call.Issues, workflow.RefusedPart{Path: workflow.Truncate(i.Path, maxIssuePath), Code: i.Code})
				if i.Code == issueCaptcha {
					kind = i.Code
				}
			}
		}
		call.Status = call.Code.HTTPStatus()
	}
	if c.byHand || c.sent {
		call.By = c.caller.Actor
	}
	var key string
	switch {
	case c.byHand:
		use, err := c.e.OpenPorts().Registry.TakeRate(context.WithoutCancel(ctx), c.caller.Tenant, "fired/"+c.name, firedRate, firedWithin, c.now)
		if err != nil {
			c.e.Log.WarnContext(ctx, "call of a trigger not remembered", observe.Tenant, c.caller.Tenant, "trigger", c.name, observe.Err(err))
			return
		}
		key = fmt.Sprintf("fired-%03d", use.Sequence%workflow.MaxTriggerCalls)
	case c.sequence > 0:
		key = fmt.Sprintf("call-%03d", c.sequence%workflow.MaxTriggerCalls)
	case c.e.refused.first(c.caller.Tenant+"#"+c.name+"#"+kind, c.now):
		key = fmt.Sprintf("other-%s-%02d", kind, c.now.Unix()/60%workflow.MaxRefusedMinutes)
	default:
		return
	}
	if err := c.e.OpenPorts().Registry.PutTriggerCall(context.WithoutCancel(ctx), c.caller.Tenant, c.name, key, call); err != nil {
		c.e.Log.WarnContext(ctx, "call of a trigger not remembered", observe.Tenant, c.caller.Tenant, "trigger", c.name, observe.Err(err))
	}
}

// firedRate is a rate that nobody exceeds by hand. It only numbers the calls, so that each of those
// made in one second has a line in the history.
var firedRate = workflow.Rate{Count: 100, Per: time.Second}

const firedWithin = time.Hour

// Limits for what is remembered about the invalid parts of a call.
const (
	maxRememberedIssues = 10
	maxIssuePath        = 128
)

// refusedCalls knows when a process last remembered a call that was refused because it had no proof
// or exceeded its rate. It remembers one a minute for each trigger and kind, so that a flood of
// them writes little.
type refusedCalls struct {
	mu   sync.Mutex
	last map[string]int64 // minute, by trigger and kind
}

const maxRefusedTriggers = 10_000

func (r *refusedCalls) first(key string, now time.Time) bool {
	minute := now.Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.last[key]; known && last == minute {
		return false
	}
	if len(r.last) >= maxRefusedTriggers {
		clear(r.last)
	}
	r.last[key] = minute
	return true
}
