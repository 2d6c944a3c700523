package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim"
)

// operations is what operators keep in order, over the world's queues. Each has dead
// letters of its own.
type operations struct {
	*deadletter.Service
	fixture *fixture
}

func (u operations) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return scheduler.PlanSweep(ctx, u.fixture.Engine, livenessTimeouts, u.fixture.Shards, c.Tenant)
}

func (w *fixture) newOperations() operations {
	now := func() time.Time { return w.Now() }
	yards := map[string]*sim.DLQ{}
	w.deadLetterQueue = func(name string) *sim.DLQ {
		if yards[name] == nil {
			source := w.LifecycleQueue()
			if pool, ok := strings.CutPrefix(name, "jobs-"); ok {
				source = w.PoolQueue(pool)
			}
			yards[name] = &sim.DLQ{Source: source, DeadLetters: w.PoolQueue("dead letters of " + name), Now: now}
		}
		return yards[name]
	}
	return operations{&deadletter.Service{
		Blocks:  w.Open().Registry,
		Open:    func(_ context.Context, name string) (deadletter.Queue, error) { return w.deadLetterQueue(name), nil },
		Decoder: deadletter.Decoder{Wakeup: decodeJSON[workflow.Wakeup], Pack: decodeJSON[*workflow.PackMessage]},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			store := w.Open().Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return engine.DeadLetterNotices(ctx, store, x)
		},
		Now: now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, w}
}

func decodeJSON[T any](body string) (v T, err error) { return v, json.Unmarshal([]byte(body), &v) }

// addDeadLetter puts a message of a run among the dead letters of the lifecycle queue.
func (w *fixture) addDeadLetter(tenant, execution string) {
	w.Helper()
	raw, err := json.Marshal(workflow.Wakeup{Tenant: tenant, Execution: execution})
	if err != nil {
		w.Fatal(err)
	}
	w.deadLetterQueue("lifecycle").AddDeadLetter(raw)
}
