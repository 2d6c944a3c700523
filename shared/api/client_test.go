package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/client"
	format "github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

type rawJSON = json.RawMessage

// What a service answers comes out of the client unchanged, and what the client sends
// reaches the service unchanged.
func TestClient_AgreesWithRoutes(t *testing.T) {
	f := newFake()
	server := httptest.NewServer(newHandler(f))
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, Tenant: "default", Actor: "ann", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	local := workflow.Caller{Tenant: "default", Actor: "ann"}
	check := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}

	execution, err := c.Execution(ctx, executionID)
	want := f.view(f.executions[executionID])
	want.Labels, want.Entities, want.ChildSets, want.Unacknowledged = map[string]string{}, map[string]int{}, []views.ChildSetView{}, []views.UnacknowledgedChild{}
	want.Dropped.Blockers = []views.WaitingFor{}
	want.EntityOutcomes, want.FailedEntities, want.FailedSteps, want.RerunBy = map[workflow.EntityOutcome]int{}, []workflow.EntityFailure{}, []views.FailedStep{}, []string{}
	check("execution", execution, want, err)
	status, err := c.Status(ctx, executionID)
	wantStatus, _ := f.Status(ctx, local, executionID)
	check("status", status, wantStatus, err)
	result, err := c.Result(ctx, executionID)
	wantResult, _ := f.Result(ctx, local, executionID)
	for label, s := range wantResult.Steps {
		if s.Results == nil {
			s.Results = map[string]rawJSON{}
		} else {
			s.Result = rawJSON("null")
		}
		wantResult.Steps[label] = s
	}
	check("result", result, wantResult, err)
	cost, err := c.Cost(ctx, executionID)
	wantCost, _ := f.Cost(ctx, local, executionID)
	wantCost.ReadUnits = map[string]float64{}
	check("cost", cost, wantCost, err)
	pinned, err := c.PinnedDefinition(ctx, executionID)
	wantPinned, _ := f.PinnedDefinition(ctx, local, executionID)
	check("pinned definition", pinned, wantPinned, err)
	lock, err := c.Lock(ctx, workflow.EntityKey{Type: "device", ID: "sw-1"})
	wantLock, _ := f.Lock(ctx, local, workflow.EntityKey{Type: "device", ID: "sw-1"})
	check("lock", lock, wantLock, err)

	events := collect(t, c.History(ctx, executionID))
	wantEvents, _ := f.History(ctx, local, executionID, 0, workflow.Page{})
	wantEvents.Items[0].Data = rawJSON("null")
	check("history", events, wantEvents.Items, nil)
	if f.after != 0 {
		t.Errorf("the whole history is that after %d", f.after)
	}
	if collect(t, c.HistoryAfter(ctx, executionID, 12)); f.after != 12 {
		t.Errorf("the history after 12 is that after %d", f.after)
	}
	jobs := collect(t, c.Jobs(ctx, executionID, views.JobFilter{Entity: workflow.EntityKey{Type: "device", ID: "sw-1"}, LastAttempts: true, FinallyFailed: true}))
	wantJobs, _ := f.Jobs(ctx, local, executionID, f.jobs, workflow.Page{})
	wantJobs.Items[0].Parameters, wantJobs.Items[0].Result, wantJobs.Items[1].Error.Details = rawJSON("null"), rawJSON("null"), rawJSON("null")
	check("jobs", jobs, wantJobs.Items, nil)
	check("job filter", f.jobs, views.JobFilter{Entity: workflow.EntityKey{Type: "device", ID: "sw-1"}, LastAttempts: true, FinallyFailed: true}, nil)
	wantSteps, _ := f.Steps(ctx, local, executionID, workflow.Page{})
	check("steps", collect(t, c.Steps(ctx, executionID)), wantSteps.Items, nil)
	wantChildren, _ := f.Children(ctx, local, executionID, "go", workflow.Page{})
	check("children", collect(t, c.Children(ctx, executionID, "go")), wantChildren.Items, nil)
	check("schedules", len(collect(t, c.Schedules(ctx))), 1, nil)
	oneSchedule, err := c.Schedule(ctx, "fleet", "upgrade")
	wantSchedule, _ := f.Schedule(ctx, local, "fleet/upgrade")
	check("schedule", oneSchedule, wantSchedule, err)
	for want, change := range map[string]func(context.Context, string, string, string) (views.ScheduleView, error){
		"pause fleet/upgrade r": c.PauseSchedule, "resume fleet/upgrade r": c.ResumeSchedule, "remove fleet/upgrade r": c.RemoveSchedule,
	} {
		changed, err := change(ctx, "fleet", "upgrade", "r")
		check(want, f.schedule, want, err)
		check(want, changed.Paused != nil, strings.HasPrefix(want, "pause"), nil)
	}
	fired, existed, err := c.FireSchedule(ctx, "fleet", "upgrade", "k")
	check("fire", fmt.Sprint(fired.ID, " ", existed, " ", f.schedule), executionID+" false fire fleet/upgrade k", err)
	triggerView := views.NewTriggerView("default", aTrigger("push"))
	check("triggers", collect(t, c.Triggers(ctx)), []views.TriggerView{triggerView}, nil)
	oneTrigger, err := c.Trigger(ctx, "push")
	check("trigger", oneTrigger, triggerView, err)
	counts, err := c.TriggerStats(ctx, "push")
	check("counts of calls", counts, views.TriggerStats{
		Name: "push", Since: ptr(at), LastCallAt: ptr(at), Calls: 2, Accepted: 1, Refused: 1, Fired: 1, Statuses: map[string]int{"202": 1, "400": 1}, Codes: map[workflow.Code]int{"invalid": 1},
	}, err)
	calls, err := c.TriggerCalls(ctx, "push")
	check("calls of a trigger", fmt.Sprint(f.trigger, len(calls), calls[1].Issues[0].Path), "calls push2body.ref", err)
	_, err = c.PauseTrigger(ctx, "push", "r")
	check("pause trigger", f.trigger, "pause push r", err)
	on, err := c.ResumeTrigger(ctx, "push", "r")
	check("resume trigger", fmt.Sprint(f.trigger, on.Paused == nil), "resume pushtrue", err)
	triggered, err := c.FireTrigger(ctx, "push", views.FireRequest{Body: json.RawMessage(`{"a":1}`), IdempotencyKey: "k"})
	check("fire trigger", f.trigger+" "+triggered.ID, `fire push k {"a":1} `+executionID, err)
	form, err := c.Form(ctx, "acme", "contact")
	check("form", fmt.Sprint(f.trigger, form.Address, form.Captcha.SiteKey), "form acme contact/hooks/acme/contactk", err)
	taken, err := c.SendEvent(ctx, views.Event{ID: "e1", Source: "shop", DetailType: "placed", Detail: json.RawMessage(`{"a":1}`)})
	check("send event", fmt.Sprint(f.trigger, taken.Triggers[0].Duplicate, taken.Triggers[1].Code), `event {"id":"e1","source":"shop","detail-type":"placed","detail":{"a":1}}trueinvalid`, err)
	table := views.NewTableView(aTable("payments"))
	check("tables", collect(t, c.Tables(ctx)), []views.TableView{table}, nil)
	oneTable, err := c.Table(ctx, "payments")
	check("table", oneTable, table, err)
	_, err = c.PutTable(ctx, "payments", views.TableRequest{Columns: []workflow.Column{{Name: "txn", Type: workflow.ColumnString}}, Retention: workflow.Duration(time.Hour)})
	check("put table", f.subscription, "put table payments[{txn string false false}] 1h0m0s", err)
	check("rows", collect(t, c.Rows(ctx, "payments", "txn == 't1'", "r0")), []views.RowView{views.NewRowView(aRow())}, nil)
	check("condition of rows", f.subscription, "rows of payments where txn == 't1' after r0", nil)
	failed, err := c.TableDeliveries(ctx, "payments")
	check("deliveries of a table", fmt.Sprint(f.subscription, len(failed)), "deliveries of table payments1", err)
	retriedRows, err := c.RetryRows(ctx, "payments", "r")
	check("retry rows", fmt.Sprint(f.subscription, retriedRows), "retry rows of payments{2 1}", err)
	view := views.NewSubscriptionView(aSubscription("failures"))
	check("subscriptions", collect(t, c.Subscriptions(ctx)), []views.SubscriptionView{view}, nil)
	oneSubscription, err := c.Subscription(ctx, "failures")
	check("subscription", oneSubscription, view, err)
	attempt, err := c.TestSubscription(ctx, "failures", "r")
	check("test subscription", fmt.Sprint(f.subscription, attempt.Status, attempt.Test), "test failures503 true", err)
	summary, err := c.MetricsSummary(ctx, "fleet/upgrade:1", 30)
	wantSummary, _ := f.MetricsSummary(ctx, workflow.Caller{}, "", 0)
	if diff := cmp.Diff(wantSummary, summary); err != nil || diff != "" {
		t.Errorf("metrics: %v %s", err, diff)
	}
	deliveries, err := c.Deliveries(ctx, "failures")
	check("deliveries", fmt.Sprint(f.subscription, len(deliveries), deliveries[0].Attempts), "deliveries failures1 2", err)
	put, err := c.PutSubscription(ctx, "failures", views.SubscriptionRequest{URL: "https://hooks.example", Events: []string{"execution.*"}})
	check("put subscription", f.subscription+" "+*put.Secret, "failures https://hooks.example execution.* s3cr3t", err)
	_, err = c.RemoveSubscription(ctx, "failures")
	check("remove subscription", f.subscription, "remove failures", err)
	resumed, err := c.ResumeSubscription(ctx, "failures", "r")
	check("resume subscription", fmt.Sprint(f.subscription, resumed.Suspended == nil, resumed.Secret == nil), "resume failurestrue true", err)
	check("blocks", len(collect(t, c.Blocks(ctx))), 1, nil)
	check("definitions", len(collect(t, c.Definitions(ctx))), 1, nil)
	check("labelled definitions", len(collect(t, c.LabelledDefinitions(ctx, map[string]string{"team": "a=b:c"}))), 1, nil)
	check("labels", f.labels, map[string]string{"team": "a=b:c"}, nil)
	check("versions", len(collect(t, c.Versions(ctx, "fleet", "upgrade"))), 1, nil)
	check("locks", len(collect(t, c.Locks(ctx))), 1, nil)
	check("entity types", len(collect(t, c.EntityTypes(ctx))), 1, nil)
	failureFilter := views.FailureFilter{Since: at, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade"}, Groups: []string{"core", "edge"}}
	wantFailures, _ := f.Failures(ctx, local, views.FailureFilter{}, workflow.Page{})
	check("failures", collect(t, c.Failures(ctx, failureFilter)), wantFailures.Items, nil)
	check("failure filter", f.failures, failureFilter, nil)
	touched, _ := f.EntityExecutions(ctx, local, workflow.EntityKey{})
	check("executions of an entity", collect(t, c.EntityExecutions(ctx, workflow.EntityKey{Type: "device", ID: "sw-1"})), touched, nil)
	check("entities", len(collect(t, c.Entities(ctx, workflow.Selector{Type: "device", Groups: []string{"core"}}))), 1, nil)
	check("active", len(collect(t, c.Executions(ctx, views.ExecutionFilter{Active: true}))), 1, nil)
	check("filtered", len(collect(t, c.Executions(ctx, views.ExecutionFilter{Labels: map[string]string{"a": "b"}, CreatedAfter: at}))), 1, nil)
	bulkFilter := views.ExecutionFilter{State: statemachines.ExecutionRunning, Waiting: workflow.WaitSignal, Labels: map[string]string{"a": "b"}}
	changed := collect(t, c.ChangeExecutions(ctx, bulkFilter, views.BulkRequest{Verb: views.BulkAcknowledge, Reason: "r"}))
	check("bulk", fmt.Sprint(len(changed), " ", changed[0].ID, " ", f.reason), "1 "+collect(t, c.Executions(ctx, bulkFilter))[0].ID+" r", nil)
	check("bulk filter", f.filter, bulkFilter, nil)
	check("bulk tells what can be rolled back", changed[0].CanRollback, true, nil)
	retried := collect(t, c.ChangeExecutions(ctx, bulkFilter, views.BulkRequest{Verb: views.BulkRetry, Reason: "r", Rollback: true}))
	check("bulk rollback", fmt.Sprint(retried[0].Applied, " ", f.retry), fmt.Sprint(true, " ", views.RetryRequest{Reason: "r", Rollback: true}), nil)
	for _, err := range c.ChangeExecutions(ctx, bulkFilter, views.BulkRequest{Verb: views.BulkUnlock, Rollback: true}) {
		var refused *workflow.Error
		check("bulk rollback of another verb", errors.As(err, &refused) && len(refused.Issues) == 1 && refused.Issues[0].Path == "rollback", true, nil)
	}
	batch, err := c.StartBatch(ctx, views.BatchRequest{Items: []views.StartRequest{{Workflow: "fleet/upgrade"}}, IdempotencyKey: "k"})
	check("batch", len(batch) == 1 && *batch[0].ID == executionID && f.start.IdempotencyKey == "k#0", true, err)
	batch, err = c.StartBatch(ctx, views.BatchRequest{Items: []views.StartRequest{{Workflow: "fleet/upgrade", Key: "a", Signal: &views.StartSignal{Name: "go"}}}})
	check("batch with a signal", len(batch) == 1 && batch[0].Signalled != nil && f.start.Signal != nil && f.start.Signal.Name == "go", true, err)
	_ = collect(t, c.Executions(ctx, views.ExecutionFilter{Labels: map[string]string{"a": "b"}, Waiting: workflow.WaitInput, CreatedAfter: at, Order: workflow.OrderOldest}))
	check("filter", f.filter, views.ExecutionFilter{Labels: map[string]string{"a": "b"}, Waiting: workflow.WaitInput, CreatedAfter: at, Order: workflow.OrderOldest}, nil)

	_, created, err := c.Publish(ctx, []byte("x: y"), false)
	check("publish", created, true, err)
	_, created, err = c.Publish(ctx, []byte("x: y"), false)
	check("publish again", created, false, err)
	draft, created, err := c.PublishDraft(ctx, []byte("x: z"), false)
	check("draft", created && draft.Draft, true, err)
	d, err := c.Definition(ctx, workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1"})
	check("definition", d.Version, "1.0.0", err)
	b := workflow.Block{Package: "a", Name: "b", Version: "1.0.0", Timeout: 5e9, Pure: true, HTTP: &workflow.Endpoint{URL: "http://127.0.0.1/x", Timeout: 1e9}}
	created, err = c.RegisterBlock(ctx, b)
	check("register", created, true, err)
	check("block", f.block, b, nil)
	e, err := c.PutEntity(ctx, workflow.Entity{Type: "device", ID: "a:b@c", Groups: []string{"core"}})
	check("put", e, workflow.Entity{Type: "device", ID: "a:b@c", Attributes: rawJSON("{}"), Groups: []string{"core"}, Version: 3}, err)
	n, err := c.ImportEntities(ctx, strings.NewReader("{}\n{}\n"))
	check("import", n, 2, err)
	check("merges", f.replaced, false, nil)
	n, err = c.Import(ctx, strings.NewReader("{}\n"), client.ImportOptions{Replace: true})
	check("replace", []any{n, f.replaced}, []any{1, true}, err)
	three := int64(3)
	filter := workflow.AuditFilter{Actor: "ann", Verb: "v", Execution: executionID, After: at, Before: at}
	wantAudit, _ := f.AuditEntries(ctx, local, filter, workflow.Page{})
	check("audit", collect(t, c.Audit(ctx, filter)), wantAudit.Items, nil)
	check("audit filter", f.auditFilter, filter, nil)
	patch := views.EntityPatch{Set: map[string]json.RawMessage{"a": rawJSON("1")}, Remove: []string{"b"}, AddGroups: []string{"core"}, Version: &three}
	key := workflow.EntityKey{Type: "device", ID: "a:b@c"}
	e, err = c.PatchEntity(ctx, key, patch)
	check("patch", []any{e.ID, e.Version, f.patch}, []any{"a:b@c", int64(8), patch}, err)
	e, err = c.DeleteEntity(ctx, key, 7)
	check("delete", []any{e.ID, *f.deletedAt}, []any{"a:b@c", int64(7)}, err)
	_, err = c.DeleteEntity(ctx, key, 0)
	check("delete whatever its version", f.deletedAt, (*int64)(nil), err)

	req := views.StartRequest{Workflow: "fleet/upgrade", Parameters: rawJSON(`{"a":1}`), ExecuteOnParameters: &workflow.Selector{IDs: []string{"a"}}, NotBefore: at, IdempotencyKey: "k", IdempotencyLife: 48 * time.Hour}
	started, existed, err := c.Start(ctx, req)
	check("start", []any{started.ID, existed}, []any{executionID, false}, err)
	check("request", f.start, req, nil)
	_, existed, err = c.Start(ctx, req)
	check("start again", existed, true, err)
	for key, signalled := range map[string]bool{"free": false, "held": true} {
		req.Key, req.Signal = key, &views.StartSignal{Name: "paid", Data: rawJSON(`{"n":1}`), Reason: "r", ID: "s"}
		started, existed, err = c.Start(ctx, req)
		check("start with a signal", []any{started.ID, started.Signalled, existed}, []any{executionID, signalled, false}, err)
		check("request", f.start, req, nil)
	}
	_, err = c.Cancel(ctx, executionID, views.CancelRequest{Reason: "r"})
	check("cancel", f.cancel, views.CancelRequest{Reason: "r"}, err)
	_, err = c.Acknowledge(ctx, executionID, "why")
	check("acknowledge", f.reason, "why", err)
	_, err = c.Cancel(ctx, executionID, views.CancelRequest{Cascade: ptr(false)})
	check("cancel alone", f.cancel, views.CancelRequest{Cascade: ptr(false)}, err)
	retryRequest := views.RetryRequest{Reason: "r", From: "a.b", Entities: views.RetryAll, Force: true, Rollback: true}
	_, err = c.Retry(ctx, executionID, retryRequest)
	check("retry", f.retry, retryRequest, err)
	rerunRequest := views.RerunRequest{Entities: views.RerunEntities{Keys: []workflow.EntityKey{{Type: "device", ID: "a"}}}, Parameters: rawJSON(`{"a":1}`), Reason: "r", IdempotencyKey: "again"}
	started, existed, err = c.Rerun(ctx, executionID, rerunRequest)
	check("rerun", []any{started.ID, existed, f.rerun}, []any{executionID, false, rerunRequest}, err)
	rerunRequest.Entities = views.RerunEntities{Choice: views.RerunUnsafe}
	_, existed, err = c.Rerun(ctx, executionID, rerunRequest)
	check("rerun again", []any{existed, f.rerun}, []any{true, rerunRequest}, err)
	_, err = c.Resume(ctx, executionID, "resumed")
	check("resume", f.reason, "resumed", err)
	nextRequest := views.NextRequest{Reason: "r", Sequence: 3, All: true}
	_, err = c.NextStep(ctx, executionID, nextRequest)
	check("next", f.enter, nextRequest, err)
	nextRequest = views.NextRequest{Input: rawJSON(`{"approved":true}`), Step: "approve", Visit: 1, IdempotencyKey: "k"}
	_, err = c.NextStep(ctx, executionID, nextRequest)
	check("next with an answer", f.enter, nextRequest, err)
	rewindRequest := views.RewindRequest{Reason: "r", To: "a.b", Force: true}
	_, err = c.Rewind(ctx, executionID, rewindRequest)
	check("rewind", f.rewind, rewindRequest, err)
	answerRequest := views.AnswerRequest{Input: rawJSON(`{"approved":true}`), Step: "approve", Visit: 1, Reason: "r", IdempotencyKey: "k"}
	_, err = c.Answer(ctx, executionID, answerRequest)
	check("answer", f.answer, answerRequest, err)
	signalRequest := views.SignalRequest{Data: rawJSON(`{"amount":12}`), Reason: "r", IdempotencyKey: "k"}
	_, err = c.Signal(ctx, executionID, "paid", signalRequest)
	check("signal", []any{f.signal, f.signalName}, []any{signalRequest, "paid"}, err)
	_, err = c.SignalKey(ctx, "fleet/upgrade", "order:7", "paid", signalRequest)
	check("signal by key", []any{f.signal, f.signalName}, []any{signalRequest, "fleet/upgrade order:7 paid"}, err)
	tokenRequest := views.TokenRequest{For: "ann", Step: "approve", Visit: 1, Reason: "r"}
	made, err := c.CreateToken(ctx, executionID, tokenRequest)
	check("token", []any{f.issue, made.Token, made.For}, []any{tokenRequest, "lst1.a.b", "ann"}, err)
	revokeRequest := views.RevokeRequest{Step: "approve", Visit: 1, Reason: "r"}
	_, err = c.RevokeTokens(ctx, executionID, revokeRequest)
	check("revoke", f.revoke, revokeRequest, err)
	for got, err := range c.Tokens(ctx, executionID) {
		check("tokens", got, tokenStateView, err)
	}
	tokenAnswer := views.TokenAnswer{Input: rawJSON(`{"approved":true}`), IdempotencyKey: "k"}
	receipt, err := c.AnswerByToken(ctx, "lst1.a.b", tokenAnswer)
	check("answer by token", []any{f.token, f.byToken, receipt.Step}, []any{"lst1.a.b", tokenAnswer, "approve"}, err)
	question, err := c.QuestionOfToken(ctx, "lst1.c.d")
	check("question", []any{f.token, question.For}, []any{"lst1.c.d", "ann"}, err)
	for _, id := range []string{executionID, ""} {
		var inputs []views.InputView
		for input, err := range c.Inputs(ctx, id, false) {
			check("input", nil, nil, err)
			if inputs = append(inputs, input); len(inputs) == 2 {
				break
			}
		}
		check("inputs", inputs[0], inputView, nil)
	}
	_, err = c.Unlock(ctx, executionID, "unlocked")
	check("unlock", f.reason, "unlocked", err)
	_, err = c.Unlock(ctx, executionID, "", "device/sw-1", "device/sw-2")
	check("unlock some", f.released, []workflow.EntityKey{{Type: "device", ID: "sw-1"}, {Type: "device", ID: "sw-2"}}, err)
	_, err = c.Acknowledge(ctx, executionID, "", "device/sw-3")
	check("acknowledge some", f.released, []workflow.EntityKey{{Type: "device", ID: "sw-3"}}, err)
	exact := workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}
	d, err = c.Archive(ctx, exact, "replaced")
	check("archive", d.Archived, true, err)
	d, err = c.Restore(ctx, exact, "needed again")
	check("restore", d.Archived, false, err)
	schema, err := c.DefinitionSchema(ctx)
	check("schema", string(schema), strings.TrimSpace(string(format.Schema())), err)
	check("health", nil, nil, c.Health(ctx))
	check("caller", f.caller, local, nil)

	if _, err := c.Execution(ctx, "nobody"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("an unknown execution: %v", err)
	}
}

// A list names the executions that a newer release has written, and the client passes the
// names on.
func TestClient_TellsWhatAListSkips(t *testing.T) {
	f := newFake()
	f.skipped = []string{"x2", "x1"}
	server := httptest.NewServer(newHandler(f))
	defer server.Close()
	var skipped []string
	c, err := client.New(client.Options{URL: server.URL, Tenant: "default", OnSkipped: func(ids []string) { skipped = append(skipped, ids...) }})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(collect(t, c.Executions(t.Context(), views.ExecutionFilter{}))); n != 1 || !slices.Equal(skipped, f.skipped) {
		t.Errorf("%d executions, skipped %v", n, skipped)
	}
}

func collect[T any](t *testing.T, list iter.Seq2[T, error]) (items []T) {
	t.Helper()
	for item, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}
