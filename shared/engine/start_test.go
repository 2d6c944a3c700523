package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A cancel is refused during a rollback and after the execution has ended. A refused
// cancel changes nothing.
func TestCancel_RefusedWhileEnding(t *testing.T) {
	s := newHarness(t, 1)
	cancel := func(id string) {
		before := s.Load(id)
		_, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{})
		if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), string(before.State)) {
			t.Errorf("in %s: %v", before.State, err)
		}
		if after := s.Load(id); after.Version != before.Version {
			t.Errorf("in %s a refused cancel changed the execution", before.State)
		}
	}
	tried := 0
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Kind == workflow.JobRollback:
			tried++
			return &harness.Outcome{During: func() { cancel(c.Execution) }}
		case c.Step == "two":
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	s.Publish("w", stepsYAML("one once device", "two pure device"))
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	cancel(id)
	if tried != 1 {
		t.Errorf("%d rollback jobs", tried)
	}
	for _, mode := range []workflow.RollbackMode{"sometimes", "AUTO"} {
		if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{Rollback: mode}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("rollback %q: %v", mode, err)
		}
	}
}

// One key, one execution: a repeated request returns the execution that the first one
// began, even if the first handler crashed half way. Another request under the same
// key is refused.
func TestStart_IdempotencyKeyReturnsSameExecution(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	ctx := context.Background()
	req := harness.NewStartRequest("w", "d000")
	req.IdempotencyKey = "k"
	dying := s.StartTask("dying", func() { _, _, _ = s.Engine.Start(ctx, harness.Caller, req) })
	dying.RunPast("registry.bind_idempotency_key")
	dying.Kill()
	x, existed, err := s.Engine.Start(ctx, harness.Caller, req)
	if err != nil || !existed {
		t.Fatalf("existed %v, %v: the request that bound the key began this execution", existed, err)
	}
	again, existed, err := s.Engine.Start(ctx, harness.Caller, req)
	if err != nil || !existed || again.ID != x.ID {
		t.Errorf("got %s, existed %v, %v; want %s", again.ID, existed, err, x.ID)
	}
	other := req
	other.Labels = map[string]string{"a": "b"}
	if _, _, err := s.Engine.Start(ctx, harness.Caller, other); !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
		t.Errorf("another request: %v", err)
	}
	settle(s)
	if n := len(s.States(harness.Caller.Tenant)); n != 1 || len(s.BlockCalls) != 1 {
		t.Errorf("%d executions, calls %v", n, s.BlockCalls)
	}
	s.Advance(25 * time.Hour)
	if late, existed, err := s.Engine.Start(ctx, harness.Caller, req); err != nil || existed || late.ID == x.ID {
		t.Errorf("after the key has expired: %v, existed %v", err, existed)
	}
}

// An invalid request is refused before anything is written.
func TestStart_RefusesInvalidRequest(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "parameters: {type: object, required: [target]}\n"+stepsYAML("one once device"))
	for name, test := range map[string]struct {
		req  views.StartRequest
		code workflow.Code
	}{
		"no such workflow":   {harness.NewStartRequest("nowhere"), workflow.CodeNotFound},
		"no such version":    {views.StartRequest{Workflow: "p/w:2"}, workflow.CodeNotFound},
		"not a reference":    {views.StartRequest{Workflow: "w"}, workflow.CodeInvalid},
		"malformed query":    {views.StartRequest{Workflow: "p/w", Parameters: []byte(`{"target":1}`), ExecuteOnParameters: &workflow.Selector{Type: "device", Query: "entity.n >"}}, workflow.CodeInvalid},
		"invalid parameters": {views.StartRequest{Workflow: "p/w", Parameters: []byte(`{}`)}, workflow.CodeInvalid},
	} {
		test.req.IdempotencyKey = name
		if _, _, err := s.Engine.Start(context.Background(), harness.Caller, test.req); !workflow.Is(err, test.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.States(harness.Caller.Tenant)); n != 0 {
		t.Errorf("%d executions were created", n)
	}
}

// An entity that is not in the inventory fails the execution, and the error names it.
// Large inputs and scopes are stored outside the state item.
func TestDiscover_UnknownEntityAndLargeScope(t *testing.T) {
	s := newHarness(t, 60)
	s.Publish("w", "acquire: [{type: device, query: entity.name == \"d003\"}, {type: device, groups: [all]}]\n"+stepsYAML("one once device"))
	id := s.Start("w", append(harness.DeviceIDs(3), "nobody")...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Entity != "device/nobody" || x.Error.Code != "ENTITY_NOT_FOUND" {
		t.Errorf("error %+v", x.Error)
	}
	id = s.Start("w", harness.DeviceIDs(50)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Scope.Total() != 60 || len(s.BlockCalls) != 60 || x.Scope.Chunks == 0 || !x.Input.Offloaded {
		t.Errorf("scope %+v, %d calls", x.Scope, len(s.BlockCalls))
	}
}

// A block that acquires entities is called once per try. The scope is what it returns,
// plus what the start request names.
func TestDiscover_CallsAcquireBlockOncePerTry(t *testing.T) {
	s := newHarness(t, 4)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobAcquire {
			return &harness.Outcome{Acquired: harness.DeviceIDs(3)}
		}
		return nil
	}
	s.Publish("w", "acquire: [{type: device, block: \"p/pure:1\"}, {type: device, block: \"p/again:1\"}]\n"+stepsYAML("one once device"))
	id := s.Start("w", "d003")
	settle(s)
	calls := map[string]int{}
	for _, c := range s.BlockCalls {
		calls[string(c.Kind)]++
	}
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Scope.Total() != 4 || calls["ACQUIRE"] != 2 || calls["EXECUTE"] != 4 {
		t.Errorf("scope %+v, called %v", x.Scope, calls)
	}
}

// Two starts under one key resolve two versions: every handler advances the execution
// with the version that it was created with.
func TestStart_UsesPinnedVersion(t *testing.T) {
	for seed := range uint64(40) {
		s := newHarness(t, 0)
		s.Reset(seed)
		s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
		start := func() {
			req := harness.NewStartRequest("w")
			req.IdempotencyKey = "k"
			_, _, _ = s.Engine.Start(context.Background(), harness.Caller, req)
		}
		first := s.StartTask("first", start)
		first.RunPast("registry.bind_idempotency_key")
		s.WithoutFaults(func() {
			_, _, err := s.Catalog.Publish(context.Background(), harness.Caller,
				[]byte("package: p\nname: w\nversion: 2.0.0\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: global}]\n"), false)
			if err != nil {
				s.Fatal(err)
			}
		})
		s.Interleave(first, s.StartTask("second", start))
		settle(s)
		for id := range s.States(harness.Caller.Tenant) {
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			if want := map[string]int{"1.0.0": 1, "2.0.0": 2}[x.Workflow.Version]; len(s.CallsOf(id)) != want || len(x.StepRuns) != want {
				t.Fatalf("seed %d: %s made the calls %v", seed, x.Workflow, s.CallsOf(id))
			}
		}
	}
}

// A start sets how long its idempotency key is remembered. The first start with a key counts.
func TestStart_IdempotencyKeyLivesAsLongAsItIsAsked(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", stepsYAML("one pure global"))
	start := func(life time.Duration) string {
		t.Helper()
		x, _, err := s.Engine.Start(context.Background(), harness.Caller, views.StartRequest{Workflow: "p/w", IdempotencyKey: "k", IdempotencyLife: life})
		if err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	first := start(time.Minute)
	s.RunFor(30 * time.Second)
	if again := start(time.Hour); again != first {
		t.Errorf("within its time the key started %s after %s", again, first)
	}
	s.RunFor(time.Minute)
	if later := start(0); later == first {
		t.Error("after its time the key is still that of the first execution")
	}
}
