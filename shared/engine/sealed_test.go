package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sealed"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const sealedParameters = `parameters:
  type: object
  required: [password]
  properties: {password: {type: string, minLength: 10, x-sealed: true}, user: {type: string}}
`

// newSealing has blocks of which p/login, and of its kind, takes a sealed password.
func newSealing(t testing.TB) *harness.Harness {
	s := newHarness(t, 1)
	sealer := sealed.InMemory(s.Now)
	s.Engine.Sealer, s.Sealed = sealer, sealer
	for _, b := range []workflow.Block{
		{Package: "p", Name: "login", Version: "1.0.0", Idempotent: true, Reversible: true, UndoHarmless: true, ParameterSchema: []byte(`{"type":"object","properties":{"pass":{"type":"string","minLength":12,"x-sealed":true}}}`)},
		{Package: "p", Name: "open", Version: "1.0.0", Pure: true},
	} {
		s.RegisterBlock(b)
	}
	return s
}

const password = "correct horse battery"

func startSealed(name, key, with string) views.StartRequest {
	req := harness.NewStartRequest(name, "d000")
	req.Parameters, req.IdempotencyKey = fmt.Appendf(nil, `{"password":%q,"user":"ann"}`, with), key
	return req
}

// F40: a sealed parameter reaches the block for which it is, also when it is tried again and rolled back, and stands nowhere in what is stored,
// sent or shown.
func TestSealed_ReachesTheBlockAndNothingElse(t *testing.T) {
	for _, large := range []bool{false, true} {
		s := newSealing(t)
		s.Publish("w", sealedParameters+`steps:
  - {label: one, functionBlock: p/login:1, runOn: device, parameters: {pass: "${parameters.password}", user: "${parameters.user}"}, retry: {maxRetries: 1, delay: 1s}}
  - {label: own, functionBlock: p/once:1, runOn: device, compensate: {functionBlock: p/login:1, parameters: {pass: "${parameters.password}"}}}
  - {label: two, functionBlock: p/pure:1, runOn: global}
`)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			switch {
			case c.Step == "one" && c.Kind == workflow.JobExecute && c.Attempt == 1:
				return &harness.Outcome{FailCode: "BUSY", FailMessage: "not with " + password, Retryable: true}
			case c.Step == "two":
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		}
		req := startSealed("w", "k", password)
		if large {
			req.Parameters = fmt.Appendf(nil, `{"password":%q,"user":%q}`, password, strings.Repeat("u", 10_000))
		}
		started, _, err := s.Engine.Start(context.Background(), harness.Caller, req)
		if err != nil {
			t.Fatal(err)
		}
		id := started.ID
		if repeated, existed, err := s.Engine.Start(context.Background(), harness.Caller, req); err != nil || !existed || repeated.ID != id {
			t.Errorf("a request that is repeated: %v %v", existed, err)
		}
		other := startSealed("w", "k", "another horse battery")
		if _, _, err := s.Engine.Start(context.Background(), harness.Caller, other); !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
			t.Errorf("the key with another value: %v", err)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		calls := 0
		for _, c := range s.BlockCalls {
			if c.Block == "p/login" {
				if calls++; !strings.Contains(string(c.Parameters), `"pass":"`+password+`"`) {
					t.Errorf("%s %s is called with %.100s", c.Job, c.Kind, c.Parameters)
				}
			}
		}
		if calls != 4 {
			t.Errorf("%d calls, want two executions, a rollback and a compensation", calls)
		}
		if where := s.Storing(password); len(where) > 0 {
			t.Errorf("the value is stored in %v", where)
		}
		x, err := s.Query.Execution(context.Background(), harness.Caller, id)
		if err != nil || !strings.Contains(string(x.Parameters), `"password":"sealed"`) {
			t.Errorf("shown with %.100s, %v", x.Parameters, err)
		}
		jobs, err := s.Query.Jobs(context.Background(), harness.Caller, id, views.JobFilter{Step: "one"}, workflow.Page{})
		if err != nil || len(jobs.Items) == 0 || !strings.Contains(string(jobs.Items[0].Parameters), `"pass":"sealed"`) || !strings.Contains(jobs.Items[0].Error.Message, "not with sealed") {
			t.Errorf("jobs %+v, %v", jobs.Items, err)
		}

		// A rerun has the same value, sealed anew.
		s.Script = nil
		again, _, err := s.Engine.Rerun(context.Background(), harness.Caller, id, views.RerunRequest{Reason: "r", IdempotencyKey: "again", Entities: views.RerunEntities{Keys: []workflow.EntityKey{{Type: "device", ID: "d000"}}}})
		if err != nil {
			t.Fatal(err)
		}
		settle(s)
		s.ExpectState(again.ID, sm.ExecutionCompletedAck)
		if last := s.BlockCalls[len(s.BlockCalls)-3]; last.Step != "one" || !strings.Contains(string(last.Parameters), password) {
			t.Errorf("the rerun calls %s with %.100s", last.Step, last.Parameters)
		}
		if where := s.Storing(password); len(where) > 0 {
			t.Errorf("the value is stored in %v", where)
		}
	}
}

// What cannot be sealed, or is passed on where nobody opens it, is refused with its code.
func TestSealed_RefusalsAreTyped(t *testing.T) {
	s := newSealing(t)
	for i, keyword := range []string{"pattern: '^[0-9]+$'", "not: {minLength: 10}", "maxLength: 20"} {
		s.Publish(fmt.Sprint("v", i), fmt.Sprintf("parameters: {type: object, properties: {password: {type: string, %s, x-sealed: true}}}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n", keyword))
		if _, _, err := s.Engine.Start(context.Background(), harness.Caller, startSealed(fmt.Sprint("v", i), "", password)); !workflow.Is(err, workflow.CodeInvalid) || strings.Contains(fmt.Sprint(err), "correct") {
			t.Errorf("%s: %v", keyword, err)
		}
	}
	s.Publish("w", sealedParameters+"steps:\n  - {label: one, functionBlock: p/login:1, runOn: device, parameters: {pass: \"${parameters.password}\"}}\n")
	for with, code := range map[string]string{"short": "minLength", "": "minLength", strings.Repeat("x", 9000): "limit"} {
		_, _, err := s.Engine.Start(context.Background(), harness.Caller, startSealed("w", "", with))
		if !workflow.Is(err, workflow.CodeInvalid) || len(with) > 0 && len(with) < 100 && strings.Contains(err.Error(), with) {
			t.Errorf("%.10q: %v, want %s", with, err, code)
		}
	}
	s.Publish("open", sealedParameters+"steps:\n  - {label: one, functionBlock: p/open:1, runOn: device, parameters: {pass: \"${parameters.password}\"}}\n")
	id := s.StartWith(startSealed("open", "", password))
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Code != workflow.FailureSealed {
		t.Errorf("a block that takes no sealed parameter: %+v", x.Error)
	}
	s.Publish("parent", "steps:\n  - {label: child, parameters: {password: \"correct horse battery\"}, workflowReference: {workflow: p/w:1, mode: dispatch}}\n")
	id = s.Start("parent", "d000")
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || !strings.Contains(fmt.Sprint(x.Error), "only a request can give it") {
		t.Errorf("a parent that gives a sealed parameter: %+v", x.Error)
	}
	s.Engine.Sealer = nil
	if _, _, err := s.Engine.Start(context.Background(), harness.Caller, startSealed("w", "", password)); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "sealed.key") {
		t.Errorf("without a key: %v", err)
	}
}

// The digest of a request with a sealed parameter is remembered under a key also where another execution answers
// it, and a request that was cut off is known again.
func TestSealed_DigestOfARequestThatAnotherExecutionAnswers(t *testing.T) {
	s := newSealing(t)
	s.Publish("w", sealedParameters+"steps:\n  - {label: go, wait: {signal: {name: go}}}\n")
	req := startSealed("w", "first", password)
	req.Key, req.OnKey = "order-7", views.OnKeyUse
	s.Faults = faults.Every(faults.Throttled, "store.create")
	if _, _, _, err := requestStart(s, req); err == nil {
		t.Fatal("the execution was written")
	}
	s.Faults = nil
	other := startSealed("w", "", password)
	other.Key = "order-7"
	holder := mustStart(s, other)
	s.Drain()
	second := req
	second.IdempotencyKey = "second"
	for _, r := range []views.StartRequest{req, second, second} {
		if x, _, _, err := requestStart(s, r); err != nil || x.ID != holder.ID {
			t.Errorf("%s: %v, %v", r.IdempotencyKey, x, err)
		}
	}
	for _, key := range []string{"first", "second"} {
		record, err := s.Engine.OpenPorts().Registry.IdempotencyRecord(context.Background(), harness.Caller.Tenant, key, s.Now())
		if err != nil || !strings.HasPrefix(record.Digest, "sealed:") {
			t.Errorf("%s is remembered as %q, %v", key, record.Digest, err)
		}
	}
}

// A worker that cannot open a value calls no block with anything else.
func TestSealed_WorkerThatCannotOpen(t *testing.T) {
	s := newSealing(t)
	s.Publish("w", sealedParameters+"steps:\n  - {label: one, functionBlock: p/login:1, runOn: device, parameters: {pass: \"${parameters.password}\"}}\n")
	s.Sealed = opensNothing{}
	id := s.StartWith(startSealed("w", "", password))
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != workflow.FailureSealed || len(s.BlockCalls) > 0 {
		t.Errorf("%+v after %d calls", x.Error, len(s.BlockCalls))
	}
}

type opensNothing struct{}

func (opensNothing) Open(context.Context, string, string, *workflow.Sealed, string) (string, error) {
	return "", workflow.Errorf(workflow.CodeNotFound, "it is not one of this execution")
}
