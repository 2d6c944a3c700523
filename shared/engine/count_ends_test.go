package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func newCounted(t testing.TB, seed uint64, definition string) *harness.Harness {
	o := harness.Options()
	o.SubscriptionsAge, o.CountEnds = subscriptionsAge, true
	s := harness.New(t, seed, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(3)...)
	s.Publish("w", definition)
	return s
}

// countedEnds lists the ends that are stored.
func countedEnds(s *harness.Harness) (all []workflow.End) {
	s.Helper()
	s.WithoutFaults(func() {
		for day := s.Now().Add(-48 * time.Hour); !day.After(s.Now().Add(24 * time.Hour)); day = day.Add(24 * time.Hour) {
			list, err := s.Open().Registry.Ends(context.Background(), harness.Caller.Tenant, workflow.EndDay(day), "", workflow.Page{})
			if err != nil {
				s.Fatal(err)
			}
			all = append(all, list.Items...)
		}
	})
	return all
}

// F38: whatever call fails, or a process dies before or after, or a message comes twice, each end of an
// execution is counted, and once.
func TestCountEnds_EachCountsOnce(t *testing.T) {
	for _, name := range []string{"completes", "unsafe", "tried again"} {
		c := observedScenarios[name]
		t.Run(name, func(t *testing.T) {
			for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply} {
				for n := 1; ; n++ {
					hit := false
					s := newCounted(t, 1, c.definition)
					s.Script = c.script
					s.QueueFaults.DuplicateOneIn = 3
					at := faults.At(n, fault)
					s.Faults = func(call faults.Call) faults.Fault {
						f := at(call)
						hit = hit || f != faults.None
						return f
					}
					id := s.Start("w", harness.DeviceIDs(2)...)
					s.RunFor(2 * time.Hour)
					if c.command != nil {
						faults.CatchCrash(func() { c.command(s, id) })
						s.RunFor(2 * time.Hour)
					}
					s.Faults = nil
					s.RunFor(2 * time.Hour)
					var want, got []string
					for _, e := range s.History(id) {
						if e.Layer != string(sm.LayerExecution) || e.From == e.To {
							continue
						}
						switch state := sm.ExecutionState(e.To); state {
						case sm.ExecutionCompleted, sm.ExecutionFailedSafe, sm.ExecutionFailedUnsafe, sm.ExecutionCancelled:
							want = append(want, fmt.Sprintf("p/w:1.0.0#%s.%d %s", id, e.Sequence, state))
						}
					}
					for _, e := range countedEnds(s) {
						got = append(got, e.ID()+" "+string(e.State))
					}
					slices.Sort(want)
					slices.Sort(got)
					if !slices.Equal(got, want) || len(want) == 0 {
						t.Fatalf("%v at call %d: counted %v, the history has %v", fault, n, got, want)
					}
					if !hit {
						break
					}
				}
			}
		})
	}
}

// An end took the time since the execution was created, or last retried before it, whatever has become of the
// execution when the end is counted. A probe counts for nothing.
func TestCountEnds_KnowsHowLong(t *testing.T) {
	const takes, idle = 12 * time.Minute, 5 * time.Hour
	for _, how := range []string{"each end at once", "the retry first, then all ends", "all at the end"} {
		for _, first := range []string{"pure", "once"} { // the next try acquires its locks again, or still has them
			t.Run(how+" "+first, func(t *testing.T) {
				s := newCounted(t, 1, "config: {rollback: never}\n"+stepsYAML("one "+first+" device")+"  - {label: rest, wait: {for: 12m}}\n  - {label: two, functionBlock: 'p/pure:1', runOn: global}\n")
				tries := 0
				s.Script = func(c harness.BlockCall) *harness.Outcome {
					if c.Step != "two" {
						return nil
					}
					if tries++; tries < 4 {
						return &harness.Outcome{FailCode: "NO"}
					}
					return nil
				}
				late := func(c faults.Call) faults.Fault {
					if c.Name == "registry.put_end" {
						return faults.Throttled
					}
					return faults.None
				}
				if how == "all at the end" {
					s.Faults = late
				}
				id := s.Start("w", harness.DeviceIDs(1)...)
				s.RunFor(idle)
				for try := 2; try <= 4; try++ {
					if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{From: "rest"}); err != nil {
						t.Fatal(err)
					}
					s.RunFor(time.Minute)
					if how == "the retry first, then all ends" {
						s.Faults = late
					}
					s.RunFor(idle)
				}
				s.Faults = nil
				s.RunFor(idle)
				s.ExpectState(id, sm.ExecutionCompletedAck)
				ends := countedEnds(s)
				if len(ends) != 4 {
					t.Fatalf("%+v", ends)
				}
				for i, e := range ends {
					if e.Took.Round(3*time.Minute) != takes {
						t.Errorf("try %d took %s, want about %s", i+1, e.Took, takes)
					}
				}
			})
		}
	}
}

// Part of what completed may have failed.
func TestCountEnds_KnowsHowWell(t *testing.T) {
	s := newCounted(t, 1, "config: {failureTolerance: 1}\n"+stepsYAML("one pure device", "two pure global"))
	fail := true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "two" && fail:
			return &harness.Outcome{FailCode: "NO"}
		case c.Step == "one" && c.Entity == harness.DeviceIDs(2)[1]:
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	s.RunFor(2 * time.Hour)
	fail = false
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(2 * time.Hour)
	got := countedEnds(s)
	if len(got) != 2 || got[0].State != sm.ExecutionFailedSafe || got[0].Partial || got[1].State != sm.ExecutionCompleted || !got[1].Partial {
		t.Fatalf("%+v", got)
	}
}

// TestCost_OfACountedExecution is what docs/cost.md says of observe.metrics.
func TestCost_OfACountedExecution(t *testing.T) {
	run := func(counted bool) (writes, registry, reads, requests float64) {
		o := harness.Options()
		o.SubscriptionsAge, o.CountEnds = subscriptionsAge, counted
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(1)...)
		s.Publish("w", stepsYAML("one again device"))
		before := s.Consumed()
		id := s.Start("w", harness.DeviceIDs(1)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		used := s.Consumed()
		for table, n := range used.ReadUnits {
			reads += n - before.ReadUnits[table]
		}
		return used.WriteUnits["executions"] - before.WriteUnits["executions"], used.WriteUnits["registry"] - before.WriteUnits["registry"], reads, float64(used.QueueRequests - before.QueueRequests)
	}
	w0, g0, r0, q0 := run(false)
	w1, g1, r1, q1 := run(true)
	if got, want := [4]float64{w1 - w0, g1 - g0, r1 - r0, math.Round(q1 - q0)}, [4]float64{3, 1, 7, 3}; got != want {
		t.Errorf("counting costs %v write units of executions, write units of registry, read units and requests of queues, want %v", got, want)
	}
}
