package protocol_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// interceptor wraps an implementation: a task pauses before each of its calls, and the
// next call may have a fault.
type interceptor struct {
	faults.Injector
	fault       faults.Fault
	waitersLost func(waiters []string) // called with waiters that no message will reach
	wrote       bool                   // whether anything was written since this was last cleared
}

// maxCalls is more than any sequence needs.
const maxCalls = 20_000

var errReplyLost = errors.New("the reply is lost")

func intercept[T any](in *interceptor, name string, perform func() (T, error)) (answer T, err error) {
	if in.CallCount() > maxCalls {
		panic("a handler does not end")
	}
	c, _ := in.Intercept(name)
	fault := in.fault
	in.fault = faults.None
	switch fault {
	case faults.Throttled:
		return answer, workflow.Errorf(workflow.CodeUnavailable, "throttled at %s", c)
	case faults.Repeated: // the client sends it again, and sees only the second answer
		if _, err := perform(); err != nil {
			return answer, err
		}
	}
	answer, err = perform()
	if fault == faults.LostReply {
		var none T
		return none, fmt.Errorf("%s: %w", c, errReplyLost)
	}
	return answer, err
}

// conditionalResult is the answer to a conditional write, and the value returned with it.
type conditionalResult[T any] struct {
	ok    bool
	value T
}

func interceptConditional[T any](in *interceptor, name string, perform func() (bool, T, error)) (bool, T, error) {
	r, err := intercept(in, name, func() (conditionalResult[T], error) {
		in.wrote = true
		ok, value, err := perform()
		return conditionalResult[T]{ok, value}, err
	})
	return r.ok, r.value, err
}

func interceptWrite(in *interceptor, name string, perform func() (bool, error)) (bool, error) {
	return intercept(in, name, func() (bool, error) {
		in.wrote = true
		return perform()
	})
}

// interceptedStore intercepts the calls of a store that locking makes.
type interceptedStore struct {
	port.Store
	interceptor *interceptor
}

func (s interceptedStore) Create(ctx context.Context, x *workflow.Execution) (bool, error) {
	return interceptWrite(s.interceptor, "store.create", func() (bool, error) { return s.Store.Create(ctx, x) })
}

func (s interceptedStore) Load(ctx context.Context, tenant, id string) (*workflow.Execution, error) {
	return intercept(s.interceptor, "store.load", func() (*workflow.Execution, error) { return s.Store.Load(ctx, tenant, id) })
}

func (s interceptedStore) LoadMany(ctx context.Context, tenant string, ids []string) (found []*workflow.Execution, newer []string, err error) {
	found, err = intercept(s.interceptor, "store.load_many", func() (read []*workflow.Execution, err error) {
		read, newer, err = s.Store.LoadMany(ctx, tenant, ids)
		return read, err
	})
	return found, newer, err
}

func (s interceptedStore) Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return intercept(s.interceptor, "store.heads", func() (map[string]workflow.OwnerStatus, error) { return s.Store.Heads(ctx, tenant, ids) })
}

func (s interceptedStore) HeadsWeakly(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return intercept(s.interceptor, "store.heads_weakly", func() (map[string]workflow.OwnerStatus, error) { return s.Store.HeadsWeakly(ctx, tenant, ids) })
}

func (s interceptedStore) Commit(ctx context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) ([]string, bool, error) {
	var written []string // returned by the write, even if its reply is lost
	ok, waiters, err := interceptConditional(s.interceptor, "store.commit", func() (bool, []string, error) {
		waiters, ok, err := s.Store.Commit(ctx, seen, next, o)
		written = append(written, waiters...)
		return ok, waiters, err
	})
	if len(waiters) < len(written) {
		s.interceptor.waitersLost(written)
	}
	return waiters, ok, err
}

func (s interceptedStore) AddHolderWaiter(ctx context.Context, tenant string, by workflow.BlockedBy, waiter string) (holder workflow.OwnerStatus, ok bool, err error) {
	ok, err = interceptWrite(s.interceptor, "store.add_holder_waiter", func() (ok bool, err error) {
		holder, ok, err = s.Store.AddHolderWaiter(ctx, tenant, by, waiter)
		return ok, err
	})
	return holder, ok, err
}

func (s interceptedStore) AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (status workflow.OwnerStatus, ok bool, err error) {
	ok, err = interceptWrite(s.interceptor, "store.add_reserver_waiter", func() (ok bool, err error) {
		status, ok, err = s.Store.AddReserverWaiter(ctx, tenant, reserver, waiter)
		return ok, err
	})
	return status, ok, err
}

// interceptedLocks intercepts the calls to the lock items.
type interceptedLocks struct {
	port.Locks
	interceptor *interceptor
}

func (l interceptedLocks) Read(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Lock, error) {
	return intercept(l.interceptor, "locks.read", func() (map[workflow.EntityKey]workflow.Lock, error) { return l.Locks.Read(ctx, tenant, keys, strong) })
}

func (l interceptedLocks) Take(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, seen int64) (bool, error) {
	return interceptWrite(l.interceptor, "locks.take", func() (bool, error) { return l.Locks.Take(ctx, tenant, key, r, seen) })
}

func (l interceptedLocks) Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	ok, token, err := interceptConditional(l.interceptor, "locks.share", func() (bool, int64, error) {
		token, ok, err := l.Locks.Share(ctx, tenant, key, s, keep, seen)
		return ok, token, err
	})
	return token, ok, err
}

func (l interceptedLocks) Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (int64, bool, error) {
	ok, token, err := interceptConditional(l.interceptor, "locks.join", func() (bool, int64, error) {
		token, ok, err := l.Locks.Join(ctx, tenant, key, s, j)
		return ok, token, err
	})
	return token, ok, err
}

func (l interceptedLocks) Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	return interceptWrite(l.interceptor, "locks.reserve", func() (bool, error) { return l.Locks.Reserve(ctx, tenant, key, r, void) })
}

func (l interceptedLocks) RaiseRevision(ctx context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (bool, error) {
	return interceptWrite(l.interceptor, "locks.raise_revision", func() (bool, error) { return l.Locks.RaiseRevision(ctx, tenant, key, floor, seen) })
}

func (l interceptedLocks) Outdate(ctx context.Context, tenant string, key workflow.EntityKey) error {
	_, err := interceptWrite(l.interceptor, "locks.outdate", func() (bool, error) { return true, l.Locks.Outdate(ctx, tenant, key) })
	return err
}

// interceptedPacks intercepts the calls to the pack items, of the engine and of workers.
type interceptedPacks struct {
	packStore
	interceptor  *interceptor
	packEnded    func(held, end *workflow.Pack) // called when a pack is finished under a claim
	claimRemoved func()                         // called when the engine ends a claim
}

var _ worker.Packs = interceptedPacks{}

func (p interceptedPacks) Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	return intercept(p.interceptor, "packs.pack", func() (*workflow.Pack, error) { return p.packStore.Pack(ctx, key) })
}

func (p interceptedPacks) ShardPacks(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return intercept(p.interceptor, "packs.shard_packs", func() ([]*workflow.Pack, error) { return p.packStore.ShardPacks(ctx, stepRun, shard) })
}

func (p interceptedPacks) ShardPacksWeakly(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return intercept(p.interceptor, "packs.shard_packs_weakly", func() ([]*workflow.Pack, error) { return p.packStore.ShardPacksWeakly(ctx, stepRun, shard) })
}

func (p interceptedPacks) DoneSet(ctx context.Context, stepRun workflow.StepRunKey, shard int) (workflow.DoneSet, error) {
	return intercept(p.interceptor, "packs.done_set", func() (workflow.DoneSet, error) { return p.packStore.DoneSet(ctx, stepRun, shard) })
}

func (p interceptedPacks) LanePacks(ctx context.Context, stepRun workflow.StepRunKey, first, last int) ([]*workflow.Pack, error) {
	return intercept(p.interceptor, "packs.lane_packs", func() ([]*workflow.Pack, error) { return p.packStore.LanePacks(ctx, stepRun, first, last) })
}

func (p interceptedPacks) AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error) {
	return intercept(p.interceptor, "packs.add_done", func() (workflow.DoneSet, error) { return p.packStore.AddDone(ctx, key, end) })
}

func (p interceptedPacks) AddDoneLanes(ctx context.Context, stepRun workflow.StepRunKey, shard int, lanes []int) (workflow.DoneSet, error) {
	return intercept(p.interceptor, "packs.add_done_lanes", func() (workflow.DoneSet, error) { return p.packStore.AddDoneLanes(ctx, stepRun, shard, lanes) })
}

func (p interceptedPacks) PutCancelled(ctx context.Context, pack *workflow.Pack) (bool, error) {
	return interceptWrite(p.interceptor, "packs.put_cancelled", func() (bool, error) { return p.packStore.PutCancelled(ctx, pack) })
}

func (p interceptedPacks) RequestCancel(ctx context.Context, key workflow.PackKey) (bool, error) {
	return interceptWrite(p.interceptor, "packs.request_cancel", func() (bool, error) { return p.packStore.RequestCancel(ctx, key) })
}

func (p interceptedPacks) ForceCancel(ctx context.Context, seen, next *workflow.Pack) (bool, error) {
	return interceptWrite(p.interceptor, "packs.force_cancel", func() (bool, error) {
		ok, err := p.packStore.ForceCancel(ctx, seen, next)
		if ok {
			p.claimRemoved()
		}
		return ok, err
	})
}

func (p interceptedPacks) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return interceptConditional(p.interceptor, "packs.claim", func() (bool, *workflow.Pack, error) { return p.packStore.Claim(ctx, pack) })
}

func (p interceptedPacks) TakeOver(ctx context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return interceptConditional(p.interceptor, "packs.take_over", func() (bool, *workflow.Pack, error) { return p.packStore.TakeOver(ctx, seen, next) })
}

func (p interceptedPacks) Extend(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return interceptConditional(p.interceptor, "packs.extend", func() (bool, *workflow.Pack, error) { return p.packStore.Extend(ctx, pack) })
}

func (p interceptedPacks) Finish(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return interceptConditional(p.interceptor, "packs.finish", func() (bool, *workflow.Pack, error) {
		held, err := p.packStore.Pack(ctx, pack.Key)
		if err != nil {
			return false, nil, err
		}
		ok, old, err := p.packStore.Finish(ctx, pack)
		if ok {
			p.packEnded(held, pack)
		}
		return ok, old, err
	})
}

func (p interceptedPacks) FinishUnclaimed(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return interceptConditional(p.interceptor, "packs.finish_unclaimed", func() (bool, *workflow.Pack, error) { return p.packStore.FinishUnclaimed(ctx, pack) })
}
