package core

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/metric"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Core is a process with an engine.
type Core struct {
	*boot.Parts
	Engine *engine.Engine
}

// Open opens the parts and makes the engine.
func Open(ctx context.Context, component string) (*Core, error) {
	parts, err := boot.Open(ctx, component)
	if err != nil {
		return nil, err
	}
	return &Core{parts, engine.New(world(parts), options(parts.Config), boot.Version)}, nil
}

// Silence is how long polling workers may be silent.
func (c *Core) Silence() roster.Silence {
	w := c.Config.Worker
	return roster.Silence{Unreachable: w.Unreachable, Offline: w.Offline, Forget: w.Forget}
}

// Roster is the polling workers.
func (c *Core) Roster() *roster.Roster {
	return &roster.Roster{Workers: c.DB.With(nil).Workers, Silence: c.Silence(), Now: time.Now}
}

// MustOpen is Open for a main, which can do nothing about an error but say it.
func MustOpen(ctx context.Context, component string) *Core {
	c, err := Open(ctx, component)
	if err != nil {
		boot.Fatal(component, err)
	}
	return c
}

func world(p *boot.Parts) engine.World {
	return engine.World{
		Now:   time.Now,
		NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
		Nonce: func() string { return rand.Text()[:10] },
		Pause: func(round int) {
			time.Sleep(mathrand.N(10 * time.Millisecond << min(round, 6)))
		},
		Open: func() port.Ports {
			m := &cost.Meter{}
			v := p.DB.With(m)
			return port.Ports{
				Store: v.Store, Locks: v.Locks, Packs: v.Packs, Registry: v.Registry, Workers: v.Workers, Schedules: v.Registry,
				Board: p.Queues.With(m), Meter: m,
			}
		},
		Log: p.Log, Trace: p.Trace,
		Measure: func(ctx context.Context, name string, n int) {
			if err := metric.Write(os.Stdout, os.Getenv(topology.EnvDeployment), name, n, time.Now()); err != nil {
				p.Log.WarnContext(ctx, "metric not written", "metric", name, observe.Err(err))
			}
		},
	}
}

// maxResults bounds the earlier results that a step's expressions may see.
const maxResults = 32 << 20

// tries bounds how often one look begins again after a lost race.
const tries = 12

func options(c config.Config) engine.Options {
	return engine.Options{
		Policy: lifecycle.Policy{
			Poll: c.Poll, LockWait: c.Lock.Wait, StartWait: c.Start.Wait, MessageLife: c.Pack.MessageLife,
			PackSize: c.Pack.Size, PackFrom: c.Pack.From, MaxSteps: c.Run.MaxSteps,
			Retention: c.Run.Retention, Floor: int64(c.Lock.Floor),
		},
		Delivery: delivery.Limits{
			Skew: c.Clock.Skew, Grace: c.Clock.Grace, Poll: c.Poll, MaxTakeovers: c.Job.MaxTakeovers,
			MessageLife: c.Pack.MessageLife, Unclaimed: c.Job.Unclaimed, Stuck: c.Job.Stuck, ChainBytes: c.Pack.ChainBytes, Parallel: c.Lock.Parallel,
		},
		JobTimeout: c.Job.Timeout, ReserveAfter: c.Lock.ReserveAfter, Parallel: c.Lock.Parallel,
		Inline: c.Run.InlineEntities, MaxEntities: c.Run.MaxEntities, MaxResults: maxResults,
		BindingLife: c.Idempotency.Life, Tries: tries, Stalled: c.Run.Stalled,
	}
}
