package sim_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/sim/roster"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/conformance/ports"
)

var (
	_ port.Store    = (*sim.Store)(nil)
	_ port.Locks    = (*sim.Locks)(nil)
	_ port.Packs    = (*sim.Packs)(nil)
	_ port.Board    = (*sim.Board)(nil)
	_ port.Registry = (*sim.Registry)(nil)
	_ port.Workers  = (*roster.Workers)(nil)
	_ port.Meter    = (*sim.Meter)(nil)
	_ worker.Packs  = (*sim.Packs)(nil)
	_ worker.Queue  = (*sim.Board)(nil)
	_ worker.Meter  = (*sim.Meter)(nil)
)

func openWorld(*testing.T) ports.World {
	w := sim.New(1)
	w.Shards = topology.DueShards
	v := w.Open()
	return ports.World{
		Store: v.Store, Locks: v.Locks, Packs: v.Packs, Claims: v.Packs, Registry: v.Registry, Schedules: v.Schedules, Workers: v.Workers,
		LoseReply: func() { w.Faults = fate.At(1, fate.Repeated) },
	}
}

// TestPorts runs the kit that the real adapters pass.
func TestPorts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, ports.Open){
		"store": ports.Store, "beside": ports.Beside, "locks": ports.Locks, "shared locks": ports.SharedLocks, "packs": ports.Packs,
		"claims": ports.Claims, "registry": ports.Registry, "entities": ports.Entities, "schedules": ports.Schedules, "workers": ports.Workers,
	} {
		t.Run(name, func(t *testing.T) { test(t, openWorld) })
	}
}

func TestBoard(t *testing.T) {
	t.Parallel()
	ports.Board(t, func(*testing.T) ports.BoardWorld {
		w := sim.New(1)
		return ports.BoardWorld{
			Board: w.Open().Board,
			Looks: func() (looks []workflow.Look) {
				for _, m := range drain(w.Lifecycle()) {
					looks = append(looks, m.Look())
				}
				return looks
			},
			Packs: func(pool string) (packs []*workflow.PackMessage) {
				for _, m := range drain(w.MakePool(pool)) {
					packs = append(packs, m.Pack())
				}
				return packs
			},
			MakePool: func(pool string) { w.MakePool(pool) },
			Elapse:   w.Advance,
		}
	})
}

func drain(q *queue.Queue) (all []queue.Message) {
	for {
		m, ok := q.Receive(0)
		if !ok {
			return all
		}
		q.Delete(m)
		all = append(all, m)
	}
}
