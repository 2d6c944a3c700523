package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The request that cancels an execution closes the packs of a small one. That of a large
// one commits the cancellation and leaves the packs to a wake-up.
func TestCancel_LargeExecutionIsClosedByWakeup(t *testing.T) {
	for _, limit := range []int{100, 2} {
		o := harness.Options()
		o.InlineMaxEntities = limit
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(5)...)
		s.Publish("w", stepsYAML("one once device"))
		id := s.Start("w", harness.DeviceIDs(5)...)
		for s.Load(id).State != sm.ExecutionRunning {
			x := s.Load(id)
			if err := s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: x.Tenant, Execution: x.ID}); err != nil {
				t.Fatal(err)
			}
		}
		closed := 0
		s.Faults = func(c faults.Call) faults.Fault {
			if strings.HasPrefix(c.Name, "packs.") {
				closed++
			}
			return faults.None
		}
		x, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{})
		if err != nil {
			t.Fatal(err)
		}
		s.Faults = nil
		if inline := limit == 100; inline != (closed > 0) || !inline && x.State != sm.ExecutionCancelling {
			t.Errorf("limit %d: the request has made %d calls about packs and answered %s", limit, closed, x.State)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCancelledAck)
		if calls := s.CallsOf(id); len(calls) > 0 {
			t.Errorf("called %v", calls)
		}
	}
}

// The execution and its history say in whose name it was cancelled. Sources of the service's own
// cannot be claimed.
func TestCancel_KeepsItsSource(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("sw-1")
	s.Publish("w", stepsYAML("one once device"))
	for asked, want := range map[string]string{"": "user", "user": "user", "system": "system", "admin": "admin"} {
		id := s.Start("w", "sw-1")
		if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{Source: asked, Reason: "stop"}); err != nil {
			t.Fatal(err)
		}
		if c := s.Load(id).Cancellation; c == nil || c.Source != want || c.By != harness.Caller.Actor || c.Reason != "stop" {
			t.Errorf("%q: %+v", asked, c)
		}
		told := 0
		for _, e := range s.History(id) {
			if e.Type == "cancel.requested" && strings.Contains(string(e.Data), `"source":"`+want+`"`) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%q: %d events of the history say %s", asked, told, want)
		}
		settle(s)
	}
	id := s.Start("w", "sw-1")
	for _, claimed := range []string{"parent", "timeout", "key", "me"} {
		if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{Source: claimed}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s: %v", claimed, err)
		}
	}
}
