package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/statemachines"
)

// fake implements the services in memory, as far as the routes need. It records the
// callers and the requests.
type fake struct {
	mu         sync.Mutex
	tenant     string // the only tenant with resources
	err        error  // returned by every method, if set
	panics     bool   // every method panics
	inputs     bool   // the caller may answer what an execution asks
	caller     workflow.Caller
	calls      []string
	start      views.StartRequest
	cancel     views.CancelRequest
	retry      views.RetryRequest
	rerun      views.RerunRequest
	failures   views.FailureFilter
	released   []workflow.EntityKey
	answer     views.AnswerRequest
	enter      views.NextRequest
	rewind     views.RewindRequest
	signal     views.SignalRequest
	signalName string
	schedule   string // the last request about one
	existed    bool
	token      string
	issue      views.TokenRequest
	revoke     views.RevokeRequest
	byToken    views.TokenAnswer
	reason     string
	archived   bool
	labels     map[string]string
	filter     views.ExecutionFilter
	jobs       views.JobFilter
	selector   workflow.Selector
	page       workflow.Page
	after      int64

	subscription string // what was asked for
	trigger      string
	keys         map[string]string
	source       []byte
	imported     []byte
	replaced     bool
	patch        views.EntityPatch
	deletedAt    *int64
	audited      []workflow.AuditEntry

	auditFilter workflow.AuditFilter
	block       workflow.Block
	entity      workflow.Entity
	executions  map[string]*workflow.Execution
	next        string
	skipped     []string
	results     views.PackResults
	minimal     bool          // leaves all optional fields empty
	later       time.Duration // behind the time of all other answers
}

var at = time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)

const executionID = "019aa3a1-6a7e-7c3e-9d07-0a1b2c3d4e5f"

func newFake() *fake {
	return &fake{tenant: "default", keys: map[string]string{}, executions: map[string]*workflow.Execution{
		executionID: {Tenant: "default", ID: executionID, State: statemachines.ExecutionRunning, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, CreatedAt: at},
	}}
}

func (f *fake) record(name string, c workflow.Caller) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	f.caller = c
	if f.panics {
		panic("a secret")
	}
	return f.err
}

func (f *fake) execution(c workflow.Caller, id string) (*workflow.Execution, error) {
	x := f.executions[id]
	if x == nil || c.Tenant != f.tenant {
		return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
	}
	return x, nil
}

func ptr[T any](v T) *T { return &v }

func (f *fake) Publish(_ context.Context, c workflow.Caller, source []byte, _ bool) (workflow.PublishedDefinition, bool, error) {
	if err := f.record("Publish", c); err != nil {
		return workflow.PublishedDefinition{}, false, err
	}
	created := !bytes.Equal(f.source, source)
	f.source = source
	return f.published(), created, nil
}

func (f *fake) PublishDraft(ctx context.Context, c workflow.Caller, source []byte, dryRun bool) (workflow.PublishedDefinition, bool, error) {
	p, created, err := f.Publish(ctx, c, source, dryRun)
	p.Draft = true
	return p, created, err
}

func (f *fake) published() workflow.PublishedDefinition {
	if f.minimal {
		return workflow.PublishedDefinition{Ref: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}}
	}
	return workflow.PublishedDefinition{Ref: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, Digest: "d", Source: []byte(`{"package":"fleet"}`), PublishedAt: at, PublishedBy: "local"}
}

func (f *fake) Definitions(_ context.Context, c workflow.Caller, labels map[string]string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	f.page, f.labels = page, labels
	return workflow.List[workflow.PublishedDefinition]{Items: []workflow.PublishedDefinition{f.published()}, NextToken: f.next}, f.record("Definitions", c)
}

func (f *fake) Versions(_ context.Context, c workflow.Caller, _ string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	f.page = page
	return workflow.List[workflow.PublishedDefinition]{Items: []workflow.PublishedDefinition{f.published()}, NextToken: f.next}, f.record("Versions", c)
}

func (f *fake) Definition(_ context.Context, c workflow.Caller, ref workflow.Ref) (workflow.PublishedDefinition, error) {
	if err := f.record("Definition", c); err != nil {
		return workflow.PublishedDefinition{}, err
	}
	if !ref.Matches("1.0.0") {
		return workflow.PublishedDefinition{}, workflow.Errorf(workflow.CodeNotFound, "there is no %s", ref)
	}
	p := f.published()
	p.Archived = f.archived
	return p, nil
}

func (f *fake) Archive(_ context.Context, c workflow.Caller, _ workflow.Ref) error {
	f.archived = true
	return f.record("Archive", c)
}

func (f *fake) Restore(_ context.Context, c workflow.Caller, _ workflow.Ref) error {
	f.archived = false
	return f.record("Restore", c)
}

func (f *fake) Subscriptions(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Subscription], error) {
	f.page = page
	return workflow.List[workflow.Subscription]{Items: []workflow.Subscription{aSubscription("failures")}, NextToken: f.next}, f.record("Subscriptions", c)
}

func aSubscription(name string) workflow.Subscription {
	return workflow.Subscription{Name: name, To: workflow.SubscriptionTarget{URL: "https://hooks.example", Secret: []byte("sealed")}, States: []string{"FAILED_UNSAFE"}, Since: at, CreatedAt: at, CreatedBy: "ann",
		Suspended: &workflow.SubscriptionPause{At: at, Reason: "no"}, Dead: 20}
}

func (f *fake) Subscription(_ context.Context, c workflow.Caller, name string) (workflow.Subscription, error) {
	return aSubscription(name), f.record("Subscription", c)
}

func (f *fake) PutSubscription(_ context.Context, c workflow.Caller, name string, req views.SubscriptionRequest) (workflow.Subscription, string, error) {
	f.subscription = name + " " + req.URL + " " + strings.Join(req.Events, ",")
	s := aSubscription(name)
	s.Suspended, s.Dead = nil, 0
	return s, "s3cr3t", f.record("PutSubscription", c)
}

func (f *fake) RemoveSubscription(_ context.Context, c workflow.Caller, name string) (workflow.Subscription, error) {
	f.subscription = "remove " + name
	return aSubscription(name), f.record("RemoveSubscription", c)
}

func (f *fake) ResumeSubscription(_ context.Context, c workflow.Caller, name string) (workflow.Subscription, error) {
	f.subscription = "resume " + name
	s := aSubscription(name)
	s.Suspended, s.Dead = nil, 0
	return s, f.record("ResumeSubscription", c)
}

func aTrigger(name string) spec.PublishedTrigger {
	return spec.PublishedTrigger{Name: name, Revision: 3, Workflow: workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}, Paused: &spec.ScheduleHalt{By: "ann", At: at, Reason: "freeze"},
		Trigger: &spec.Trigger{Name: name, Signal: "pushed", Verify: workflow.Verification{Scheme: workflow.VerifyGitHub, Secret: "hooks/gh"}}}
}

func (f *fake) Triggers(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[spec.PublishedTrigger], error) {
	f.page = page
	return workflow.List[spec.PublishedTrigger]{Items: []spec.PublishedTrigger{aTrigger("push")}, NextToken: f.next}, f.record("Triggers", c)
}

func (f *fake) Trigger(_ context.Context, c workflow.Caller, name string) (spec.PublishedTrigger, error) {
	return aTrigger(name), f.record("Trigger", c)
}

func (f *fake) TriggerCalls(_ context.Context, c workflow.Caller, name string) (workflow.List[workflow.TriggerCall], error) {
	f.trigger = "calls " + name
	return workflow.List[workflow.TriggerCall]{Items: []workflow.TriggerCall{{At: at, Status: 202, Execution: executionID}, {At: at, Status: 400, Code: "invalid", By: "ann", Issues: []workflow.RefusedPart{{Path: "body.ref", Code: "type"}}}}}, f.record("TriggerCalls", c)
}

func (f *fake) PauseTrigger(_ context.Context, c workflow.Caller, name, reason string) (spec.PublishedTrigger, error) {
	f.trigger = "pause " + name + " " + reason
	return aTrigger(name), f.record("PauseTrigger", c)
}

func (f *fake) ResumeTrigger(_ context.Context, c workflow.Caller, name string) (spec.PublishedTrigger, error) {
	f.trigger = "resume " + name
	t := aTrigger(name)
	t.Paused = nil
	return t, f.record("ResumeTrigger", c)
}

func (f *fake) CallTrigger(_ context.Context, tenant, name string, call views.TriggerCall) (views.TriggerReceipt, error) {
	f.trigger = "call " + tenant + " " + name + " " + call.Headers["x-event"] + " " + call.Query["q"] + " " + string(call.Body)
	return views.TriggerReceipt{ID: executionID, Duplicate: f.existed}, f.record("CallTrigger", workflow.Caller{Tenant: f.tenant})
}

func (f *fake) Form(_ context.Context, tenant, name string) (views.FormView, error) {
	f.trigger = "form " + tenant + " " + name
	return views.NewFormView(tenant, &spec.Trigger{Name: name, Schema: json.RawMessage(`{"type":"object"}`), Form: &spec.Form{Captcha: &spec.Captcha{Provider: spec.CaptchaTurnstile, Secret: "hooks/captcha", SiteKey: "k"}}}), f.record("Form", workflow.Caller{Tenant: f.tenant})
}

func (f *fake) TakeEvent(_ context.Context, c workflow.Caller, event json.RawMessage) (views.EventReceipt, error) {
	f.trigger = "event " + string(event)
	return views.EventReceipt{ID: "e1", Triggers: []views.EventTaken{{Trigger: "push", Execution: executionID, Duplicate: true}, {Trigger: "other", Code: workflow.CodeInvalid}}}, f.record("TakeEvent", c)
}

func (f *fake) FireTrigger(_ context.Context, c workflow.Caller, name string, req views.FireRequest) (views.TriggerReceipt, error) {
	f.trigger = "fire " + name + " " + req.IdempotencyKey + " " + string(req.Body)
	return views.TriggerReceipt{ID: executionID, Duplicate: f.existed}, f.record("FireTrigger", c)
}

func (f *fake) PauseSchedule(_ context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error) {
	f.schedule = "pause " + fullName + " " + reason
	return spec.Schedule{Name: fullName, Paused: &spec.ScheduleHalt{By: c.Actor, At: at, Reason: reason}, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}}, f.record("PauseSchedule", c)
}

func (f *fake) ResumeSchedule(_ context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error) {
	f.schedule = "resume " + fullName + " " + reason
	return spec.Schedule{Name: fullName, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}}, f.record("ResumeSchedule", c)
}

func (f *fake) RemoveSchedule(_ context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error) {
	f.schedule = "remove " + fullName + " " + reason
	return spec.Schedule{Name: fullName, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}}, f.record("RemoveSchedule", c)
}

func (f *fake) TestSubscription(_ context.Context, c workflow.Caller, name string) (workflow.DeliveryAttempt, error) {
	f.subscription = "test " + name
	return workflow.DeliveryAttempt{At: at, Delivery: "s:test:1", Attempts: 1, Status: 503, Error: "no", Test: true}, f.record("TestSubscription", c)
}

func (f *fake) MetricsSummary(_ context.Context, c workflow.Caller, ref string, days int) (views.MetricsSummary, error) {
	return views.MetricsSummary{
		From: "2026-10-23", Through: "2026-11-21", Counting: true, Complete: true, DurationBounds: workflow.DurationBounds(),
		Workflows: []views.WorkflowMetrics{{
			Workflow: "fleet/upgrade", Count: 3, Ends: views.EndCounts{Completed: 2, FailedSafe: 1}, Partial: 1,
			Seconds: views.DurationSummary{Sum: 70.5, Max: 60, Median: 10, P95: 60}, Durations: []int{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		}},
	}, f.record(fmt.Sprintf("MetricsSummary %s %d", ref, days), c)
}

func (f *fake) Deliveries(_ context.Context, c workflow.Caller, name string) (workflow.List[workflow.DeliveryAttempt], error) {
	f.subscription = "deliveries " + name
	return workflow.List[workflow.DeliveryAttempt]{Items: []workflow.DeliveryAttempt{{At: at, Delivery: "s:x:7", Execution: executionID, Attempts: 2, Delivered: true, Status: 200}}}, f.record("Deliveries", c)
}

func (f *fake) FireSchedule(_ context.Context, c workflow.Caller, fullName, key string) (string, bool, error) {
	f.schedule = "fire " + fullName + " " + key
	return executionID, f.existed, f.record("FireSchedule", c)
}

func (f *fake) Schedule(_ context.Context, c workflow.Caller, fullName string) (views.ScheduleView, error) {
	state := statemachines.ExecutionCompletedAck
	v := views.NewScheduleView(spec.Schedule{Name: fullName, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, Cron: &spec.Cron{Schedule: "0 4 * * *"}, Recent: []spec.ScheduledStart{{Execution: executionID, At: at, By: "ann"}}})
	v.Executions[0].State = &state
	return v, f.record("Schedule", c)
}

func (f *fake) Schedules(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[spec.Schedule], error) {
	f.page = page
	s := spec.Schedule{Name: "fleet/upgrade", Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}}
	if !f.minimal {
		s.Cron = &spec.Cron{Schedule: "0 4 * * *", Zone: "Europe/Zurich", Concurrency: true}
		s.NextAt, s.LastExecution, s.LastAt, s.SkippedAt, s.SkippedCount, s.Problem = at, executionID, at, at, 2, "no"
	}
	return workflow.List[spec.Schedule]{Items: []spec.Schedule{s}, NextToken: f.next}, f.record("Schedules", c)
}

func (f *fake) RegisterBlock(_ context.Context, c workflow.Caller, b workflow.Block) (bool, error) {
	created := f.block.Name == ""
	f.block = b
	return created, f.record("RegisterBlock", c)
}

func (f *fake) Blocks(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Block], error) {
	f.page = page
	b := workflow.Block{Package: "fleet", Name: "upgrade", Version: "1.0.0"}
	if !f.minimal {
		b.Timeout, b.HTTP, b.ParameterSchema, b.RunOn = workflow.Duration(90*time.Second), &workflow.Endpoint{URL: "http://127.0.0.1:1/x"}, json.RawMessage(`{"type":"object"}`), "device"
	}
	return workflow.List[workflow.Block]{Items: []workflow.Block{b}, NextToken: f.next}, f.record("Blocks", c)
}

func (f *fake) PutEntity(_ context.Context, c workflow.Caller, e workflow.Entity) (workflow.Entity, error) {
	f.entity = e
	e.Version = 3
	return e, f.record("PutEntity", c)
}

func (f *fake) Entity(_ context.Context, c workflow.Caller, key workflow.EntityKey) (workflow.Entity, error) {
	return workflow.Entity{Type: key.Type, ID: key.ID}, f.record("Entity", c)
}

func (f *fake) Entities(_ context.Context, c workflow.Caller, sel workflow.Selector, page workflow.Page) (workflow.List[workflow.Entity], error) {
	f.page, f.selector = page, sel
	return workflow.List[workflow.Entity]{Items: []workflow.Entity{{Type: "device", ID: "sw-1", Attributes: json.RawMessage(`{"site":"zrh"}`), Groups: []string{"core"}}}, NextToken: f.next}, f.record("Entities", c)
}

func (f *fake) EntityTypes(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[string], error) {
	f.page = page
	return workflow.List[string]{Items: []string{"device"}, NextToken: f.next}, f.record("EntityTypes", c)
}

func (f *fake) BeginAudit(_ context.Context, c workflow.Caller, e workflow.AuditEntry) (workflow.AuditEntry, error) {
	f.audited = append(f.audited, e)
	return e, f.err
}

func (f *fake) EndAudit(_ context.Context, _ workflow.Caller, e workflow.AuditEntry, status int) error {
	e.Status = &status
	f.audited = append(f.audited, e)
	return nil
}

func (f *fake) AuditEntries(_ context.Context, c workflow.Caller, filter workflow.AuditFilter, page workflow.Page) (workflow.List[workflow.AuditEntry], error) {
	f.auditFilter, f.page = filter, page
	e := workflow.AuditEntry{ID: "1", At: at, Actor: "ann", Verb: "cancelExecution", Target: "/workflow-execution/" + executionID + "/cancel"}
	if !f.minimal {
		e.Execution, e.Status, e.Reason = ptr(executionID), ptr(202), "r"
	}
	return workflow.List[workflow.AuditEntry]{Items: []workflow.AuditEntry{e}, NextToken: f.next}, f.record("AuditEntries", c)
}

func (f *fake) PatchEntity(_ context.Context, c workflow.Caller, key workflow.EntityKey, patch views.EntityPatch) (workflow.Entity, error) {
	f.patch = patch
	return workflow.Entity{Type: key.Type, ID: key.ID, Version: 8}, f.record("PatchEntity", c)
}

func (f *fake) DeleteEntity(_ context.Context, c workflow.Caller, key workflow.EntityKey, version *int64) (workflow.Entity, error) {
	f.deletedAt = version
	return workflow.Entity{Type: key.Type, ID: key.ID, Version: 8}, f.record("DeleteEntity", c)
}

func (f *fake) ImportEntities(_ context.Context, c workflow.Caller, r io.Reader, replace bool) (views.ImportResult, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return views.ImportResult{}, err
	}
	f.imported, f.replaced = b, replace
	return views.ImportResult{Imported: bytes.Count(b, []byte("\n"))}, f.record("ImportEntities", c)
}

func (f *fake) Start(_ context.Context, c workflow.Caller, req views.StartRequest) (*workflow.Execution, bool, error) {
	if err := f.record("Start", c); err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = req
	body, _ := json.Marshal(req)
	if previous, ok := f.keys[req.IdempotencyKey]; ok && req.IdempotencyKey != "" {
		if previous != string(body) {
			return nil, false, workflow.Errorf(workflow.CodeIdempotencyMismatch, "the key was used with another request")
		}
		return f.executions[executionID], true, nil
	}
	f.keys[req.IdempotencyKey] = string(body)
	return f.executions[executionID], false, nil
}

func (f *fake) Cancel(_ context.Context, c workflow.Caller, id string, req views.CancelRequest) (*workflow.Execution, error) {
	if err := f.record("Cancel", c); err != nil {
		return nil, err
	}
	f.cancel = req
	return f.execution(c, id)
}

func (f *fake) Acknowledge(_ context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error) {
	if err := f.record("Acknowledge", c); err != nil {
		return nil, err
	}
	f.reason, f.released = reason, entities
	return f.execution(c, id)
}

func (f *fake) Retry(_ context.Context, c workflow.Caller, id string, req views.RetryRequest) (*workflow.Execution, error) {
	if err := f.record("Retry", c); err != nil {
		return nil, err
	}
	f.retry = req
	return f.execution(c, id)
}

func (f *fake) Rerun(_ context.Context, c workflow.Caller, id string, req views.RerunRequest) (*workflow.Execution, bool, error) {
	if err := f.record("Rerun", c); err != nil {
		return nil, false, err
	}
	_, existed := f.keys[req.IdempotencyKey]
	if f.rerun = req; req.IdempotencyKey != "" {
		f.keys[req.IdempotencyKey] = id
	}
	x, err := f.execution(c, id)
	return x, existed, err
}

func (f *fake) Failures(_ context.Context, c workflow.Caller, filter views.FailureFilter, page workflow.Page) (workflow.List[views.FailedEntityView], error) {
	f.failures, f.page = filter, page
	item := views.FailedEntityView{Entity: "device/sw-1", Outcome: workflow.EntityFailedSafe, Execution: executionID, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}}
	if !f.minimal {
		item.EndedAt, item.Step, item.Code, item.Message, item.SucceededLater = ptr(at), ptr("upgrade"), ptr("REFUSED"), ptr("no"), ptr(executionID)
	}
	return workflow.List[views.FailedEntityView]{Items: []views.FailedEntityView{item}, NextToken: f.next}, f.record("Failures", c)
}

func (f *fake) EntityExecutions(_ context.Context, c workflow.Caller, _ workflow.EntityKey) ([]views.EntityExecutionView, error) {
	if f.minimal {
		return []views.EntityExecutionView{{ID: executionID}}, f.record("EntityExecutions", c)
	}
	return []views.EntityExecutionView{{
		ID: executionID, Workflow: &workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, State: ptr(statemachines.ExecutionCompletedAck),
		Status: ptr(statemachines.StatusCompleted), Outcome: ptr(workflow.OutcomePartial), EntityOutcome: ptr(workflow.EntityFailedSafe), CreatedAt: ptr(at), EndedAt: ptr(at),
	}}, f.record("EntityExecutions", c)
}

func (f *fake) Resume(_ context.Context, c workflow.Caller, id, reason string) (*workflow.Execution, error) {
	if err := f.record("Resume", c); err != nil {
		return nil, err
	}
	f.reason = reason
	return f.execution(c, id)
}

func (f *fake) ResumeStep(_ context.Context, c workflow.Caller, id, step, reason string) (*workflow.Execution, error) {
	if err := f.record("ResumeStep", c); err != nil {
		return nil, err
	}
	f.reason = step + " " + reason
	return f.execution(c, id)
}

func (f *fake) NextStep(_ context.Context, c workflow.Caller, id string, req views.NextRequest) (*workflow.Execution, error) {
	if err := f.record("NextStep", c); err != nil {
		return nil, err
	}
	f.enter = req
	return f.execution(c, id)
}

func (f *fake) Rewind(_ context.Context, c workflow.Caller, id string, req views.RewindRequest) (*workflow.Execution, error) {
	if err := f.record("Rewind", c); err != nil {
		return nil, err
	}
	f.rewind = req
	return f.execution(c, id)
}

func (f *fake) Answer(_ context.Context, c workflow.Caller, id string, req views.AnswerRequest) (*workflow.Execution, error) {
	if err := f.record("Answer", c); err != nil {
		return nil, err
	}
	f.answer = req
	return f.execution(c, id)
}

func (f *fake) Signal(_ context.Context, c workflow.Caller, id, name string, data json.RawMessage, idempotencyKey, reason string) (views.SignalReceipt, error) {
	if err := f.record("Signal", c); err != nil {
		return views.SignalReceipt{}, err
	}
	f.signal, f.signalName = views.SignalRequest{Data: data, Reason: reason, IdempotencyKey: idempotencyKey}, name
	_, err := f.execution(c, id)
	return views.SignalReceipt{ID: idempotencyKey}, err
}

func (f *fake) SignalKey(_ context.Context, c workflow.Caller, workflowName, key, name string, data json.RawMessage, idempotencyKey, reason string) (views.SignalReceipt, error) {
	if err := f.record("SignalKey", c); err != nil {
		return views.SignalReceipt{}, err
	}
	f.signal, f.signalName = views.SignalRequest{Data: data, Reason: reason, IdempotencyKey: idempotencyKey}, workflowName+" "+key+" "+name
	return views.SignalReceipt{ID: idempotencyKey, Execution: executionID}, nil
}

func (f *fake) SignalWithStart(_ context.Context, c workflow.Caller, req views.StartRequest) (*workflow.Execution, bool, bool, error) {
	if err := f.record("SignalWithStart", c); err != nil {
		return nil, false, false, err
	}
	f.start = req
	return f.executions[executionID], req.Key == "free", false, nil
}

func (f *fake) IssueToken(_ context.Context, c workflow.Caller, id string, req views.TokenRequest) (views.TokenView, error) {
	if err := f.record("IssueToken", c); err != nil {
		return views.TokenView{}, err
	}
	f.issue = req
	_, err := f.execution(c, id)
	made := views.TokenView{Token: "lst1.a.b", Execution: id, Step: "approve", Visit: 1, For: req.For, ExpiresAt: req.ExpiresAt}
	if link := "https://lockstep.example/answer#lst1.a.b"; !f.minimal {
		made.URL = &link
	}
	return made, err
}

func (f *fake) RevokeTokens(_ context.Context, c workflow.Caller, id string, req views.RevokeRequest) (*workflow.Execution, error) {
	if err := f.record("RevokeTokens", c); err != nil {
		return nil, err
	}
	f.revoke = req
	return f.execution(c, id)
}

func (f *fake) AnswerByToken(_ context.Context, token string, req views.TokenAnswer) (views.TokenReceipt, error) {
	if err := f.record("AnswerByToken", workflow.Caller{}); err != nil {
		return views.TokenReceipt{}, err
	}
	f.token, f.byToken = token, req
	return views.TokenReceipt{Execution: executionID, Step: "approve"}, nil
}

func (f *fake) QuestionOfToken(_ context.Context, token string) (views.QuestionView, error) {
	if err := f.record("QuestionOfToken", workflow.Caller{}); err != nil {
		return views.QuestionView{}, err
	}
	f.token = token
	return views.QuestionView{Step: "approve", For: "ann", Schema: rawJSON(`{"type":"object"}`), Show: rawJSON(`null`), Approval: true, Until: at}, nil
}

func (f *fake) Inputs(_ context.Context, c workflow.Caller, id string, mine bool) ([]views.InputView, error) {
	if id != executionID {
		return nil, workflow.Errorf(workflow.CodeNotFound, "no execution %q", id)
	}
	if mine && !f.inputs {
		return nil, f.record("Inputs", c)
	}
	return []views.InputView{inputView}, f.record("Inputs", c)
}

func (f *fake) Tokens(_ context.Context, c workflow.Caller, id string) ([]views.TokenStateView, error) {
	if id != executionID {
		return nil, workflow.Errorf(workflow.CodeNotFound, "no execution %q", id)
	}
	return []views.TokenStateView{tokenStateView}, f.record("Tokens", c)
}

var tokenStateView = views.TokenStateView{Step: "approve", Visit: 1, By: "bob", For: "ann", At: at, State: workflow.TokenExpired}

func (f *fake) Inbox(_ context.Context, c workflow.Caller, mine bool, page workflow.Page) (workflow.List[views.InputView], error) {
	list := workflow.List[views.InputView]{Items: []views.InputView{inputView}, NextToken: "next"}
	if mine {
		list.Items = nil
	}
	return list, f.record("Inbox", c)
}

var inputView = views.InputView{
	Execution: executionID, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, Step: "approve", Visit: 1, Title: ptr("ok?"),
	Schema: []byte(`{"type":"object"}`), Show: []byte(`{"n":1}`), Who: views.WhoView{Actors: []string{"ann"}, Roles: []string{}}, Need: 2,
	Tokens:  []views.TokenInfo{{By: "bob", For: "ann", At: at, State: workflow.TokenActive}},
	Answers: []views.AnswerView{{By: "ann", At: at}}, Since: at, Until: at,
}

func (f *fake) Unlock(_ context.Context, c workflow.Caller, id, reason string, entities ...workflow.EntityKey) (*workflow.Execution, error) {
	if err := f.record("Unlock", c); err != nil {
		return nil, err
	}
	f.reason, f.released = reason, entities
	return f.execution(c, id)
}

func (f *fake) Execution(_ context.Context, c workflow.Caller, id string) (views.ExecutionView, error) {
	if err := f.record("Execution", c); err != nil {
		return views.ExecutionView{}, err
	}
	x, err := f.execution(c, id)
	if err != nil {
		return views.ExecutionView{}, err
	}
	return f.view(x), nil
}

func (f *fake) view(x *workflow.Execution) views.ExecutionView {
	v := views.ExecutionView{ID: x.ID, Workflow: x.Workflow, State: x.State, Status: x.Status(), Tenant: x.Tenant, CreatedBy: "local", CreatedAt: x.CreatedAt, UpdatedAt: x.CreatedAt}
	if !f.minimal {
		v.Cause, v.Reason = ptr(workflow.CauseStepFailed), "it failed"
		v.Parameters = json.RawMessage(`{"target":"2"}`)
		v.Metadata = json.RawMessage(`{"ticket":"CHG-7"}`)
		v.Output = json.RawMessage(`{"total":3}`)
		v.StartedAt, v.EndedAt, v.CurrentStep = ptr(at), ptr(at), ptr("upgrade")
		v.Progress.AsOf = ptr(at.Add(f.later))
		v.Progress.Jobs.Pending = ptr(0)
		v.Waiting = &views.Waiting{Kind: workflow.WaitLock, Since: at, Until: ptr(at), Step: ptr("s"), Condition: ptr("c"), Child: ptr("x"), Pool: ptr("p"), Blockers: []views.WaitingFor{{Entity: ptr("device/sw-1"), HeldBy: ptr("x"), Since: ptr(at)}}}
		v.Error = views.NewFailureView(&workflow.Failure{Code: "BOOM", Message: "it broke", Step: "upgrade", Details: json.RawMessage(`{"a":1}`)})
		v.Cancellation = &workflow.Cancellation{Source: "user", Reason: "r", By: "local", At: at}
		v.FailedRollback = &views.FailedRollback{Step: "upgrade", Entities: []string{}}
		v.Parent, v.Children, v.Blocks = ptr("p"), []string{"c"}, map[string]string{"fleet/upgrade:1": "1.2.3"}
	} else {
		v.Waiting = &views.Waiting{Kind: workflow.WaitAcknowledge, Since: at}
	}
	return v
}

func (f *fake) Executions(_ context.Context, c workflow.Caller, filter views.ExecutionFilter, page workflow.Page) (workflow.List[views.ExecutionView], error) {
	f.page, f.filter = page, filter
	if err := f.record("Executions", c); err != nil {
		return workflow.List[views.ExecutionView]{}, err
	}
	out := workflow.List[views.ExecutionView]{NextToken: f.next, Skipped: f.skipped}
	for _, x := range f.executions {
		if c.Tenant == f.tenant && (filter.State == "" || filter.State == x.State) {
			out.Items = append(out.Items, f.view(x))
		}
	}
	slices.SortFunc(out.Items, func(a, b views.ExecutionView) int { return strings.Compare(b.ID, a.ID) })
	return out, nil
}

func (f *fake) History(_ context.Context, c workflow.Caller, _ string, after int64, page workflow.Page) (workflow.List[workflow.Event], error) {
	f.page, f.after = page, after
	return workflow.List[workflow.Event]{Items: []workflow.Event{
		{Sequence: 1, At: at, Layer: "execution", Type: "execution.created", To: "NEW", Actor: "local"},
		{Sequence: 2, At: at, Layer: "step", Type: "step.entered", Step: "upgrade", Data: json.RawMessage(`{"visit":1}`)},
	}, NextToken: f.next}, f.record("History", c)
}

func (f *fake) Jobs(_ context.Context, c workflow.Caller, id string, filter views.JobFilter, page workflow.Page) (workflow.List[workflow.Job], error) {
	f.page, f.jobs = page, filter
	return workflow.List[workflow.Job]{Items: []workflow.Job{
		{ID: workflow.JobID(id, 1, 0, 1), Kind: workflow.JobExecute, Step: "report", StepRunOrdinal: 1, State: statemachines.JobPending, Attempt: 1, CreatedAt: at, Logs: []workflow.LogLine{}},
		{
			ID: workflow.JobID(id, 2, 0, 1), Kind: workflow.JobRollback, Step: "upgrade", StepRunOrdinal: 1, Wave: ptr(1), Entity: &workflow.EntityKey{Type: "device", ID: "sw-1"},
			State: statemachines.JobFailed, Attempt: 2, Token: ptr(int64(17)), CreatedAt: at, StartedAt: ptr(at.Add(-1500 * time.Millisecond)), EndedAt: ptr(at), Outcome: ptr(statemachines.OutcomeError),
			Error: &workflow.Failure{Code: "HTTP_500", Message: "no", Retryable: true}, Parameters: json.RawMessage(`{"to":"2.0.0"}`), Result: json.RawMessage(`[1]`),
			Progress: &workflow.JobProgress{Percent: 12.5, Message: "port 3", At: at}, Checkpoints: workflow.Checkpoints{"port": json.RawMessage(`3`)},
			Logs: []workflow.LogLine{{At: at, Level: workflow.LogWarn, Text: "port 2 is down"}}, LogsDropped: 3,
		},
	}, NextToken: f.next}, f.record("Jobs", c)
}

func (f *fake) Children(_ context.Context, c workflow.Caller, _, step string, page workflow.Page) (workflow.List[views.ChildExecutionView], error) {
	f.page = page
	ref := workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}
	return workflow.List[views.ChildExecutionView]{Items: []views.ChildExecutionView{
		{
			ID: "c", Step: step, Sequence: 2, Try: 1, Workflow: ref, Mode: workflow.ModeDispatch, State: ptr(statemachines.ExecutionWaiting), Status: ptr(statemachines.StatusRunning),
			Waiting: &views.Waiting{Kind: workflow.WaitInput, Since: at, Step: ptr("ask"), Reason: ptr("How many?"), Blockers: []views.WaitingFor{}}, Output: json.RawMessage("null"),
			Item: ptr(3), ItemText: ptr("lab"), Started: ptr(0), Parameters: json.RawMessage(`{"site":"lab"}`),
		},
		{ID: "d", Step: step, Sequence: 3, Try: 2, Superseded: true, Workflow: ref, Mode: workflow.ModeFireAndForget, Output: json.RawMessage(`{"n":1}`), Parameters: json.RawMessage("null")},
	}, NextToken: f.next}, f.record("Children", c)
}

func (f *fake) Steps(_ context.Context, c workflow.Caller, _ string, page workflow.Page) (workflow.List[views.StepView], error) {
	f.page = page
	return workflow.List[views.StepView]{Items: []views.StepView{
		{Sequence: 1, Step: "upgrade", Try: 1, Ordinal: 1, Kind: ptr(workflow.JobExecute), Status: statemachines.StepRunning, EnteredAt: at, Jobs: views.JobCounts{Total: 2, Running: ptr(1)}, Value: json.RawMessage("null"), CaseErrors: []views.CaseError{}},
		{
			Sequence: 2, Step: "site.visit", Try: 2, Ordinal: 3, Iteration: ptr(2), Pipeline: ptr(2), Superseded: true, Status: statemachines.StepCompleted, EnteredAt: at, EndedAt: ptr(at),
			Value: json.RawMessage(`{"order.total":11}`), Route: &views.StepCase{Number: 2}, Handled: &views.HandledCase{Step: "site", Number: 1, When: ptr(`error.code == "A"`)}, Next: ptr("end"),
			CaseErrors: []views.CaseError{{Step: "site", Number: 1, When: ptr("vars.x > 1"), Message: ptr("no such key: x")}, {Step: "site.visit", Number: 2, When: ptr("vars.x > 2")}},
			Kept:       &views.KeptBranches{Of: 1, Branches: []string{"left"}},
			Within:     ptr(1), Branch: ptr("left"), Index: ptr(0), Item: ptr("zrh"),
			Wait:  &views.StepWait{Kind: workflow.WaitInput, Since: at, Until: at, Reason: ptr("Go on?"), Need: 1, Answers: []views.AnswerView{{By: "bob", At: at, Via: ptr(workflow.AnswerByToken)}}},
			Child: &views.ChildView{ID: "c", Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, Mode: workflow.ModeDispatch, State: ptr(statemachines.ExecutionRunning)},
		},
	}, NextToken: f.next}, f.record("Steps", c)
}

func (f *fake) Result(_ context.Context, c workflow.Caller, id string) (views.ResultView, error) {
	v := views.ResultView{ExecutionID: id, State: statemachines.ExecutionRunning, Status: statemachines.StatusRunning, Output: json.RawMessage(`{"n":2}`)}
	if !f.minimal {
		v.Steps = map[string]views.StepResult{
			"report":  {Status: statemachines.StepCompleted, Ordinal: 1, RunOn: "global", Result: json.RawMessage(`{"n":1}`)},
			"upgrade": {Status: statemachines.StepCompleted, Ordinal: 1, RunOn: "device", Results: map[string]json.RawMessage{"sw-1": json.RawMessage(`true`)}},
		}
	}
	return v, f.record("Result", c)
}

func (f *fake) Cost(_ context.Context, c workflow.Caller, id string) (views.CostView, error) {
	v := views.CostView{ExecutionID: id, PricesAsOf: "2026-11-01"}
	if !f.minimal {
		v.WriteUnits, v.Lines = map[string]float64{"jobs": 1.5}, []views.CostLine{{Item: "writes", Quantity: 1.5, Unit: "unit", Dollars: 0.000001}}
	}
	return v, f.record("Cost", c)
}

func (f *fake) PinnedDefinition(_ context.Context, c workflow.Caller, id string) (views.PinnedDefinition, error) {
	x, err := f.execution(c, id)
	if err != nil {
		return views.PinnedDefinition{}, err
	}
	d := views.PinnedDefinition{Workflow: x.Workflow, Digest: "d", PublishedAt: at, Definition: json.RawMessage(`{"package":"fleet"}`)}
	if !f.minimal {
		d.Workflows, d.Blocks = map[string]string{"fleet/inner:1": "1.0.0"}, map[string]string{"fleet/upgrade:1": "1.2.3"}
	}
	return d, f.record("PinnedDefinition", c)
}

func (f *fake) Next(_ context.Context, c workflow.Caller, _ string, _ workflow.Page) (views.NextView, error) {
	v := views.NextView{}
	if !f.minimal {
		label, token := "upgrade", "a"
		v = views.NextView{Step: &label, Jobs: 1, Items: []views.NextJob{{Parameters: json.RawMessage(`{"target":"2.0.0"}`)}}, NextPageToken: &token}
	}
	return v, f.record("Next", c)
}

func (f *fake) Plan(_ context.Context, c workflow.Caller, req views.StartRequest) (views.PlanView, error) {
	v := views.PlanView{Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, LockMode: "exclusive", OnLocked: "wait", Blocks: map[string]string{"fleet/upgrade:1": "fleet/upgrade:1.2.3"}, Warnings: []string{"2 of its entities are locked by other executions: it waits for them"}}
	if !f.minimal {
		onFailure := views.FailureRolledBack
		v.Problem = &views.FailureView{Code: "QUERY", Message: req.Workflow}
		v.StartWhen = &views.PlannedCondition{Condition: "true", True: true}
		v.Entities = views.PlannedEntities{Total: 1, ByType: map[string]int{"device": 1}, Named: []string{"device/sw-1"}, Examined: 1, More: []views.PlannedMore{{Block: "fleet/find:1"}}}
		v.Locked = views.PlannedLocks{Count: 1, Named: []views.PlannedLock{{Entity: "device/sw-1", NeedsPerson: true}}}
		v.Steps = []views.PlannedStep{{Label: "upgrade", Effect: views.EffectReversible, Jobs: 1, Messages: 1, Unknown: []string{"condition"}, Reached: views.ReachedByChoice, DecidedBy: ptr("route"), Route: &views.StepCase{Number: 1, When: ptr("true")}, Next: ptr("end"), OnFailure: &onFailure, IfFails: "rolled back"}}
		v.Cost.Lines = []views.CostLine{{Item: "writes", Quantity: 1.5, Unit: "unit", Dollars: 0.000001}}
	}
	return v, f.record("Plan", c)
}

// Status answers with terminal events of the execution layer only.
func (f *fake) Status(_ context.Context, c workflow.Caller, id string) (views.StatusView, error) {
	if err := f.record("Status", c); err != nil {
		return views.StatusView{}, err
	}
	x, err := f.execution(c, id)
	if err != nil {
		return views.StatusView{}, err
	}
	v := views.StatusView{ExecutionID: id, State: x.Status(), CurrentStep: ptr("upgrade"), StartedAt: ptr(at)}
	if e := statemachines.TerminalEvent(x.State); e != "" {
		v.TerminalEvent, v.EndedAt, v.CurrentStep = ptr(string(e)), ptr(at), nil
	}
	return v, nil
}

func (f *fake) Locks(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.LockView], error) {
	f.page = page
	l, err := f.Lock(context.Background(), c, workflow.EntityKey{Type: "device", ID: "sw-1"})
	return workflow.List[views.LockView]{Items: []views.LockView{l}, NextToken: f.next}, err
}

func (f *fake) Lock(_ context.Context, c workflow.Caller, key workflow.EntityKey) (views.LockView, error) {
	v := views.LockView{Entity: key, Token: 3, Mode: "exclusive"}
	if !f.minimal {
		v.HeldBy, v.SharedWith, v.Since, v.Waiting = ptr(executionID), []string{"reader"}, ptr(at), []views.Waiter{{Execution: "other", Since: ptr(at)}}
	}
	return v, f.record("Lock", c)
}

func (f *fake) worker(id string) views.WorkerView {
	v := views.WorkerView{ID: id, State: statemachines.WorkerRegistered, Pool: "edge", RegisteredAt: at}
	if !f.minimal {
		v.State, v.Version, v.LastHeartbeat = statemachines.WorkerOnline, ptr("2"), ptr(at)
		v.Blocks, v.Packs = []string{"fleet/upgrade:1"}, []string{executionID + "/1.1/0.0.1"}
	}
	return v
}

func (f *fake) RegisterWorker(_ context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error) {
	return f.worker(r.ID), f.record("RegisterWorker", c)
}

func (f *fake) HeartbeatWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("HeartbeatWorker "+id, c)
}

func (f *fake) DrainWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("DrainWorker "+id, c)
}

func (f *fake) UnregisterWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("UnregisterWorker "+id, c)
}

func (f *fake) Worker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("Worker "+id, c)
}

func (f *fake) Workers(_ context.Context, c workflow.Caller, block *workflow.Ref, page workflow.Page) (workflow.List[views.WorkerView], error) {
	f.page = page
	name := "Workers"
	if block != nil {
		name += " " + block.String()
	}
	return workflow.List[views.WorkerView]{Items: []views.WorkerView{f.worker("w1")}, NextToken: f.next}, f.record(name, c)
}

func (f *fake) Poll(_ context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error) {
	if err := f.record("Poll "+r.Worker, c); err != nil || r.Worker == "idle" {
		return nil, err
	}
	job := json.RawMessage(`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"j","execution":"x","step":"s","attempt":1},
		"entity":null,"parameters":{},"result":null,"token":null,"fence":"0","deadline":"2026-11-21T05:00:00Z"}`)
	return &views.PackOffer{Pack: "p", Token: 1, Lease: at, Jobs: []json.RawMessage{job}}, nil
}

func (f *fake) lease() views.PackLease {
	if f.minimal {
		return views.PackLease{}
	}
	return views.PackLease{Lease: ptr(at), Cancel: true}
}

func (f *fake) Extend(_ context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	f.results = r
	return f.lease(), f.record("Extend", c)
}

func (f *fake) Finish(_ context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	f.results = r
	return f.lease(), f.record("Finish", c)
}

func (f *fake) Pools(_ context.Context, c workflow.Caller) ([]views.PoolView, error) {
	v := views.PoolView{Pool: "edge"}
	if !f.minimal {
		v.Waiting, v.Claimed, v.Delayed = ptr(3), ptr(2), ptr(1)
		v.Claims = []views.ClaimView{{Pack: executionID + "/1.1/0.0.1", Execution: executionID, Worker: "w1"}}
		v.Unclaimed = &views.UnclaimedJobs{Jobs: 3, Executions: 1, Since: at}
	}
	return []views.PoolView{v}, f.record("Pools", c)
}

func (f *fake) DeadLetters(_ context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error) {
	one := views.DeadLetterQueue{Queue: "jobs-edge"}
	if !f.minimal {
		one.Messages, one.Complete = 1, true
		one.DeadLetters = []views.DeadLetter{{MessageID: "m", Execution: executionID, Step: ptr("upgrade"), Jobs: []string{"j"}, Reason: ptr("unavailable: no"), ReceiveCount: 21, SentAt: at}}
	} else {
		one.DeadLetters = []views.DeadLetter{{MessageID: "m", Execution: executionID, SentAt: at}}
	}
	return []views.DeadLetterQueue{one, {Queue: "lifecycle"}}, f.record(fmt.Sprintf("DeadLetters %q %d", queue, limit), c)
}

func (f *fake) Redrive(_ context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error) {
	v := views.RedriveView{}
	if !f.minimal {
		v = views.RedriveView{Moved: 1, Remaining: 2, Complete: true, Queues: []views.RedrivenQueue{{Queue: r.Queue, Moved: 1, Remaining: 2, Complete: true}}}
	}
	return v, f.record(fmt.Sprintf("Redrive %q %d", r.Queue, r.Limit), c)
}

func (f *fake) Secrets(_ context.Context, c workflow.Caller) (views.SecretsView, error) {
	v := views.SecretsView{Items: []views.SecretView{}}
	if !f.minimal {
		v.Complete = true
		v.Items = []views.SecretView{{Name: "bank/key", Resolves: true, UsedBy: []string{"workflow fleet/upgrade:1.0.0"}}, {Name: "lost", Problem: ptr("gone"), UsedBy: []string{"block fleet/b:1.0.0"}}}
	}
	return v, f.record("Secrets", c)
}

func (f *fake) NextSweep(_ context.Context, c workflow.Caller) (views.SweepView, error) {
	v := views.SweepView{AsOf: at}
	if !f.minimal {
		v.Complete = true
		v.Executions = []views.DueExecution{{Execution: executionID, State: statemachines.ExecutionRunning, Since: at}}
		v.Workers = []views.DueWorker{{Worker: "w", State: statemachines.WorkerOnline, NextState: statemachines.WorkerUnreachable, Since: at}}
		v.Schedules = []views.DueSchedule{{Schedule: "fleet/night", FireTime: at, ExecutionID: ptr(executionID)}, {Schedule: "fleet/day", FireTime: at, Skipped: true}}
	}
	return v, f.record("NextSweep", c)
}

func aTable(name string) workflow.Table {
	return workflow.Table{Name: name, Columns: []workflow.Column{{Name: "txn", Type: workflow.ColumnString, Required: true}}, Retention: workflow.Duration(time.Hour), CreatedAt: at, CreatedBy: "ann", Revision: 1}
}

func aRow() workflow.Row {
	return workflow.Row{ID: executionID + ".000001.000000.00", At: at, Execution: executionID, Workflow: "fleet/upgrade:1.0.0", Step: "charge", Values: json.RawMessage(`{"txn":"t1"}`)}
}

func (f *fake) Tables(_ context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Table], error) {
	f.page = page
	return workflow.List[workflow.Table]{Items: []workflow.Table{aTable("payments")}, NextToken: f.next}, f.record("Tables", c)
}

func (f *fake) Table(_ context.Context, c workflow.Caller, name string) (workflow.Table, error) {
	return aTable(name), f.record("Table", c)
}

func (f *fake) PutTable(_ context.Context, c workflow.Caller, name string, req views.TableRequest) (workflow.Table, error) {
	f.subscription = fmt.Sprint("put table ", name, req.Columns, req.Retention.Std())
	return aTable(name), f.record("PutTable", c)
}

func (f *fake) TableDeliveries(ctx context.Context, c workflow.Caller, name string) (workflow.List[workflow.DeliveryAttempt], error) {
	list, _ := f.Deliveries(ctx, c, "of table "+name)
	return list, f.record("TableDeliveries", c)
}

func (f *fake) RetryRows(_ context.Context, c workflow.Caller, table string) (views.RowsRetry, error) {
	f.subscription = "retry rows of " + table
	return views.RowsRetry{Retried: 2, Lost: 1}, f.record("RetryRows", c)
}

func (f *fake) Rows(_ context.Context, c workflow.Caller, table, where string, page workflow.Page) (workflow.List[workflow.Row], error) {
	f.subscription, f.page = strings.TrimSuffix("rows of "+table+" where "+where+" after "+page.After, " after "), page
	return workflow.List[workflow.Row]{Items: []workflow.Row{aRow()}, NextToken: f.next}, f.record("Rows", c)
}
