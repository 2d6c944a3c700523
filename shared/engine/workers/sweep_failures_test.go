package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A worker in a state that only a newer release knows keeps its timer and its packs.
func TestRegistry_SweepKeepsWorkerInUnknownState(t *testing.T) {
	f := newFixture(t)
	f.register("w")
	f.heartbeat("w")
	f.must(f.registry.Workers.AddClaimedPack(f.ctx, "acme", "w", workflow.PackKey{Tenant: "acme", Execution: "x1", StepRunOrdinal: 1, StepRunSeq: 1}.ClaimedPack()))
	seen, err := f.registry.Workers.Worker(f.ctx, "acme", "w")
	f.must(err)
	next := *seen
	next.State = "RESTING"
	if ok, err := f.registry.Workers.PutWorker(f.ctx, seen, &next); err != nil || !ok {
		f.Fatal(ok, err)
	}
	f.Advance(7 * time.Minute)
	if n := f.sweep(); n != 0 {
		t.Errorf("%d workers changed", n)
	}
	after, err := f.registry.Workers.Worker(f.ctx, "acme", "w")
	f.must(err)
	if after.State != "RESTING" || !after.DueAt.Equal(next.DueAt) || len(after.ClaimedPacks) != 1 {
		t.Errorf("got %+v, want %+v", after, next)
	}
}

var errUnreadable = errors.New("unreadable")

// failingWorkers is a port in which one worker can neither be read nor another written.
type failingWorkers struct {
	workersPort
	unreadable, unwritable string
}

func (b failingWorkers) Worker(ctx context.Context, tenant, id string) (*workflow.Worker, error) {
	if id == b.unreadable {
		return nil, errUnreadable
	}
	return b.workersPort.Worker(ctx, tenant, id)
}

func (b failingWorkers) PutWorker(ctx context.Context, seen, next *workflow.Worker) (bool, error) {
	if next.ID == b.unwritable {
		return false, errUnreadable
	}
	return b.workersPort.PutWorker(ctx, seen, next)
}

// A worker that fails does not stop the others of its shard, and the sweep reports it.
func TestRegistry_SweepContinuesAfterFailingWorker(t *testing.T) {
	f := newFixture(t)
	const n = 20
	for i := range n {
		f.register(fmt.Sprintf("w%02d", i))
	}
	f.Advance(3 * time.Minute)
	broken := failingWorkers{f.registry.Workers, "w00", "w01"}
	e := &engine.Engine{Deps: engine.Deps{Now: f.Now, Log: slog.New(slog.DiscardHandler), OpenPorts: func() port.Ports {
		return port.Ports{Workers: broken, Store: f.Open().Store, Sender: f.Open().Sender, Schedules: f.Open().Schedules}
	}}}
	swept, err := scheduler.Sweep(f.ctx, e, timeouts, f.Shards)
	if !errors.Is(err, errUnreadable) || swept.WorkersChanged != n-2 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	var left []string
	for i := range n {
		if id := fmt.Sprintf("w%02d", i); f.state(id) != sm.WorkerUnreachable {
			left = append(left, id)
		}
	}
	if !slices.Equal(left, []string{"w00", "w01"}) {
		t.Errorf("left as they were: %v", left)
	}
}
