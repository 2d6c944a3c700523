package workers_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fixture is a simulated world with a worker registry.
type fixture struct {
	*testing.T
	*sim.World
	registry *workers.Registry
	ctx      context.Context
}

var timeouts = workers.LivenessTimeouts{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

func newFixture(t *testing.T) *fixture {
	w := sim.New(1)
	return &fixture{t, w, &workers.Registry{Workers: w.Open().Workers, Timeouts: timeouts, Now: w.Now}, context.Background()}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) register(id string, blocks ...string) {
	f.Helper()
	_, err := f.registry.Register(f.ctx, workflow.Worker{Tenant: "acme", ID: id, Pool: "edge", Blocks: blocks})
	f.must(err)
}

func (f *fixture) heartbeat(id string, held ...workflow.ClaimedPack) {
	f.Helper()
	f.must(heartbeatOf(f.registry.Heartbeat(f.ctx, "acme", id, held)))
}

// sweep sweeps every shard and returns how many workers changed state.
func (f *fixture) sweep() (changed int) {
	f.Helper()
	return f.sweepWith(f.registry.Workers)
}

// sweepWith sweeps through the given port.
func (f *fixture) sweepWith(store port.Workers) (changed int) {
	f.Helper()
	e := &engine.Engine{Deps: engine.Deps{Now: f.Now, Log: slog.New(slog.DiscardHandler), OpenPorts: func() port.Ports {
		return port.Ports{Workers: store, Store: f.Open().Store, Sender: f.Open().Sender, Schedules: f.Open().Schedules}
	}}}
	swept, err := scheduler.Sweep(f.ctx, e, timeouts, f.Shards)
	f.must(err)
	return swept.WorkersChanged
}

func (f *fixture) state(id string) sm.WorkerState {
	f.Helper()
	w, err := f.registry.Worker(f.ctx, "acme", id)
	if workflow.Is(err, workflow.CodeNotFound) {
		return sm.WorkerRemoved
	}
	f.must(err)
	return w.State
}

func (f *fixture) wantState(id string, want sm.WorkerState) {
	f.Helper()
	if got := f.state(id); got != want {
		f.Errorf("after %s: %s is %s, want %s", f.Now().Sub(sim.StartTime), id, got, want)
	}
}

// N51: a worker without heartbeats is UNREACHABLE after 2 minutes, OFFLINE after 6 and
// removed after a day, at the first sweep, whether it was REGISTERED or ONLINE before.
func TestRegistry_SilentWorkerChangesState(t *testing.T) {
	for _, online := range []bool{false, true} {
		f := newFixture(t)
		f.register("w")
		f.wantState("w", sm.WorkerRegistered)
		if online {
			f.heartbeat("w")
			f.wantState("w", sm.WorkerOnline)
		}
		before := f.state("w")
		for _, c := range []struct {
			after time.Duration
			state sm.WorkerState
		}{
			{2*time.Minute - time.Millisecond, before},
			{time.Millisecond, sm.WorkerUnreachable},
			{4*time.Minute - time.Millisecond, sm.WorkerUnreachable},
			{time.Millisecond, sm.WorkerOffline},
			{24*time.Hour - 6*time.Minute - time.Millisecond, sm.WorkerOffline},
			{time.Millisecond, sm.WorkerRemoved},
		} {
			f.Advance(c.after)
			f.sweep()
			f.wantState("w", c.state)
		}
		if n := f.sweep(); n != 0 {
			t.Errorf("a sweep without due workers changed %d", n)
		}
		if err := heartbeatOf(f.registry.Heartbeat(f.ctx, "acme", "w", nil)); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("heartbeat of a removed worker: %v", err)
		}
		f.register("w")
		f.wantState("w", sm.WorkerRegistered)
	}
}

// N51: any heartbeat makes a worker ONLINE again, and the timeouts count from that
// heartbeat, not from an earlier due time.
func TestRegistry_HeartbeatBringsWorkerBack(t *testing.T) {
	for _, silent := range []time.Duration{3 * time.Minute, 7 * time.Minute} {
		f := newFixture(t)
		f.register("w")
		f.heartbeat("w")
		f.Advance(silent)
		f.sweep()
		if workers.AcceptsPacks(f.state("w")) {
			t.Errorf("a worker in state %s gets new packs", f.state("w"))
		}
		f.heartbeat("w")
		f.wantState("w", sm.WorkerOnline)
		f.Advance(2*time.Minute - time.Millisecond)
		f.sweep()
		f.wantState("w", sm.WorkerOnline)
		f.Advance(time.Millisecond)
		f.sweep()
		f.wantState("w", sm.WorkerUnreachable)
		f.register("w") // it was restarted
		f.wantState("w", sm.WorkerRegistered)
	}
}

// A late sweep applies one state after the other.
func TestRegistry_LateSweepCatchesUp(t *testing.T) {
	f := newFixture(t)
	f.register("w")
	f.Advance(23 * time.Hour)
	f.sweep()
	f.wantState("w", sm.WorkerOffline)
	f.Advance(2 * time.Hour)
	f.sweep()
	f.wantState("w", sm.WorkerRemoved)
}

type workersPort = port.Workers

// beforePut calls hook once, right before a worker is written.
type beforePut struct {
	workersPort
	hook func()
}

func (b *beforePut) PutWorker(ctx context.Context, seen, next *workflow.Worker) (bool, error) {
	if hook := b.hook; hook != nil {
		b.hook = nil
		hook()
	}
	return b.workersPort.PutWorker(ctx, seen, next)
}

// R24: a heartbeat between the sweeper's read and its write wins.
func TestRegistry_ConcurrentHeartbeatWins(t *testing.T) {
	f := newFixture(t)
	f.register("w")
	f.heartbeat("w")
	f.Advance(3 * time.Minute)
	other := *f.registry
	f.registry.Workers = &beforePut{f.registry.Workers, func() { f.must(heartbeatOf(other.Heartbeat(f.ctx, "acme", "w", nil))) }}
	if n := f.sweep(); n != 0 {
		t.Errorf("%d workers changed", n)
	}
	f.wantState("w", sm.WorkerOnline)
	f.Advance(3 * time.Minute)
	f.sweep()
	f.wantState("w", sm.WorkerUnreachable)
}

// Two overlapping sweeps change a worker once, and wake its executions once.
func TestRegistry_OverlappingSweeps(t *testing.T) {
	f := newFixture(t)
	f.register("w")
	stepRun := workflow.StepRunKey{Tenant: "acme", Execution: "x1", Ordinal: 1, Seq: 1}
	f.heartbeat("w")
	f.heartbeat("w", stepRun.Pack(0, 1).ClaimedPack(), stepRun.Pack(1, 1).ClaimedPack())
	f.Advance(10 * time.Minute)
	other := *f.registry
	changed := 0
	f.registry.Workers = &beforePut{f.registry.Workers, func() {
		changed += f.sweepWith(other.Workers)
	}}
	if changed += f.sweep(); changed != 1 {
		t.Errorf("changed %d times", changed)
	}
	f.wantState("w", sm.WorkerOffline)
	var wakeups []workflow.Wakeup
	for {
		m, ok := f.LifecycleQueue().Receive(time.Hour)
		if !ok {
			break
		}
		wakeups = append(wakeups, m.Wakeup())
	}
	if len(wakeups) != 1 || wakeups[0].Execution != "x1" || wakeups[0].Tenant != "acme" {
		t.Errorf("wake-ups %+v", wakeups)
	}
}

// The work of a sweep is proportional to the workers that are due, not to all workers.
func TestRegistry_SweepReadsOnlyDueWorkers(t *testing.T) {
	f := newFixture(t)
	for i := range 50 {
		f.register("w" + string(rune('A'+i)))
	}
	calls := len(f.Trace())
	f.sweep()
	n := 0
	for _, call := range f.Trace()[calls:] {
		if strings.Contains(fmt.Sprint(call), "workers.") {
			n++
		}
	}
	if n != f.Shards {
		t.Errorf("%d calls although no worker is due, want one for each shard", n)
	}
}

func TestRegistry_UnregisterRemovesWorker(t *testing.T) {
	f := newFixture(t)
	f.register("w")
	f.heartbeat("w")
	_, err := f.registry.Unregister(f.ctx, "acme", "w")
	f.must(err)
	f.wantState("w", sm.WorkerRemoved)
	if _, err := f.registry.Unregister(f.ctx, "acme", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := f.registry.Worker(f.ctx, "other", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("worker of another tenant: %v", err)
	}
	f.Advance(time.Hour)
	if n := f.sweep(); n != 0 {
		t.Errorf("%d workers changed", n)
	}
}

func TestRegistry_ListByBlock(t *testing.T) {
	f := newFixture(t)
	f.register("a", "p/x:1", "p/y")
	f.register("b", "p/y:1.2")
	f.register("c", "p/x:1.0.0")
	for text, want := range map[string][]string{"p/x:1.0.0": {"a", "c"}, "p/y:1.2.7": {"a", "b"}, "p/y:2.0.0": {"a"}, "p/z:1.0.0": nil, "p/x:2.0.0": nil} {
		ref, err := workflow.ParseRef(text)
		f.must(err)
		var got []string
		page := workflow.Page{Limit: 1}
		for {
			list, err := f.registry.List(f.ctx, "acme", &ref, page)
			f.must(err)
			for _, w := range list.Items {
				got = append(got, w.ID)
			}
			if page.Token = list.NextToken; page.Token == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func heartbeatOf(_ bool, err error) error { return err }

// A draining worker learns so with each heartbeat, gets no packs, and drains until it registers
// again. Silence makes it OFFLINE, not UNREACHABLE.
func TestRegistry_DrainsUntilItRegistersAgain(t *testing.T) {
	f := newFixture(t)
	if _, err := f.registry.Drain(f.ctx, "acme", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("an unknown worker is drained: %v", err)
	}
	f.register("w")
	f.heartbeat("w")
	for range 2 {
		_, err := f.registry.Drain(f.ctx, "acme", "w")
		f.must(err)
		f.wantState("w", sm.WorkerDraining)
	}
	held := workflow.PackKey{Tenant: "acme", Execution: "x1", StepRunOrdinal: 1, StepRunSeq: 1}.ClaimedPack()
	f.Advance(3 * time.Minute)
	f.sweep()
	draining, err := f.registry.Heartbeat(f.ctx, "acme", "w", []workflow.ClaimedPack{held})
	f.must(err)
	w, err := f.registry.Worker(f.ctx, "acme", "w")
	f.must(err)
	if !draining || w.State != sm.WorkerDraining || workers.AcceptsPacks(w.State) || len(w.ClaimedPacks) != 1 || !w.LastSeenAt.Equal(f.Now()) {
		t.Errorf("draining %v: %+v", draining, w)
	}
	f.Advance(7 * time.Minute)
	f.sweep()
	f.wantState("w", sm.WorkerOffline)
	_, err = f.registry.Drain(f.ctx, "acme", "w")
	f.must(err)
	f.wantState("w", sm.WorkerDraining)
	f.register("w")
	f.wantState("w", sm.WorkerRegistered)
	if draining, err := f.registry.Heartbeat(f.ctx, "acme", "w", nil); draining || err != nil {
		t.Errorf("after it was started again: draining %v, %v", draining, err)
	}
}

// afterHeartbeat calls hook once, right after a heartbeat that found the worker in another state.
type afterHeartbeat struct {
	workersPort
	hook func()
}

func (b *afterHeartbeat) Heartbeat(ctx context.Context, tenant, id string, state sm.WorkerState, at time.Time, held []workflow.ClaimedPack) (bool, *workflow.Worker, error) {
	ok, old, err := b.workersPort.Heartbeat(ctx, tenant, id, state, at, held)
	if hook := b.hook; hook != nil {
		b.hook = nil
		hook()
	}
	return ok, old, err
}

// An operator who drains a worker during its first heartbeat wins.
func TestRegistry_ConcurrentHeartbeatDoesNotEndDraining(t *testing.T) {
	f := newFixture(t)
	f.register("w")
	other := *f.registry
	f.registry.Workers = &afterHeartbeat{f.registry.Workers, func() {
		_, err := other.Drain(f.ctx, "acme", "w")
		f.must(err)
	}}
	draining, err := f.registry.Heartbeat(f.ctx, "acme", "w", nil)
	f.must(err)
	if f.wantState("w", sm.WorkerDraining); !draining {
		t.Error("the worker is not told")
	}
}
