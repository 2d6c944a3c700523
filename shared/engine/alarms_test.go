package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// alarmFixture keeps when a metric was written.
type alarmFixture struct {
	*fixture
	values map[string][]testkit.Measured
}

func newAlarmFixture(t *testing.T) *alarmFixture {
	f := &alarmFixture{fixture: newFixture(t, nil), values: map[string][]testkit.Measured{}}
	f.Engine.RecordMetric = func(_ context.Context, metric string, n int) { f.write(metric, n) }
	f.ImportDevices(harness.DeviceIDs(20)...)
	f.RegisterBlock(workflow.Block{Name: "far", Pure: true, Pool: "nobody"})
	return f
}

func (f *alarmFixture) write(metric string, n int) {
	f.values[metric] = append(f.values[metric], testkit.Measured{At: f.Now(), Value: n})
}

// start starts executions over devices of their own.
func (f *alarmFixture) start(n int) (ids []string) {
	for i := range n {
		ids = append(ids, f.Start("w", fmt.Sprintf("d%03d", i)))
	}
	return ids
}

// sweepUntil sweeps once a minute, as the schedule does, and writes what the function writes.
func (f *alarmFixture) sweepUntil(end time.Time) {
	f.Helper()
	timeouts := workers.LivenessTimeouts{Unreachable: time.Minute, Offline: time.Hour, Forget: time.Hour}
	for f.Now().Before(end) {
		f.Advance(time.Minute)
		swept, err := scheduler.Sweep(f.Context(), f.Engine, timeouts, f.Shards)
		if err != nil {
			f.Fatal(err)
		}
		f.write(topology.MetricStuckExecutions, swept.Stuck)
	}
}

// Each alarm on a metric of the engine is raised by the fault that it watches, through the metrics
// that the engine then writes, and not by anything just short of it.
func TestAlarms_FireByTheirFaults(t *testing.T) {
	failing := func(steps string) func(*alarmFixture) {
		return func(f *alarmFixture) {
			f.Publish("w", stepsYAML(steps))
			f.Script = func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
		}
	}
	for _, c := range []struct {
		alarm, what string
		fires       bool
		fault       func(*alarmFixture)
	}{
		{"RecursionGuard", "a step that repeats without end", true, func(f *alarmFixture) {
			f.Publish("w", "steps:\n  - {label: again, functionBlock: p/again:1, runOn: device, repeat: {count: 99}}\n")
			f.start(1)
			f.Drain()
		}},
		{"RecursionGuard", "a step that ends", false, func(f *alarmFixture) {
			f.Publish("w", stepsYAML("one pure device"))
			f.start(1)
			f.Drain()
		}},
		{"FailedUnsafe", "an execution that ends unsafe", true, func(f *alarmFixture) {
			failing("one forever device")(f)
			f.start(1)
			f.RunFor(time.Minute)
		}},
		{"FailedUnsafe", "executions that end safe", false, func(f *alarmFixture) {
			failing("one pure device")(f)
			f.start(12)
			f.RunFor(time.Minute)
		}},
		{"FailedSafe", "many executions that end safe", true, func(f *alarmFixture) {
			failing("one pure device")(f)
			f.start(10)
			f.RunFor(time.Minute)
		}},
		{"FailedSafe", "a few of them", false, func(f *alarmFixture) {
			failing("one pure device")(f)
			f.start(9)
			f.RunFor(time.Minute)
		}},
		{"Unclaimed", "a pool without workers", true, func(f *alarmFixture) {
			f.Publish("w", stepsYAML("one far device"))
			f.start(1)
			f.RunFor(3 * time.Hour)
		}},
		{"Unclaimed", "a pool with workers", false, func(f *alarmFixture) {
			failing("one pure device")(f)
			f.start(1)
			f.RunFor(3 * time.Hour)
		}},
		{"LockAge", "a lock that is held for 40 minutes", true, waitForUnsafeHolder(40 * time.Minute)},
		{"LockAge", "a lock that is held for 20 minutes", false, waitForUnsafeHolder(20 * time.Minute)},
		{"StuckExecutions", "an execution whose wake-ups fail", true, sweepStuck(0)},
		{"StuckExecutions", "one whose wake-ups fail for twelve minutes", false, sweepStuck(12 * time.Minute)},
	} {
		t.Run(c.alarm+" "+c.what, func(t *testing.T) {
			a, f := testkit.ReadAlarm(t, c.alarm), newAlarmFixture(t)
			c.fault(f)
			if got := a.Fires(f.values[a.Metric]); got != c.fires {
				t.Errorf("raised: %v, want %v, by %s %v", got, c.fires, a.Metric, f.values[a.Metric])
			}
		})
	}
}

// waitForUnsafeHolder lets an execution wait for the lock of one that has ended unsafe.
func waitForUnsafeHolder(wait time.Duration) func(*alarmFixture) {
	return func(f *alarmFixture) {
		f.Publish("w", stepsYAML("one forever device"))
		f.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
		holder := f.start(1)[0]
		f.RunFor(time.Minute)
		f.ExpectState(holder, sm.ExecutionFailedUnsafe)
		waiter := f.Start("w", "d000")
		f.RunFor(wait)
		f.ExpectState(waiter, sm.ExecutionScheduled)
	}
}

// sweepStuck lets the wake-ups of an execution fail, until it is mended or for an hour.
func sweepStuck(mended time.Duration) func(*alarmFixture) {
	return func(f *alarmFixture) {
		f.Publish("w", stepsYAML("one pure device"))
		f.Faults = faults.Every(faults.Throttled, "locks.read")
		id := f.start(1)[0]
		due := f.Load(id).DueAt
		if mended == 0 {
			f.sweepUntil(due.Add(time.Hour))
			return
		}
		f.sweepUntil(due.Add(mended))
		f.Faults = nil
		f.Drain()
		f.ExpectState(id, sm.ExecutionCompletedAck)
		f.sweepUntil(due.Add(time.Hour))
		if !slices.ContainsFunc(f.values[topology.MetricStuckExecutions], func(m testkit.Measured) bool { return m.Value == 0 }) {
			f.Error("the sweeps write nothing")
		}
	}
}
