package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// gate stands between an implementation and whoever calls it: a task stands still
// before each of its calls, and the next call may have a fault.
type gate struct {
	fate.Hook
	fault fate.Fault
	lost  func(waiters []string) // told of waiters whom nobody will wake
	wrote bool                   // something since it was last cleared
}

// maxCalls is more than any sequence needs.
const maxCalls = 20_000

var errLost = errors.New("the reply is lost")

func pass[T any](g *gate, name string, perform func() (T, error)) (answer T, err error) {
	if g.Calls() > maxCalls {
		panic("it goes on for ever")
	}
	c, _ := g.Reach(name)
	fault := g.fault
	g.fault = fate.None
	switch fault {
	case fate.Throttled:
		return answer, workflow.Errorf(workflow.CodeUnavailable, "throttled at %s", c)
	case fate.Repeated: // the client asks again, and sees only the second answer
		if _, err := perform(); err != nil {
			return answer, err
		}
	}
	answer, err = perform()
	if fault == fate.LostReply {
		var none T
		return none, fmt.Errorf("%s: %w", c, errLost)
	}
	return answer, err
}

// judged is the answer to a conditional write, with whatever comes with it.
type judged[T any] struct {
	ok   bool
	with T
}

func conditional[T any](g *gate, name string, perform func() (bool, T, error)) (bool, T, error) {
	j, err := pass(g, name, func() (judged[T], error) {
		g.wrote = true
		ok, with, err := perform()
		return judged[T]{ok, with}, err
	})
	return j.ok, j.with, err
}

func plain(g *gate, name string, perform func() (bool, error)) (bool, error) {
	return pass(g, name, func() (bool, error) {
		g.wrote = true
		return perform()
	})
}

// store is a store behind the gate, with what locking needs of it.
type store struct {
	port.Store
	g *gate
}

func (s store) Create(ctx context.Context, x *workflow.Execution) (bool, error) {
	return plain(s.g, "store.create", func() (bool, error) { return s.Store.Create(ctx, x) })
}

func (s store) Load(ctx context.Context, tenant, id string) (*workflow.Execution, error) {
	return pass(s.g, "store.load", func() (*workflow.Execution, error) { return s.Store.Load(ctx, tenant, id) })
}

func (s store) LoadMany(ctx context.Context, tenant string, ids []string) ([]*workflow.Execution, error) {
	return pass(s.g, "store.load_many", func() ([]*workflow.Execution, error) { return s.Store.LoadMany(ctx, tenant, ids) })
}

func (s store) Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.Head, error) {
	return pass(s.g, "store.heads", func() (map[string]workflow.Head, error) { return s.Store.Heads(ctx, tenant, ids) })
}

func (s store) Commit(ctx context.Context, seen int64, next *workflow.Execution, release bool) ([]string, bool, error) {
	var named []string // by the write itself, whatever becomes of its reply
	ok, waiters, err := conditional(s.g, "store.commit", func() (bool, []string, error) {
		waiters, ok, err := s.Store.Commit(ctx, seen, next, release)
		named = append(named, waiters...)
		return ok, waiters, err
	})
	if len(waiters) < len(named) {
		s.g.lost(named)
	}
	return waiters, ok, err
}

func (s store) AwaitHolder(ctx context.Context, tenant, holder string, epoch int64, waiter string) (bool, error) {
	return plain(s.g, "store.await_holder", func() (bool, error) { return s.Store.AwaitHolder(ctx, tenant, holder, epoch, waiter) })
}

func (s store) AwaitReserver(ctx context.Context, tenant, reserver, waiter string) (bool, error) {
	return plain(s.g, "store.await_reserver", func() (bool, error) { return s.Store.AwaitReserver(ctx, tenant, reserver, waiter) })
}

// locks are the lock items behind the gate.
type locks struct {
	port.Locks
	g *gate
}

func (l locks) Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error) {
	return pass(l.g, "locks.read", func() (map[workflow.EntityKey]workflow.Lock, error) { return l.Locks.Read(ctx, tenant, keys) })
}

func (l locks) Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	return plain(l.g, "locks.take", func() (bool, error) { return l.Locks.Take(ctx, tenant, key, owner, epoch, seen, now) })
}

func (l locks) Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.Sharer, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	ok, token, err := conditional(l.g, "locks.share", func() (bool, int64, error) {
		token, ok, err := l.Locks.Share(ctx, tenant, key, s, keep, seen)
		return ok, token, err
	})
	return token, ok, err
}

func (l locks) Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.Sharer, j workflow.Joining) (int64, bool, error) {
	ok, token, err := conditional(l.g, "locks.join", func() (bool, int64, error) {
		token, ok, err := l.Locks.Join(ctx, tenant, key, s, j)
		return ok, token, err
	})
	return token, ok, err
}

func (l locks) Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	return plain(l.g, "locks.reserve", func() (bool, error) { return l.Locks.Reserve(ctx, tenant, key, r, void) })
}

func (l locks) Raise(ctx context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (bool, error) {
	return plain(l.g, "locks.raise", func() (bool, error) { return l.Locks.Raise(ctx, tenant, key, floor, seen) })
}

// packs are the pack items behind the gate, for the engine and for the workers.
type packs struct {
	packItems
	g    *gate
	ends func(held, end *workflow.Pack) // told of the ends that are written
}

var _ worker.Packs = packs{}

func (p packs) Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	return pass(p.g, "packs.pack", func() (*workflow.Pack, error) { return p.packItems.Pack(ctx, key) })
}

func (p packs) Shard(ctx context.Context, run workflow.RunKey, shard int) ([]*workflow.Pack, error) {
	return pass(p.g, "packs.shard", func() ([]*workflow.Pack, error) { return p.packItems.Shard(ctx, run, shard) })
}

func (p packs) Done(ctx context.Context, run workflow.RunKey, shard int) (workflow.DoneSet, error) {
	return pass(p.g, "packs.done", func() (workflow.DoneSet, error) { return p.packItems.Done(ctx, run, shard) })
}

func (p packs) AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneEnd) (workflow.DoneSet, error) {
	return pass(p.g, "packs.add_done", func() (workflow.DoneSet, error) { return p.packItems.AddDone(ctx, key, end) })
}

func (p packs) Tombstone(ctx context.Context, pack *workflow.Pack) (bool, error) {
	return plain(p.g, "packs.tombstone", func() (bool, error) { return p.packItems.Tombstone(ctx, pack) })
}

func (p packs) AskCancel(ctx context.Context, key workflow.PackKey) (bool, error) {
	return plain(p.g, "packs.ask_cancel", func() (bool, error) { return p.packItems.AskCancel(ctx, key) })
}

func (p packs) Seize(ctx context.Context, seen, next *workflow.Pack) (bool, error) {
	return plain(p.g, "packs.seize", func() (bool, error) { return p.packItems.Seize(ctx, seen, next) })
}

func (p packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return conditional(p.g, "packs.claim", func() (bool, *workflow.Pack, error) { return p.packItems.Claim(ctx, pack) })
}

func (p packs) TakeOver(ctx context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return conditional(p.g, "packs.take_over", func() (bool, *workflow.Pack, error) { return p.packItems.TakeOver(ctx, seen, next) })
}

func (p packs) Extend(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return conditional(p.g, "packs.extend", func() (bool, *workflow.Pack, error) { return p.packItems.Extend(ctx, pack) })
}

func (p packs) Finish(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return conditional(p.g, "packs.finish", func() (bool, *workflow.Pack, error) {
		held, err := p.packItems.Pack(ctx, pack.Key)
		if err != nil {
			return false, nil, err
		}
		ok, old, err := p.packItems.Finish(ctx, pack)
		if ok {
			p.ends(held, pack)
		}
		return ok, old, err
	})
}

func (p packs) FinishUnclaimed(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return conditional(p.g, "packs.finish_unclaimed", func() (bool, *workflow.Pack, error) { return p.packItems.FinishUnclaimed(ctx, pack) })
}
