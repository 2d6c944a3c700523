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
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim"
)

// fixture is a world with a roster.
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

func (h *fixture) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *fixture) register(id string, blocks ...string) {
	h.Helper()
	_, err := h.registry.Register(h.ctx, workflow.Worker{Tenant: "acme", ID: id, Pool: "edge", Blocks: blocks})
	h.must(err)
}

func (h *fixture) beat(id string, held ...workflow.ClaimedPack) {
	h.Helper()
	h.must(h.registry.Heartbeat(h.ctx, "acme", id, held))
}

// sweep sweeps every shard and reports how many workers moved.
func (h *fixture) sweep() (changed int) {
	h.Helper()
	return h.sweepWith(h.registry.Workers)
}

// sweepWith sweeps what may be another view of the workers.
func (h *fixture) sweepWith(store port.Workers) (changed int) {
	h.Helper()
	e := &engine.Engine{Deps: engine.Deps{Now: h.Now, Log: slog.New(slog.DiscardHandler), OpenPorts: func() port.Ports {
		return port.Ports{Workers: store, Store: h.Open().Store, Sender: h.Open().Sender, Schedules: h.Open().Schedules}
	}}}
	swept, err := scheduler.Sweep(h.ctx, e, timeouts, h.Shards)
	h.must(err)
	return swept.WorkersChanged
}

func (h *fixture) state(id string) sm.WorkerState {
	h.Helper()
	w, err := h.registry.Worker(h.ctx, "acme", id)
	if workflow.Is(err, workflow.CodeNotFound) {
		return sm.WorkerRemoved
	}
	h.must(err)
	return w.State
}

func (h *fixture) wantState(id string, want sm.WorkerState) {
	h.Helper()
	if got := h.state(id); got != want {
		h.Errorf("after %s: %s is %s, want %s", h.Now().Sub(sim.StartTime), id, got, want)
	}
}

// N51: a silent worker is UNREACHABLE after 2 minutes, OFFLINE after 6 and
// forgotten after a day, to the sweep, whatever it was before.
func TestRegistry_SilentWorkerChangesState(t *testing.T) {
	for _, beats := range []bool{false, true} {
		h := newFixture(t)
		h.register("w")
		h.wantState("w", sm.WorkerRegistered)
		if beats {
			h.beat("w")
			h.wantState("w", sm.WorkerOnline)
		}
		before := h.state("w")
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
			h.Advance(c.after)
			h.sweep()
			h.wantState("w", c.state)
		}
		if n := h.sweep(); n != 0 {
			t.Errorf("a sweep with nobody due has moved %d", n)
		}
		if err := h.registry.Heartbeat(h.ctx, "acme", "w", nil); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("a forgotten worker's heartbeat: %v", err)
		}
		h.register("w")
		h.wantState("w", sm.WorkerRegistered)
	}
}

// N51: any heartbeat makes it ONLINE again, and its silence is counted anew from
// there, not from an alarm that was set before.
func TestRegistry_HeartbeatBringsWorkerBack(t *testing.T) {
	for _, silent := range []time.Duration{3 * time.Minute, 7 * time.Minute} {
		h := newFixture(t)
		h.register("w")
		h.beat("w")
		h.Advance(silent)
		h.sweep()
		if workers.AcceptsPacks(h.state("w")) {
			t.Errorf("%s is admitted to new packs", h.state("w"))
		}
		h.beat("w")
		h.wantState("w", sm.WorkerOnline)
		h.Advance(2*time.Minute - time.Millisecond)
		h.sweep()
		h.wantState("w", sm.WorkerOnline)
		h.Advance(time.Millisecond)
		h.sweep()
		h.wantState("w", sm.WorkerUnreachable)
		h.register("w") // it was started again
		h.wantState("w", sm.WorkerRegistered)
	}
}

// A sweeper that comes once a day still goes one state after the other.
func TestRegistry_LateSweepCatchesUp(t *testing.T) {
	h := newFixture(t)
	h.register("w")
	h.Advance(23 * time.Hour)
	h.sweep()
	h.wantState("w", sm.WorkerOffline)
	h.Advance(2 * time.Hour)
	h.sweep()
	h.wantState("w", sm.WorkerRemoved)
}

type workersPort = port.Workers

// beforePut lets something happen right before a worker is written.
type beforePut struct {
	workersPort
	hook func()
}

func (b *beforePut) PutWorker(ctx context.Context, seen, next *workflow.Worker) (bool, error) {
	if do := b.hook; do != nil {
		b.hook = nil
		do()
	}
	return b.workersPort.PutWorker(ctx, seen, next)
}

// R24: a heartbeat that comes between a sweeper's read and its write wins.
func TestRegistry_ConcurrentHeartbeatWins(t *testing.T) {
	h := newFixture(t)
	h.register("w")
	h.beat("w")
	h.Advance(3 * time.Minute)
	other := *h.registry
	h.registry.Workers = &beforePut{h.registry.Workers, func() { h.must(other.Heartbeat(h.ctx, "acme", "w", nil)) }}
	if n := h.sweep(); n != 0 {
		t.Errorf("%d moved", n)
	}
	h.wantState("w", sm.WorkerOnline)
	h.Advance(3 * time.Minute)
	h.sweep()
	h.wantState("w", sm.WorkerUnreachable)
}

// Two sweeps at a time move a worker once, and ask for its runs once.
func TestRegistry_OverlappingSweeps(t *testing.T) {
	h := newFixture(t)
	h.register("w")
	stepRun := workflow.StepRunKey{Tenant: "acme", Execution: "x1", Ordinal: 1, Seq: 1}
	h.beat("w")
	h.beat("w", stepRun.Pack(0, 1).ClaimedPack(), stepRun.Pack(1, 1).ClaimedPack())
	h.Advance(10 * time.Minute)
	other := *h.registry
	changed := 0
	h.registry.Workers = &beforePut{h.registry.Workers, func() {
		changed += h.sweepWith(other.Workers)
	}}
	if changed += h.sweep(); changed != 1 {
		t.Errorf("moved %d times", changed)
	}
	h.wantState("w", sm.WorkerOffline)
	var wakeups []workflow.Wakeup
	for {
		m, ok := h.LifecycleQueue().Receive(time.Hour)
		if !ok {
			break
		}
		wakeups = append(wakeups, m.Wakeup())
	}
	if len(wakeups) != 1 || wakeups[0].Execution != "x1" || wakeups[0].Tenant != "acme" {
		t.Errorf("looks %+v", wakeups)
	}
}

// The work of a sweep follows who is due, not who is there.
func TestRegistry_SweepReadsOnlyDueWorkers(t *testing.T) {
	h := newFixture(t)
	for i := range 50 {
		h.register("w" + string(rune('A'+i)))
	}
	calls := len(h.Trace())
	h.sweep()
	n := 0
	for _, call := range h.Trace()[calls:] {
		if strings.Contains(fmt.Sprint(call), "workers.") {
			n++
		}
	}
	if n != h.Shards {
		t.Errorf("%d calls for nobody, want one for each shard", n)
	}
}

func TestRegistry_UnregisterRemovesWorker(t *testing.T) {
	h := newFixture(t)
	h.register("w")
	h.beat("w")
	_, err := h.registry.Unregister(h.ctx, "acme", "w")
	h.must(err)
	h.wantState("w", sm.WorkerRemoved)
	if _, err := h.registry.Unregister(h.ctx, "acme", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("twice: %v", err)
	}
	if _, err := h.registry.Worker(h.ctx, "other", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	h.Advance(time.Hour)
	if n := h.sweep(); n != 0 {
		t.Errorf("%d moved", n)
	}
}

func TestRegistry_ListByBlock(t *testing.T) {
	h := newFixture(t)
	h.register("a", "p/x:1", "p/y")
	h.register("b", "p/y:1.2")
	h.register("c", "p/x:1.0.0")
	for text, want := range map[string][]string{"p/x:1.0.0": {"a", "c"}, "p/y:1.2.7": {"a", "b"}, "p/y:2.0.0": {"a"}, "p/z:1.0.0": nil, "p/x:2.0.0": nil} {
		ref, err := workflow.ParseRef(text)
		h.must(err)
		var got []string
		page := workflow.Page{Limit: 1}
		for {
			list, err := h.registry.List(h.ctx, "acme", &ref, page)
			h.must(err)
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
