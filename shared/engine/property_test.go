package engine_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// randomOutcomes decides the outcome of each call from the seed and the call alone,
// whatever the order of calls.
type randomOutcomes struct {
	seed                              uint64
	fail, retry, crash, stall, cancel int // in one call out of this many; 0 for none
	stalled                           bool
}

func (c *randomOutcomes) oneIn(in int, what string, call harness.BlockCall) bool {
	if in == 0 {
		return false
	}
	h := fnv.New64a()
	fmt.Fprint(h, c.seed, what, call.Step, call.Kind, call.Entity, call.Attempt, call.Fence, string(call.Parameters))
	return h.Sum64()%uint64(in) == 0
}

func (c *randomOutcomes) script(s *harness.Harness) func(harness.BlockCall) *harness.Outcome {
	return func(call harness.BlockCall) *harness.Outcome {
		o := &harness.Outcome{Crash: c.oneIn(c.crash, fmt.Sprint("crash", len(s.BlockCalls)), call)}
		if c.oneIn(c.fail, "fail", call) {
			o.FailCode, o.Retryable = "REFUSED", c.oneIn(c.retry, "retry", call)
		}
		switch {
		case c.oneIn(c.stall, "stall", call) && !c.stalled:
			o.During = func() { // the worker pauses while everything else continues
				c.stalled = true
				s.RunFor(3 * time.Minute)
				c.stalled = false
			}
		case c.oneIn(c.cancel, "cancel", call):
			o.During = func() {
				req := views.CancelRequest{Reason: "enough"}
				faults.CatchCrash(func() {
					_, err := s.Engine.Cancel(context.Background(), harness.Caller, call.Execution, req)
					if err != nil && !workflow.Is(err, workflow.CodeUnavailable) && !workflow.Is(err, workflow.CodeIllegalTransition) {
						s.Error(err)
					}
				})
			}
		}
		return o
	}
}

// Whatever the definition, the outcomes, the faults and the order of messages: every execution ends
// once, as the oracle predicts, with a history that leads there. Nothing runs twice that must not,
// and only executions that wait for an operator keep locks.
func TestEngine_HoldsInvariantsUnderRandomFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawScenario(r)
		s := harness.New(rapidTB{t, r}, p.seed, harness.Options())
		s.RegisterBlocks()
		devices := harness.DeviceIDs(p.devices)
		s.ImportDevices(devices...)
		s.Publish("w", p.definition.YAML())
		s.Script, s.ItemsTolerated = p.outcomes.script(s), p.definition.ItemsTolerated()
		s.QueueFaults = p.deliveries
		random := rand.New(rand.NewPCG(p.seed, 1))
		if p.faults > 0 {
			s.Faults = func() faults.Plan {
				randomFault := faults.Randomly(random, p.faults, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated, faults.Stale)
				left := 400 // calls with faults; after them there are none
				return func(c faults.Call) faults.Fault {
					if left--; left < 0 {
						return faults.None
					}
					return randomFault(c)
				}
			}()
		}
		var ids []string
		for range p.executions {
			from := s.IntN(p.devices)
			ids = append(ids, s.Start("w", devices[from:from+1+s.IntN(p.devices-from)]...))
			for range s.IntN(8) {
				s.Deliver()
			}
		}
		// Executions that end unsafely keep their locks: acknowledging them lets the
		// others continue.
		for n := 0; !s.RunUntilIdle(20 * time.Minute); n++ {
			acknowledgeAll(s, ids)
			if n > 500 {
				r.Fatalf("seed %d: the executions do not end: %v", p.seed, s.States(harness.Caller.Tenant))
			}
		}
		s.Faults = nil
		s.CheckInvariants()
		for _, id := range ids {
			s.CheckOutcome(id, p.definition.BlocksByLabel(), p.definition.HandledSteps(), p.definition.FailureTolerance)
		}
		acknowledgeAll(s, ids)
		if l := s.Locks(); len(l) > 0 {
			r.Errorf("still locked: %+v", l)
		}
		if r.Failed() {
			r.Fatalf("seed %d\n%s%+v", p.seed, p.definition.YAML(), p.outcomes)
		}
	})
}

func acknowledgeAll(s *harness.Harness, ids []string) {
	for _, id := range ids {
		s.WithoutFaults(func() {
			_, err := s.Engine.Acknowledge(context.Background(), harness.Caller, id, "seen")
			if err != nil && !workflow.Is(err, workflow.CodeIllegalTransition) {
				s.Error(err)
			}
		})
	}
}

// randomScenario is drawn for one check.
type randomScenario struct {
	seed       uint64
	definition *defgen.Definition
	devices    int
	executions int
	faults     int
	outcomes   randomOutcomes
	deliveries sim.QueueFaults
}

func drawScenario(r *rapid.T) randomScenario {
	rarely := func(what string) int { return rapid.SampledFrom([]int{0, 0, 20, 8, 3}).Draw(r, what) }
	p := randomScenario{
		seed:    rapid.Uint64Range(0, 1<<32).Draw(r, "seed"),
		devices: rapid.IntRange(1, 7).Draw(r, "devices"), executions: rapid.IntRange(1, 4).Draw(r, "executions"),
		faults: rapid.SampledFrom([]int{0, 40, 10}).Draw(r, "faults"),
		deliveries: sim.QueueFaults{
			Shuffle: rapid.Bool().Draw(r, "shuffle"), DuplicateOneIn: rapid.IntRange(0, 3).Draw(r, "duplicate"),
			LoseOneIn: rapid.SampledFrom([]int{0, 0, 8}).Draw(r, "lose"),
		},
	}
	p.outcomes = randomOutcomes{
		seed: p.seed, fail: rarely("fail"), retry: 2, crash: rarely("crash"), stall: rarely("stall"), cancel: rarely("cancel"),
	}
	p.definition = defgen.Generate(func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(r, what) })
	return p
}

// rapidTB makes a testing.TB of a rapid.T.
type rapidTB struct {
	testing.TB
	r *rapid.T
}

func (t rapidTB) Helper()                      {}
func (t rapidTB) Cleanup(func())               {}
func (t rapidTB) Failed() bool                 { return t.r.Failed() }
func (t rapidTB) Fatal(args ...any)            { t.r.Fatal(args...) }
func (t rapidTB) Fatalf(f string, args ...any) { t.r.Fatalf(f, args...) }
func (t rapidTB) Error(args ...any)            { t.r.Error(args...) }
func (t rapidTB) Errorf(f string, args ...any) { t.r.Errorf(f, args...) }
func (t rapidTB) Logf(f string, args ...any)   { t.r.Logf(f, args...) }
