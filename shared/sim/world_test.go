package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func execution(w *sim.World) *workflow.Execution {
	return &workflow.Execution{
		Schema: 1, Tenant: "t", ID: w.NewID(), Version: 1, State: sm.ExecutionNew, Commit: w.Nonce(),
		Labels: map[string]string{"a": "b"}, Runs: []workflow.StepRun{{Label: "one"}}, DueAt: w.Now(),
	}
}

// TestNobodySharesMemory: what goes in and what comes out are copies.
func TestNobodySharesMemory(t *testing.T) {
	w := sim.New(1)
	s := w.Open().Store
	x := execution(w)
	if ok, err := s.Create(t.Context(), x); !ok || err != nil {
		t.Fatal(ok, err)
	}
	x.Labels["a"], x.Runs[0].Label = "changed", "changed"
	for range 2 {
		got, err := s.Load(t.Context(), "t", x.ID)
		if err != nil || got.Labels["a"] != "b" || got.Runs[0].Label != "one" {
			t.Fatalf("got %+v, %v", got, err)
		}
		got.Labels["a"], got.Runs[0].Label = "changed", "changed"
	}
}

// TestFaults: each fault does to a write what it says.
func TestFaults(t *testing.T) {
	for fault, want := range map[fate.Fault]struct{ done, dead, failed bool }{
		fate.None:        {done: true},
		fate.CrashBefore: {dead: true},
		fate.CrashAfter:  {done: true, dead: true},
		fate.LostReply:   {done: true, failed: true},
		fate.Throttled:   {failed: true},
		fate.Repeated:    {done: true},
	} {
		w := sim.New(1)
		x := execution(w)
		w.Faults = fate.At(1, fault)
		var err error
		dead := fate.Survive(func() { _, err = w.Open().Store.Create(t.Context(), x) })
		w.Faults = nil
		_, missing := w.Open().Store.Load(t.Context(), "t", x.ID)
		if done := missing == nil; done != want.done || dead != want.dead || workflow.Is(err, workflow.CodeUnavailable) != want.failed {
			t.Errorf("%s: done %v, dead %v, %v", fault, done, dead, err)
		}
	}
}

// TestStaleIndex: a stale index answers as before the last change, strong reads
// do not.
func TestStaleIndex(t *testing.T) {
	w := sim.New(1)
	w.Shards = 1
	s := w.Open().Store
	x := execution(w)
	_, err := s.Create(t.Context(), x)
	next := x.Clone()
	next.Version, next.State, next.DueAt, next.Commit = 2, sm.ExecutionValid, time.Time{}, w.Nonce()
	_, _, err2 := s.Commit(t.Context(), 1, next, false)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[fate.Fault]int{fate.None: 0, fate.Stale: 1} {
		w.Faults = func(fate.Call) fate.Fault { return fault }
		due, err := s.Due(t.Context(), 0, time.Time{}, w.Now(), workflow.Page{})
		listed, err2 := s.Listed(t.Context(), "t", sm.ExecutionNew, "", 10)
		got, err3 := s.Load(t.Context(), "t", x.ID)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		if len(due.Items) != want || len(listed) != want || got.Version != 2 {
			t.Errorf("%s: due %v, listed %v, version %d", fault, due.Items, listed, got.Version)
		}
	}
	if _, set := w.NextAlarm(); set {
		t.Error("an alarm is set")
	}
}

// TestSameSeedSameWorld: everything left to chance follows from the seed.
func TestSameSeedSameWorld(t *testing.T) {
	tell := func(seed uint64) (ids []string) {
		w := sim.New(seed)
		w.Deliveries.Shuffle, w.Deliveries.Duplicate = true, 2
		for range 10 {
			id := w.NewID()
			if len(ids) > 0 && id <= ids[len(ids)-1] && len(ids) < 10 {
				t.Errorf("%s follows %s", id, ids[len(ids)-1])
			}
			ids = append(ids, id)
			if err := w.Open().Board.Notify(t.Context(), 0, workflow.Look{Execution: id}); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range drain(w.Lifecycle()) {
			ids = append(ids, m.Look().Execution)
		}
		return ids
	}
	a, b, c := tell(1), tell(1), tell(2)
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
