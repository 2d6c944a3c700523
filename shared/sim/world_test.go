package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func executionItem(w *sim.World) *workflow.Execution {
	return &workflow.Execution{
		Schema: 1, Tenant: "t", ID: w.NewID(), Version: 1, State: sm.ExecutionNew, Commit: w.Nonce(),
		Labels: map[string]string{"a": "b"}, StepRuns: []workflow.StepRun{{Label: "one"}}, DueAt: w.Now(),
	}
}

// TestStore_CopiesValues: a store copies what it is given and what it returns.
func TestStore_CopiesValues(t *testing.T) {
	w := sim.New(1)
	s := w.Open().Store
	x := executionItem(w)
	if ok, err := s.Create(t.Context(), x); !ok || err != nil {
		t.Fatal(ok, err)
	}
	x.Labels["a"], x.StepRuns[0].Label = "changed", "changed"
	for range 2 {
		got, err := s.Load(t.Context(), "t", x.ID)
		if err != nil || got.Labels["a"] != "b" || got.StepRuns[0].Label != "one" {
			t.Fatalf("got %+v, %v", got, err)
		}
		got.Labels["a"], got.StepRuns[0].Label = "changed", "changed"
	}
}

// TestWorld_InjectsFaults: each fault has its effect on a write.
func TestWorld_InjectsFaults(t *testing.T) {
	for fault, want := range map[faults.Fault]struct{ done, crashed, failed bool }{
		faults.None:        {done: true},
		faults.CrashBefore: {crashed: true},
		faults.CrashAfter:  {done: true, crashed: true},
		faults.LostReply:   {done: true, failed: true},
		faults.Throttled:   {failed: true},
		faults.Repeated:    {done: true},
	} {
		w := sim.New(1)
		x := executionItem(w)
		w.Faults = faults.At(1, fault)
		var err error
		crashed := faults.CatchCrash(func() { _, err = w.Open().Store.Create(t.Context(), x) })
		w.Faults = nil
		_, missing := w.Open().Store.Load(t.Context(), "t", x.ID)
		if done := missing == nil; done != want.done || crashed != want.crashed || workflow.Is(err, workflow.CodeUnavailable) != want.failed {
			t.Errorf("%s: done %v, crashed %v, %v", fault, done, crashed, err)
		}
	}
}

// TestStore_StaleIndex: a stale index answers as before the last change, strong reads
// do not.
func TestStore_StaleIndex(t *testing.T) {
	w := sim.New(1)
	w.Shards = 1
	s := w.Open().Store
	x := executionItem(w)
	_, err := s.Create(t.Context(), x)
	next := x.Clone()
	next.Version, next.State, next.DueAt, next.Commit = 2, sm.ExecutionScheduled, time.Time{}, w.Nonce()
	_, _, err2 := s.Commit(t.Context(), 1, next, workflow.CommitOptions{})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[faults.Fault]int{faults.None: 0, faults.Stale: 1} {
		w.Faults = func(faults.Call) faults.Fault { return fault }
		due, err := s.DueExecutions(t.Context(), 0, time.Time{}, w.Now(), workflow.Page{})
		listed, err2 := s.ListByState(t.Context(), "t", sm.ListedAs(sm.ExecutionNew), "", workflow.OrderNewest, 10)
		got, err3 := s.Load(t.Context(), "t", x.ID)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		if len(due.Items) != want || len(listed) != want || got.Version != 2 {
			t.Errorf("%s: due %v, listed %v, version %d", fault, due.Items, listed, got.Version)
		}
	}
	if _, set := w.NextTimer(); set {
		t.Error("a timer is set")
	}
}

// TestWorld_DeterministicBySeed: all randomness follows from the seed.
func TestWorld_DeterministicBySeed(t *testing.T) {
	collectIDs := func(seed uint64) (ids []string) {
		w := sim.New(seed)
		w.QueueFaults.Shuffle, w.QueueFaults.DuplicateOneIn = true, 2
		for range 10 {
			id := w.NewID()
			if len(ids) > 0 && id <= ids[len(ids)-1] && len(ids) < 10 {
				t.Errorf("%s follows %s", id, ids[len(ids)-1])
			}
			ids = append(ids, id)
			if err := w.Open().Sender.SendWakeups(t.Context(), 0, workflow.Wakeup{Execution: id}); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range drain(w.LifecycleQueue()) {
			ids = append(ids, m.Wakeup().Execution)
		}
		return ids
	}
	a, b, c := collectIDs(1), collectIDs(1), collectIDs(2)
	if !equal(a, b) || equal(a, c) {
		t.Errorf("seed 1 %v\nand again %v\nseed 2 %v", a, b, c)
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
