package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A request searches the entities of an execution only as far as it has the time for it, however they are
// selected. A wake-up, which has four times as long, searches the rest.
func TestStart_LargeSearchIsDoneByWakeup(t *testing.T) {
	for _, c := range []struct {
		name     string
		maxBytes int
		selector workflow.Selector
		inline   bool
	}{
		{"a group with little to read", 100_000, workflow.Selector{Groups: []string{"large"}}, true},
		{"a group with much to read", 30_000, workflow.Selector{Groups: []string{"large"}}, false},
		{"a query", 30_000, workflow.Selector{Query: `entity.name == "d0001"`}, false},
		{"ids", 30_000, workflow.Selector{IDs: fourDigitIDs(40)}, false},
		{"no limit", 0, workflow.Selector{Groups: []string{"large"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := harness.Options()
			o.InlineMaxBytes = c.maxBytes
			s := harness.New(t, 1, o)
			s.RegisterBlocks()
			for _, id := range fourDigitIDs(40) {
				e := workflow.Entity{Type: "device", ID: id, Groups: []string{"large"}, Attributes: json.RawMessage(fmt.Sprintf(`{"name":%q,"notes":%q}`, id, strings.Repeat("x", 1000)))}
				if _, err := s.Catalog.PutEntity(context.Background(), harness.Caller, e); err != nil {
					t.Fatal(err)
				}
			}
			s.Publish("w", stepsYAML("one once device"))
			req := views.StartRequest{Workflow: "p/w", ExecuteOnParameters: &c.selector, IdempotencyKey: "k"}
			x, existed, err := s.Engine.Start(context.Background(), harness.Caller, req)
			if err != nil || existed {
				t.Fatal(existed, err)
			}
			if searched := x.Scope.Total() > 0; searched != c.inline || !c.inline && (x.State != sm.ExecutionNew || s.LifecycleQueue().Len() != 1) {
				t.Errorf("the request answers %s with %d entities, and %d wake-ups are sent", x.State, x.Scope.Total(), s.LifecycleQueue().Len())
			}
			if again, existed, err := s.Engine.Start(context.Background(), harness.Caller, req); err != nil || !existed || again.ID != x.ID {
				t.Errorf("the same request again: %v, %v", existed, err)
			}
			settle(s)
			s.ExpectState(x.ID, sm.ExecutionCompletedAck)
			if got, want := fmt.Sprint(s.Load(x.ID).Scope.Total()), fmt.Sprint(max(1, 40*len(c.selector.Groups), len(c.selector.IDs))); got != want {
				t.Errorf("%s entities, want %s", got, want)
			}
		})
	}
}

// A start whose entities a wake-up is to search has succeeded once the execution is stored, and
// answers what is stored.
func TestStart_LargeSearchIsStored(t *testing.T) {
	for _, fault := range []faults.Fault{faults.Throttled, faults.LostReply, faults.Repeated} {
		t.Run(fault.String(), func(t *testing.T) {
			o := harness.Options()
			o.InlineMaxBytes = 1
			s := harness.New(t, 1, o)
			s.RegisterBlocks()
			s.ImportDevices("d000")
			s.Publish("w", stepsYAML("one once device"))
			s.Faults = faults.Next("store.create", fault)
			req := harness.NewStartRequest("w", "d000")
			req.IdempotencyKey = "k"
			x, _, err := s.Engine.Start(context.Background(), harness.Caller, req)
			s.Faults = nil
			stored := s.States(harness.Caller.Tenant)
			if (err == nil) != (len(stored) == 1) && fault != faults.LostReply {
				t.Fatalf("answers %v, and stores %v", err, stored)
			}
			if again, _, err2 := s.Engine.Start(context.Background(), harness.Caller, req); err2 != nil || err == nil && again.ID != x.ID {
				t.Errorf("the same request again: %v", err2)
			}
			settle(s)
			if len(s.States(harness.Caller.Tenant)) != 1 {
				t.Errorf("stored: %v", s.States(harness.Caller.Tenant))
			}
		})
	}
}

// A start that finds its execution stored already, by a request that was repeated, answers with that.
func TestStart_LargeSearchOfAnExecutionThatExists(t *testing.T) {
	o := harness.Options()
	o.InlineMaxBytes = 1
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices("d000")
	s.Publish("w", stepsYAML("one once device"))
	req := harness.NewStartRequest("w", "d000")
	req.IdempotencyKey = "k"
	late := s.StartTask("late", func() {
		x, _, err := s.Engine.Start(context.Background(), harness.Caller, req)
		if stored := s.Load(x.ID); err != nil || x.State != stored.State {
			t.Errorf("answers %s, stored is %s: %v", x.State, stored.State, err)
		}
	})
	if !late.RunUntil("store.create") {
		t.Fatal("it creates nothing")
	}
	if _, _, err := s.Engine.Start(context.Background(), harness.Caller, req); err != nil {
		t.Fatal(err)
	}
	settle(s)
	late.Finish()
}
