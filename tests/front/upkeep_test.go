package front

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine/burial"
	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sim/graveyard"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// upkeep is what operators keep in order, over the world's queues. Each has dead
// letters of its own.
type upkeep struct {
	*deadletter.Service
	w *world
}

func (u upkeep) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return sweep.Plan(ctx, u.w.Engine, silence, u.w.Shards, c.Tenant)
}

func (w *world) upkeep() upkeep {
	now := func() time.Time { return w.Now() }
	yards := map[string]*graveyard.Queue{}
	w.yard = func(name string) *graveyard.Queue {
		if yards[name] == nil {
			source := w.Lifecycle()
			if pool, ok := strings.CutPrefix(name, "jobs-"); ok {
				source = w.MakePool(pool)
			}
			yards[name] = &graveyard.Queue{Source: source, Dead: w.MakePool("dead letters of " + name), Now: now}
		}
		return yards[name]
	}
	return upkeep{&deadletter.Service{
		Blocks: w.Open().Registry,
		Open:   func(_ context.Context, name string) (deadletter.Queue, error) { return w.yard(name), nil },
		Decode: deadletter.Decode{Look: decoded[workflow.Look], Pack: decoded[*workflow.PackMessage]},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.Dead, error) {
			store := w.Open().Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return burial.Notices(ctx, store, x)
		},
		Now: now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, w}
}

func decoded[T any](body string) (v T, err error) { return v, json.Unmarshal([]byte(body), &v) }

// bury puts a message of a run among the dead letters of the lifecycle queue.
func (w *world) bury(tenant, execution string) {
	w.Helper()
	raw, err := json.Marshal(workflow.Look{Tenant: tenant, Execution: execution})
	if err != nil {
		w.Fatal(err)
	}
	w.yard("lifecycle").Bury(raw)
}
