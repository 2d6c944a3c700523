package roster_test

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
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// house is a world with a roster.
type house struct {
	*testing.T
	*sim.World
	roster *roster.Roster
	ctx    context.Context
}

var silence = roster.Silence{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

func newHouse(t *testing.T) *house {
	w := sim.New(1)
	return &house{t, w, &roster.Roster{Workers: w.Open().Workers, Silence: silence, Now: w.Now}, context.Background()}
}

func (h *house) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) register(id string, blocks ...string) {
	h.Helper()
	_, err := h.roster.Register(h.ctx, workflow.Worker{Tenant: "acme", ID: id, Pool: "edge", Blocks: blocks})
	h.ok(err)
}

func (h *house) beat(id string, held ...workflow.HeldPack) {
	h.Helper()
	h.ok(h.roster.Beat(h.ctx, "acme", id, held))
}

// sweep sweeps every shard and reports how many workers moved.
func (h *house) sweep() (moved int) {
	h.Helper()
	return h.sweepOver(h.roster.Workers)
}

// sweepOver sweeps what may be another view of the workers.
func (h *house) sweepOver(workers port.Workers) (moved int) {
	h.Helper()
	e := &engine.Engine{World: engine.World{Now: h.Now, Log: slog.New(slog.DiscardHandler), Open: func() port.Ports {
		return port.Ports{Workers: workers, Store: h.Open().Store, Board: h.Open().Board, Schedules: h.Open().Schedules}
	}}}
	swept, err := sweep.Run(h.ctx, e, silence, h.Shards)
	h.ok(err)
	return swept.Workers
}

func (h *house) state(id string) sm.WorkerState {
	h.Helper()
	w, err := h.roster.Worker(h.ctx, "acme", id)
	if workflow.Is(err, workflow.CodeNotFound) {
		return sm.WorkerRemoved
	}
	h.ok(err)
	return w.State
}

func (h *house) is(id string, want sm.WorkerState) {
	h.Helper()
	if got := h.state(id); got != want {
		h.Errorf("after %s: %s is %s, want %s", h.Now().Sub(sim.Dawn), id, got, want)
	}
}

// N51: a silent worker is UNREACHABLE after 2 minutes, OFFLINE after 6 and
// forgotten after a day, to the sweep, whatever it was before.
func TestN51SilenceIsCounted(t *testing.T) {
	for _, beats := range []bool{false, true} {
		h := newHouse(t)
		h.register("w")
		h.is("w", sm.WorkerRegistered)
		if beats {
			h.beat("w")
			h.is("w", sm.WorkerOnline)
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
			h.is("w", c.state)
		}
		if n := h.sweep(); n != 0 {
			t.Errorf("a sweep with nobody due has moved %d", n)
		}
		if err := h.roster.Beat(h.ctx, "acme", "w", nil); !workflow.Is(err, workflow.CodeNotFound) {
			t.Errorf("a forgotten worker's heartbeat: %v", err)
		}
		h.register("w")
		h.is("w", sm.WorkerRegistered)
	}
}

// N51: any heartbeat makes it ONLINE again, and its silence is counted anew from
// there, not from an alarm that was set before.
func TestN51AnyHeartbeatBringsItBack(t *testing.T) {
	for _, silent := range []time.Duration{3 * time.Minute, 7 * time.Minute} {
		h := newHouse(t)
		h.register("w")
		h.beat("w")
		h.Advance(silent)
		h.sweep()
		if roster.Admits(h.state("w")) {
			t.Errorf("%s is admitted to new packs", h.state("w"))
		}
		h.beat("w")
		h.is("w", sm.WorkerOnline)
		h.Advance(2*time.Minute - time.Millisecond)
		h.sweep()
		h.is("w", sm.WorkerOnline)
		h.Advance(time.Millisecond)
		h.sweep()
		h.is("w", sm.WorkerUnreachable)
		h.register("w") // it was started again
		h.is("w", sm.WorkerRegistered)
	}
}

// A sweeper that comes once a day still goes one state after the other.
func TestALateSweepCatchesUp(t *testing.T) {
	h := newHouse(t)
	h.register("w")
	h.Advance(23 * time.Hour)
	h.sweep()
	h.is("w", sm.WorkerOffline)
	h.Advance(2 * time.Hour)
	h.sweep()
	h.is("w", sm.WorkerRemoved)
}

type workers = port.Workers

// between lets something happen right before a worker is written.
type between struct {
	workers
	do func()
}

func (b *between) PutWorker(ctx context.Context, seen, next *workflow.Worker) (bool, error) {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.workers.PutWorker(ctx, seen, next)
}

// R24: a heartbeat that comes between a sweeper's read and its write wins.
func TestR24AHeartbeatMeanwhileWins(t *testing.T) {
	h := newHouse(t)
	h.register("w")
	h.beat("w")
	h.Advance(3 * time.Minute)
	other := *h.roster
	h.roster.Workers = &between{h.roster.Workers, func() { h.ok(other.Beat(h.ctx, "acme", "w", nil)) }}
	if n := h.sweep(); n != 0 {
		t.Errorf("%d moved", n)
	}
	h.is("w", sm.WorkerOnline)
	h.Advance(3 * time.Minute)
	h.sweep()
	h.is("w", sm.WorkerUnreachable)
}

// Two sweeps at a time move a worker once, and ask for its runs once.
func TestSweepsOverlap(t *testing.T) {
	h := newHouse(t)
	h.register("w")
	run := workflow.RunKey{Tenant: "acme", Execution: "x1", Visit: 1, RunSeq: 1}
	h.beat("w")
	h.beat("w", run.Pack(0, 1).Held(), run.Pack(1, 1).Held())
	h.Advance(10 * time.Minute)
	other := *h.roster
	moved := 0
	h.roster.Workers = &between{h.roster.Workers, func() {
		moved += h.sweepOver(other.Workers)
	}}
	if moved += h.sweep(); moved != 1 {
		t.Errorf("moved %d times", moved)
	}
	h.is("w", sm.WorkerOffline)
	var looks []workflow.Look
	for {
		m, ok := h.Lifecycle().Receive(time.Hour)
		if !ok {
			break
		}
		looks = append(looks, m.Look())
	}
	if len(looks) != 1 || looks[0].Execution != "x1" || looks[0].Tenant != "acme" {
		t.Errorf("looks %+v", looks)
	}
}

// The work of a sweep follows who is due, not who is there.
func TestSweepReadsOnlyWhoIsDue(t *testing.T) {
	h := newHouse(t)
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

func TestUnregisteredIsGone(t *testing.T) {
	h := newHouse(t)
	h.register("w")
	h.beat("w")
	_, err := h.roster.Unregister(h.ctx, "acme", "w")
	h.ok(err)
	h.is("w", sm.WorkerRemoved)
	if _, err := h.roster.Unregister(h.ctx, "acme", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("twice: %v", err)
	}
	if _, err := h.roster.Worker(h.ctx, "other", "w"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	h.Advance(time.Hour)
	if n := h.sweep(); n != 0 {
		t.Errorf("%d moved", n)
	}
}

func TestListOfABlocksWorkers(t *testing.T) {
	h := newHouse(t)
	h.register("a", "p/x:1", "p/y")
	h.register("b", "p/y:1.2")
	h.register("c", "p/x:1.0.0")
	for text, want := range map[string][]string{"p/x:1.0.0": {"a", "c"}, "p/y:1.2.7": {"a", "b"}, "p/y:2.0.0": {"a"}, "p/z:1.0.0": nil, "p/x:2.0.0": nil} {
		ref, err := workflow.ParseRef(text)
		h.ok(err)
		var got []string
		page := workflow.Page{Limit: 1}
		for {
			list, err := h.roster.List(h.ctx, "acme", &ref, page)
			h.ok(err)
			for _, w := range list.Items {
				got = append(got, w.ID)
			}
			if page.Token = list.Next; page.Token == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
