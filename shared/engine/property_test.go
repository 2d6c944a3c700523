package engine_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/plot"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// chance is the script of a random play: what becomes of a call follows from the
// seed and the call alone, in whatever order calls are made.
type chance struct {
	seed                          uint64
	fail, retry, die, stall, quit int // one call in so many; 0 none
	stalled                       bool
}

func (c *chance) one(in int, what string, call stage.Call) bool {
	if in == 0 {
		return false
	}
	h := fnv.New64a()
	fmt.Fprint(h, c.seed, what, call.Step, call.Kind, call.Entity, call.Attempt, call.Fence)
	return h.Sum64()%uint64(in) == 0
}

func (c *chance) script(s *stage.Stage) func(stage.Call) *stage.Outcome {
	return func(call stage.Call) *stage.Outcome {
		o := &stage.Outcome{Die: c.one(c.die, fmt.Sprint("die", len(s.Called)), call)}
		if c.one(c.fail, "fail", call) {
			o.Fail, o.Retryable = "REFUSED", c.one(c.retry, "retry", call)
		}
		switch {
		case c.one(c.stall, "stall", call) && !c.stalled:
			o.Meanwhile = func() { // the worker stands still while the world goes on
				c.stalled = true
				s.Tick(3 * time.Minute)
				c.stalled = false
			}
		case c.one(c.quit, "quit", call):
			o.Meanwhile = func() {
				req := views.CancelRequest{Reason: "enough"}
				fate.Survive(func() {
					_, err := s.Engine.Cancel(context.Background(), stage.Caller, call.Execution, req)
					if err != nil && !workflow.Is(err, workflow.CodeUnavailable) && !workflow.Is(err, workflow.CodeIllegalTransition) {
						s.Error(err)
					}
				})
			}
		}
		return o
	}
}

// TestProperties: whatever the definition, the outcomes, the faults and the order
// of messages, every run ends once, as the oracle says, with a history that leads
// there, nothing is done twice that must not be, and nothing stays locked but by
// runs that wait for an operator.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawn(r)
		s := stage.New(tester{t, r}, p.seed, stage.Options())
		s.Blocks()
		devices := stage.Names(p.devices)
		s.Devices(devices...)
		s.Publish("w", p.plot.Text())
		s.Script = p.chance.script(s)
		s.Deliveries = p.deliveries
		random := rand.New(rand.NewPCG(p.seed, 1))
		if p.faults > 0 {
			s.Faults = func() fate.Faults {
				strike := fate.Randomly(random, p.faults, fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated, fate.Stale)
				left := 400 // after which the world recovers
				return func(c fate.Call) fate.Fault {
					if left--; left < 0 {
						return fate.None
					}
					return strike(c)
				}
			}()
		}
		var ids []string
		for range p.runs {
			from := s.Draw(p.devices)
			ids = append(ids, s.Start("w", devices[from:from+1+s.Draw(p.devices-from)]...))
			for range s.Draw(8) {
				s.Deliver()
			}
		}
		// Runs that end unsafely keep their locks: acknowledging them lets the
		// others go on.
		for n := 0; !s.Settle(20 * time.Minute); n++ {
			acknowledge(s, ids)
			if n > 500 {
				r.Fatalf("seed %d: it never ends: %v", p.seed, s.States(stage.Caller.Tenant))
			}
		}
		s.Faults = nil
		s.Judge()
		for _, id := range ids {
			s.Oracle(id, p.plot.Blocks(), p.plot.Handled(), p.plot.Tolerance)
		}
		acknowledge(s, ids)
		if l := s.Locks(); len(l) > 0 {
			r.Errorf("still locked: %+v", l)
		}
		if r.Failed() {
			r.Fatalf("seed %d\n%s%+v", p.seed, p.plot.Text(), p.chance)
		}
	})
}

func acknowledge(s *stage.Stage, ids []string) {
	for _, id := range ids {
		s.Without(func() {
			_, err := s.Engine.Acknowledge(context.Background(), stage.Caller, id, "seen")
			if err != nil && !workflow.Is(err, workflow.CodeIllegalTransition) {
				s.Error(err)
			}
		})
	}
}

// randomPlay is what is drawn for one play.
type randomPlay struct {
	seed       uint64
	plot       *plot.Definition
	devices    int
	runs       int
	faults     int
	chance     chance
	deliveries queue.Faults
}

func drawn(r *rapid.T) randomPlay {
	rarely := func(what string) int { return rapid.SampledFrom([]int{0, 0, 20, 8, 3}).Draw(r, what) }
	p := randomPlay{
		seed:    rapid.Uint64Range(0, 1<<32).Draw(r, "seed"),
		devices: rapid.IntRange(1, 7).Draw(r, "devices"), runs: rapid.IntRange(1, 4).Draw(r, "runs"),
		faults: rapid.SampledFrom([]int{0, 40, 10}).Draw(r, "faults"),
		deliveries: queue.Faults{
			Shuffle: rapid.Bool().Draw(r, "shuffle"), Duplicate: rapid.IntRange(0, 3).Draw(r, "duplicate"),
			Lose: rapid.SampledFrom([]int{0, 0, 8}).Draw(r, "lose"),
		},
	}
	p.chance = chance{
		seed: p.seed, fail: rarely("fail"), retry: 2, die: rarely("die"), stall: rarely("stall"), quit: rarely("quit"),
	}
	p.plot = plot.Draw(func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(r, what) })
	return p
}

// tester is a rapid.T where a testing.TB is wanted.
type tester struct {
	testing.TB
	r *rapid.T
}

func (t tester) Helper()                      {}
func (t tester) Cleanup(func())               {}
func (t tester) Failed() bool                 { return t.r.Failed() }
func (t tester) Fatal(args ...any)            { t.r.Fatal(args...) }
func (t tester) Fatalf(f string, args ...any) { t.r.Fatalf(f, args...) }
func (t tester) Error(args ...any)            { t.r.Error(args...) }
func (t tester) Errorf(f string, args ...any) { t.r.Errorf(f, args...) }
func (t tester) Logf(f string, args ...any)   { t.r.Logf(f, args...) }
