package query_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// An execution that waits for one that ended unsafely says so, and what to do, in its
// details and in lists. It does not while the holder works.
func TestService_WaitingNamesHolderToAcknowledge(t *testing.T) {
	s := newHarness(t, 1, "steps: [{label: one, functionBlock: p/forever:1, runOn: device}]\n")
	ctx := context.Background()
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
	holder := s.Start("w", "d000")
	s.DrainWakeups()
	waiter := s.Start("w", "d000")
	s.DrainWakeups()
	reasons := func() (all []string) {
		detail := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, waiter))
		listed := readPages(s, 10, func(p workflow.Page) (workflow.List[views.ExecutionView], error) {
			return s.Query.Executions(ctx, harness.Caller, views.ExecutionFilter{}, p)
		})
		for _, x := range append(listed, detail) {
			if x.ID != waiter {
				continue
			}
			if x.Waiting == nil || x.Waiting.Kind != workflow.WaitLock {
				t.Fatalf("it waits for %+v", x.Waiting)
			}
			reason := ""
			if x.Waiting.Reason != nil {
				reason = *x.Waiting.Reason
			}
			all = append(all, reason)
		}
		return all
	}
	if got := reasons(); len(got) != 2 || got[0] != "" || got[1] != "" {
		t.Errorf("while the holder works: %q", got)
	}
	s.RunFor(10 * time.Minute)
	s.ExpectState(holder, sm.ExecutionFailedUnsafe)
	want := "it is held by " + holder + ", which ended FAILED_UNSAFE and waits for \"lockstep acknowledge " + holder + "\""
	if got := reasons(); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("after the holder's end: %q", got)
	}
}
