package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A cancel is never accepted during a rollback, nor once a run is ending or has
// ended; what is refused changes nothing.
func TestCancelIsRefused(t *testing.T) {
	s := open(t, 1)
	cancel := func(id string) {
		before := s.Load(id)
		_, err := s.Engine.Cancel(context.Background(), stage.Caller, id, views.CancelRequest{})
		if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), string(before.State)) {
			t.Errorf("in %s: %v", before.State, err)
		}
		if after := s.Load(id); after.Version != before.Version {
			t.Errorf("in %s a refused cancel changed the run", before.State)
		}
	}
	tried := 0
	s.Script = func(c stage.Call) *stage.Outcome {
		switch {
		case c.Kind == workflow.JobRollback:
			tried++
			return &stage.Outcome{Meanwhile: func() { cancel(c.Execution) }}
		case c.Step == "two":
			return &stage.Outcome{Fail: "REFUSED"}
		}
		return nil
	}
	s.Publish("w", steps("one once device", "two pure device"))
	id := s.Start("w", "d000")
	settle(s)
	s.Ends(id, sm.ExecutionFailedSafeAck)
	cancel(id)
	if tried != 1 {
		t.Errorf("%d rollback jobs", tried)
	}
	for _, mode := range []workflow.RollbackMode{"sometimes", "AUTO"} {
		if _, err := s.Engine.Cancel(context.Background(), stage.Caller, id, views.CancelRequest{Rollback: mode}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("rollback %q: %v", mode, err)
		}
	}
}

// One key, one run: whoever repeats a request gets the run it began, also where
// the first try died half way; another request under the key is refused.
func TestIdempotencyKey(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one once device"))
	ctx := context.Background()
	req := stage.Request("w", "d000")
	req.IdempotencyKey = "k"
	dying := s.Task("dying", func() { _, _, _ = s.Engine.Start(ctx, stage.Caller, req) })
	dying.Past("registry.reserve")
	dying.Kill()
	x, existed, err := s.Engine.Start(ctx, stage.Caller, req)
	if err != nil || !existed {
		t.Fatalf("existed %v, %v: the try that bound the key has begun this run", existed, err)
	}
	again, existed, err := s.Engine.Start(ctx, stage.Caller, req)
	if err != nil || !existed || again.ID != x.ID {
		t.Errorf("got %s, existed %v, %v; want %s", again.ID, existed, err, x.ID)
	}
	other := req
	other.Labels = map[string]string{"a": "b"}
	if _, _, err := s.Engine.Start(ctx, stage.Caller, other); !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
		t.Errorf("another request: %v", err)
	}
	settle(s)
	if n := len(s.States(stage.Caller.Tenant)); n != 1 || len(s.Called) != 1 {
		t.Errorf("%d runs, calls %v", n, s.Called)
	}
	s.Advance(25 * time.Hour)
	if late, existed, err := s.Engine.Start(ctx, stage.Caller, req); err != nil || existed || late.ID == x.ID {
		t.Errorf("after the key has expired: %v, existed %v", err, existed)
	}
}

// A request that cannot be a run is refused before anything is written.
func TestStartIsRefused(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", "parameters: {type: object, required: [target]}\n"+steps("one once device"))
	for name, test := range map[string]struct {
		req  views.StartRequest
		code workflow.Code
	}{
		"no such workflow": {stage.Request("nowhere"), workflow.CodeNotFound},
		"no such version":  {views.StartRequest{Workflow: "p/w:2"}, workflow.CodeNotFound},
		"not a reference":  {views.StartRequest{Workflow: "w"}, workflow.CodeInvalid},
		"malformed query":  {views.StartRequest{Workflow: "p/w", Parameters: []byte(`{"target":1}`), ExecuteOnParameters: &workflow.Selector{Type: "device", Query: "entity.n >"}}, workflow.CodeInvalid},
		"unfit parameters": {views.StartRequest{Workflow: "p/w", Parameters: []byte(`{}`)}, workflow.CodeInvalid},
	} {
		test.req.IdempotencyKey = name
		if _, _, err := s.Engine.Start(context.Background(), stage.Caller, test.req); !workflow.Is(err, test.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.States(stage.Caller.Tenant)); n != 0 {
		t.Errorf("%d runs were made", n)
	}
}

// An entity that the inventory does not know ends the run, naming it; large
// inputs and scopes live beside the state.
func TestDiscovery(t *testing.T) {
	s := open(t, 60)
	s.Publish("w", "acquire: [{type: device, query: entity.name == \"d003\"}, {type: device, groups: [all]}]\n"+steps("one once device"))
	id := s.Start("w", append(stage.Names(3), "nobody")...)
	settle(s)
	if x := s.Ends(id, sm.ExecutionFailedSafeAck); x.Error.Entity != "device/nobody" || x.Error.Code != "ENTITY_NOT_FOUND" {
		t.Errorf("error %+v", x.Error)
	}
	id = s.Start("w", stage.Names(50)...)
	settle(s)
	if x := s.Ends(id, sm.ExecutionCompletedAck); x.Scope.Total() != 60 || len(s.Called) != 60 || x.Scope.Chunks == 0 || !x.Input.Stored {
		t.Errorf("scope %+v, %d calls", x.Scope, len(s.Called))
	}
}

// A block that finds entities is asked once in a try, whoever reads its answer;
// what it finds is the run's beside what its starter names.
func TestAcquireOnce(t *testing.T) {
	s := open(t, 4)
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Kind == workflow.JobAcquire {
			return &stage.Outcome{Found: stage.Names(3)}
		}
		return nil
	}
	s.Publish("w", "acquire: [{type: device, block: \"p/pure:1\"}, {type: device, block: \"p/again:1\"}]\n"+steps("one once device"))
	id := s.Start("w", "d003")
	settle(s)
	asked := map[string]int{}
	for _, c := range s.Called {
		asked[string(c.Kind)]++
	}
	if x := s.Ends(id, sm.ExecutionCompletedAck); x.Scope.Total() != 4 || asked["ACQUIRE"] != 2 || asked["EXECUTE"] != 4 {
		t.Errorf("scope %+v, called %v", x.Scope, asked)
	}
}
