package engine_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Four jobs of 12 seconds, one at a time, do not fit into 5 seconds: the first runs to its end, no
// other one begins, and the timeout is noticed when it has passed and not when the timers are
// swept.
func TestDeadline_StartsNothingLater(t *testing.T) {
	for name, c := range map[string]struct{ config, step string }{
		"of a step":       {"config: {maxInFlight: 1}\n", ", stepTimeout: 5s"},
		"of an execution": {"config: {maxInFlight: 1, timeout: 5s}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 4)
			s.Script = takes(s, 12*time.Second)
			s.Publish("w", c.config+stepsYAML("one once device "+c.step))
			id := s.Start("w", harness.DeviceIDs(4)...)
			settle(s)
			x := s.Load(id)
			if x.Status() != sm.StatusFailed || x.Cause != workflow.CauseTimeout {
				t.Errorf("it has ended in %s because of %s", x.State, x.Cause)
			}
			if calls := s.CallsOf(id); len(calls) != 2 || calls[0] != "one EXECUTE d000" || calls[1] != "one ROLLBACK d000" {
				t.Errorf("calls %v, want one job and its undo", calls)
			}
			if late := leftRunningAt(t, x).Sub(x.StartedAt) - 5*time.Second; late < 0 || late > time.Second {
				t.Errorf("the time-out was noticed %s late", late)
			}
		})
	}
}

// Workers alone, without the engine, start no lane of a step whose time is over.
func TestDeadline_HoldsWithoutEngine(t *testing.T) {
	for name, c := range map[string]struct{ config, step string }{
		"of a step":       {"config: {maxInFlight: 1}\n", ", stepTimeout: 5s"},
		"of an execution": {"config: {maxInFlight: 1, timeout: 5s}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 4)
			s.Script = func(harness.BlockCall) *harness.Outcome {
				return &harness.Outcome{During: func() { s.Advance(12 * time.Second) }}
			}
			s.Publish("w", c.config+stepsYAML("one again device "+c.step))
			id := s.Start("w", harness.DeviceIDs(4)...)
			s.DrainPacks()
			if calls := s.CallsOf(id); len(calls) != 1 {
				t.Errorf("calls %v, want one", calls)
			}
		})
	}
}

// leftRunningAt is when an execution left RUNNING for the last time.
func leftRunningAt(t *testing.T, x *workflow.Execution) (at time.Time) {
	t.Helper()
	for _, e := range x.Events {
		if e.From == string(sm.ExecutionRunning) && e.To == string(sm.ExecutionError) {
			at = e.At
		}
	}
	if at.IsZero() {
		t.Fatal("it has not left RUNNING for ERROR")
	}
	return at
}

// A pack that the timer has to seize, because its worker died too often, is read again at once:
// the execution does not wait for the next sweep of timers.
func TestAdvance_ReadsAgainAtOnceWhatTheTimerHasSeized(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one again device"))
	claims := 0
	s.Script = func(harness.BlockCall) *harness.Outcome {
		if claims++; claims == harness.Options().Dispatch.MaxTakeovers {
			s.PoolQueue("default").Purge() // nobody learns that the last worker died
		}
		return &harness.Outcome{Crash: true}
	}
	var seized time.Time
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "packs.force_cancel" {
			seized = s.Now()
		}
		return faults.None
	}
	id := s.Start("w", "d000")
	s.RunFor(time.Hour)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if took := x.EndedAt.Sub(seized); seized.IsZero() || took > 10*time.Second {
		t.Errorf("it ends %s after its pack was seized at %s", took, seized)
	}
}
