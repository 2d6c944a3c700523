package query_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// While releases are mixed, lists leave out what a newer one has written, and name it once,
// whatever the page size. A lock names its holder all the same, and a sweep shows what is due.
func TestService_ListsSkipNewerVersions(t *testing.T) {
	s := newHarness(t, 6, `
steps:
  - {label: one, delay: 1m, functionBlock: p/once:1, runOn: device}
`)
	release := workflow.SchemaVersion
	s.ProgramVersion = func() int { return release }
	a := s.Start("w", "d000", "d001")
	s.Drain()
	release++
	newer := s.Start("w", "d002", "d003")
	s.Drain()
	release--
	after := s.Start("w", "d005")
	b := s.Start("w", "d004")
	s.Drain()
	release++
	newest := s.Start("w", "d000") // it waits for a
	s.Drain()
	release-- // what is asked now is asked of the older release

	check := func(what string, got, skipped, want []string) {
		t.Helper()
		if !slices.Equal(got, want) || !slices.Equal(skipped, []string{newest, newer}) {
			t.Errorf("%s: %v without %v; want %v without %v", what, got, skipped, want, []string{newest, newer})
		}
	}
	for limit := 1; limit < 6; limit++ {
		var got, skipped []string
		for page := (workflow.Page{Limit: limit}); ; {
			l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(t.Context(), harness.Caller, views.ExecutionFilter{Active: true}, page))
			for _, x := range l.Items {
				got = append(got, x.ID)
			}
			skipped = append(skipped, l.Skipped...)
			if page.Token = l.NextToken; page.Token == "" {
				break
			}
		}
		check("executions", got, skipped, []string{b, after, a})
		got, skipped = nil, nil
		for page := (workflow.Page{Limit: limit}); ; {
			l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(t.Context(), harness.Caller, views.ExecutionFilter{Active: true, Order: workflow.OrderOldest}, page))
			for _, x := range l.Items {
				got = append(got, x.ID)
			}
			skipped = append(skipped, l.Skipped...)
			if page.Token = l.NextToken; page.Token == "" {
				break
			}
		}
		slices.Reverse(skipped)
		check("executions, the oldest first", got, skipped, []string{a, after, b})
		got, skipped = nil, nil
		for page := (workflow.Page{Limit: limit}); ; {
			l := must[workflow.List[views.LockView]](s)(s.Query.Locks(t.Context(), harness.Caller, page))
			for _, x := range l.Items {
				got = append(got, x.Entity.ID)
			}
			skipped = append(skipped, l.Skipped...)
			if page.Token = l.NextToken; page.Token == "" {
				break
			}
		}
		if !slices.Equal(got, []string{"d004", "d005", "d000", "d001"}) || !slices.Equal(skipped, []string{newer}) {
			t.Errorf("locks: %v without %v", got, skipped)
		}
	}
	for id, holder := range map[string]string{"d000": a, "d003": newer} {
		l := must[views.LockView](s)(s.Query.Lock(t.Context(), harness.Caller, workflow.EntityKey{Type: "device", ID: id}))
		if l.HeldBy == nil || *l.HeldBy != holder || l.Since == nil {
			t.Errorf("the lock of %s: %+v", id, l)
		}
	}

	s.Advance(2 * time.Minute)
	due := must[views.SweepView](s)(scheduler.PlanSweep(t.Context(), s.Engine, workers.LivenessTimeouts{}, 4, harness.Caller.Tenant))
	i := slices.IndexFunc(due.Executions, func(d views.DueExecution) bool { return d.Execution == newer })
	if len(due.Executions) < 3 || i < 0 || due.Executions[i].State != sm.ExecutionWaiting || due.Executions[i].Since.IsZero() {
		t.Errorf("due: %+v", due.Executions)
	}

	release++
	if !s.RunUntilIdle(time.Hour) {
		t.Fatal("not ended after an hour")
	}
	release--
	failures := must[workflow.List[views.FailedEntityView]](s)(s.Query.Failures(t.Context(), harness.Caller, views.FailureFilter{}, workflow.Page{}))
	if len(failures.Skipped) != 5 {
		t.Errorf("failures leave out %v", failures.Skipped)
	}
	found := must[[]views.EntityExecutionView](s)(s.Query.EntityExecutions(t.Context(), harness.Caller, workflow.EntityKey{Type: "device", ID: "d000"}))
	if len(found) != 2 || found[0].ID != newest || found[0].State != nil {
		t.Errorf("executions of d000: %+v", found)
	}
}

// A page of locks that ends because it has read enough executions ends after the last one:
// the next page does not list its locks again.
func TestService_LocksAreListedOnce(t *testing.T) {
	s := newHarness(t, 2, `
steps:
  - {label: one, delay: 1h, functionBlock: p/once:1, runOn: device}
`)
	s.Publish("idle", "steps: [{label: one, delay: 1h, functionBlock: p/once:1, runOn: global}]\n")
	s.Start("w", "d000")
	last := s.Start("w", "d001")
	s.Drain()
	s.Advance(time.Second)
	for range 999 { // as many as one page reads, with the execution of d001
		last = s.Start("idle")
	}
	s.Drain()
	s.ExpectState(last, sm.ExecutionWaiting)
	var listed []string
	for _, l := range readPages(s, 0, func(p workflow.Page) (workflow.List[views.LockView], error) {
		return s.Query.Locks(t.Context(), harness.Caller, p)
	}) {
		listed = append(listed, l.Entity.ID)
	}
	if !slices.Equal(listed, []string{"d001", "d000"}) {
		t.Errorf("locks are listed as %v", listed)
	}
}

// An execution that dies in a state that others only pass is found there, by its state and its
// status, although the index lists it with those that run.
func TestService_ListsStatesThatArePassed(t *testing.T) {
	s := newHarness(t, 2, `
steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
`)
	running := s.Start("w", "d000")
	s.ExpectState(running, sm.ExecutionRunning)
	s.Faults = faults.Every(faults.Throttled, "locks.take")
	locking := s.Start("w", "d001")
	s.Faults = nil
	s.ExpectState(locking, sm.ExecutionLocking)
	for _, c := range []struct {
		filter views.ExecutionFilter
		want   []string
	}{
		{views.ExecutionFilter{State: sm.ExecutionLocking}, []string{locking}},
		{views.ExecutionFilter{Status: sm.StatusPending}, []string{locking}},
		{views.ExecutionFilter{State: sm.ExecutionRunning}, []string{running}},
		{views.ExecutionFilter{Active: true}, []string{locking, running}},
		{views.ExecutionFilter{}, []string{locking, running}},
	} {
		for limit := 1; limit < 3; limit++ {
			var got []string
			for page := (workflow.Page{Limit: limit}); ; {
				l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(t.Context(), harness.Caller, c.filter, page))
				for _, x := range l.Items {
					got = append(got, x.ID)
				}
				if page.Token = l.NextToken; page.Token == "" {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v, %d at a time: %v, want %v", c.filter, limit, got, c.want)
			}
		}
	}
}

// An execution is found by the idempotency key of its start for as long as the key is remembered,
// at the cost of one more read, of the key.
func TestService_FindsAnExecutionByItsIdempotencyKey(t *testing.T) {
	s := newHarness(t, 0, "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
	ctx := context.Background()
	begun := s.Now()
	x, _, err := s.Engine.Start(ctx, harness.Caller, views.StartRequest{Workflow: "p/w", IdempotencyKey: "k", IdempotencyLife: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s.Start("w") // another one, without a key
	find := func(c workflow.Caller, f views.ExecutionFilter) []views.ExecutionView {
		t.Helper()
		list := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(ctx, c, f, workflow.Page{}))
		if list.NextToken != "" {
			t.Errorf("there is a page after that of %+v", f)
		}
		return list.Items
	}
	found := find(harness.Caller, views.ExecutionFilter{IdempotencyKey: "k"})
	if len(found) != 1 || found[0].ID != x.ID || found[0].IdempotencyExpiresAt == nil || !found[0].IdempotencyExpiresAt.Equal(begun.Add(time.Hour)) {
		t.Fatalf("%+v", found)
	}
	listed := find(harness.Caller, views.ExecutionFilter{})
	for i := range listed {
		if listed[i].IdempotencyExpiresAt != nil {
			t.Errorf("%s shows the end of a key that was not asked for", listed[i].ID)
		}
	}
	found[0].IdempotencyExpiresAt = nil
	if diff := cmp.Diff(listed[1], found[0]); diff != "" {
		t.Errorf("it is not as in the list of all: %s", diff)
	}
	for what, none := range map[string][]views.ExecutionView{
		"another key":      find(harness.Caller, views.ExecutionFilter{IdempotencyKey: "l"}),
		"another state":    find(harness.Caller, views.ExecutionFilter{IdempotencyKey: "k", State: sm.ExecutionFailedUnsafe}),
		"another workflow": find(harness.Caller, views.ExecutionFilter{IdempotencyKey: "k", Workflow: workflow.Ref{Package: "p", Name: "v"}}),
		"another wait":     find(harness.Caller, views.ExecutionFilter{IdempotencyKey: "k", Waiting: workflow.WaitInput}),
		"another tenant":   find(workflow.Caller{Tenant: "another"}, views.ExecutionFilter{IdempotencyKey: "k"}),
	} {
		if len(none) != 0 {
			t.Errorf("%s finds %+v", what, none)
		}
	}
	s.RunFor(time.Hour)
	if late := find(harness.Caller, views.ExecutionFilter{IdempotencyKey: "k"}); len(late) != 0 {
		t.Errorf("after its time the key finds %+v", late)
	}
}

// A filtered list reads what the index of states leaves out once, however many batches it reads.
func TestService_FilteredListReadsTimersOnce(t *testing.T) {
	s := newHarness(t, 1, "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Start("w", "d000")
	s.Advance(time.Minute)
	first := s.Start("w", "d000")
	for range 5 {
		s.Start("w", "d000")
	}
	calls := map[string]int{}
	s.Faults = func(c faults.Call) faults.Fault {
		calls[c.Name]++
		return faults.None
	}
	filter := views.ExecutionFilter{Active: true, CreatedBefore: s.Load(first).CreatedAt}
	l := must[workflow.List[views.ExecutionView]](s)(s.Query.Executions(t.Context(), harness.Caller, filter, workflow.Page{Limit: 2}))
	if len(l.Items) != 1 || calls["store.list_unlisted"] != 1 || calls["store.load_many"] < 2 {
		t.Errorf("%d found by %v", len(l.Items), calls)
	}
}
