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

// An execution that waits for one that ended unsafely says so, and what to do, in its details and
// in lists. It does not while the holder works.
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
	want := "it is held by " + holder + ", which ended FAILED_UNSAFE and waits for \"lockstep acknowledge " + holder + "\": \"lockstep status " + holder + "\" says what else to do"
	if got := reasons(); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("after the holder's end: %q", got)
	}
}

// An execution that found the lock taken by another one each time that it asked waits for nobody,
// and says so.
func TestService_WaitingNamesNobodyWhereRoundsRanOut(t *testing.T) {
	s := newHarness(t, 1, "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	ctx := context.Background()
	s.Start("w", "d000")
	waiter := s.Start("w", "d000")
	x := s.ExpectState(waiter, sm.ExecutionScheduled)
	next := x.Clone()
	next.BlockedBy.Execution, next.BlockedBy.Epoch, next.Version, next.Commit = waiter, -1, x.Version+1, "by hand"
	if _, ok, err := s.Open().Store.Commit(ctx, x.Version, next, workflow.CommitOptions{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w := must[views.ExecutionView](s)(s.Query.Execution(ctx, harness.Caller, waiter)).Waiting
	if w == nil || w.Kind != workflow.WaitLock || w.Reason == nil || len(w.Blockers) != 1 || w.Blockers[0].HeldBy != nil || *w.Blockers[0].Entity != "device/d000" {
		t.Errorf("it waits for %+v", w)
	}
}
