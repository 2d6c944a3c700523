package sim_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/conformance/ports"
)

var (
	_ port.Store    = (*sim.Store)(nil)
	_ port.Locks    = (*sim.Locks)(nil)
	_ port.Packs    = (*sim.Packs)(nil)
	_ port.Sender   = (*sim.Sender)(nil)
	_ port.Registry = (*sim.Registry)(nil)
	_ port.Workers  = (*sim.Workers)(nil)
	_ port.Rows     = (*sim.Rows)(nil)
	_ port.Meter    = (*sim.Meter)(nil)
	_ worker.Packs  = (*sim.Packs)(nil)
	_ worker.Sender = (*sim.Sender)(nil)
	_ worker.Meter  = (*sim.Meter)(nil)
)

func openWorld(*testing.T) ports.Implementation {
	w := sim.New(1)
	w.Shards = topology.DueShards
	v := w.Open()
	return ports.Implementation{
		Store: v.Store, Locks: v.Locks, Packs: v.Packs, Claims: v.Packs, Registry: v.Registry, Schedules: v.Schedules, Workers: v.Workers, Rows: v.Rows,
		LoseReply: func() { w.Faults = faults.At(1, faults.Repeated) },
	}
}

// TestWorld_PortConformance runs the conformance tests of the real adapters.
func TestWorld_PortConformance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, ports.Open){
		"store": ports.Store, "payloads": ports.Payloads, "signals": ports.Signals, "locks": ports.Locks, "shared locks": ports.SharedLocks, "packs": ports.Packs,
		"claims": ports.Claims, "polls": ports.Polls, "registry": ports.Registry, "entities": ports.Entities, "schedules": ports.Schedules, "workers": ports.Workers, "rows": ports.Rows,
	} {
		t.Run(name, func(t *testing.T) { test(t, openWorld) })
	}
}

func TestSender_PortConformance(t *testing.T) {
	t.Parallel()
	ports.Sender(t, func(*testing.T) ports.SenderImplementation {
		w := sim.New(1)
		return ports.SenderImplementation{
			Sender: w.Open().Sender,
			Wakeups: func() (wakeups []workflow.Wakeup) {
				for _, m := range drain(w.LifecycleQueue()) {
					wakeups = append(wakeups, m.Wakeup())
				}
				return wakeups
			},
			Packs: func(pool string) (packs []*workflow.PackMessage) {
				for _, m := range drain(w.PoolQueue(pool)) {
					packs = append(packs, m.Pack())
				}
				return packs
			},
			MakePool: func(pool string) { w.PoolQueue(pool) },
			Elapse:   w.Advance,
		}
	})
}

func drain(q *sim.Queue) (all []sim.Message) {
	for {
		m, ok := q.Receive(0)
		if !ok {
			return all
		}
		q.Delete(m)
		all = append(all, m)
	}
}
