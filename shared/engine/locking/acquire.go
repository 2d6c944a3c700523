// Package locking acquires all locks of an execution at one epoch, or registers it
// as a waiter with the first conflict and returns that. The execution can then
// release all locks by one write to its own state item, and wait.
//
// The protocol is described in docs/protocols/locks.md. In short: take locks in any
// order and in parallel, release them on a conflict, reserve from the second conflict
// on.
//
//   - evaluate.go decides what a lock item means to one execution, given the states of
//     the executions it names. It does no I/O.
//   - acquire.go performs the steps ACQUIRE, CONFLICT, RESERVE and SELF.
//   - take.go performs TAKE, exclusive or shared, and raises revisions after a restore.
//   - deadlock.go follows the chain of waits to find an execution that waits for itself.
//
// ENTER, COMMIT, RELEASE and END are commits of the execution's own state item and
// belong to the decider.
//
// Nothing is kept between two calls: owners are read after the lock items that name
// them, every time. What a call reads first may be read before it, in the same order.
package locking

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxRounds bounds how often one call reads its lock items. Other executions caused
// each round after the first. After the last one the execution releases its locks and
// tries again later.
const maxRounds = 8

// Locker acquires locks through two ports.
type Locker struct {
	Store           port.Store
	Locks           port.Locks
	Parallel        int   // concurrent takes; 1 keeps all of them in the caller's goroutine
	ReserveAfter    int   // number of conflicts, the current one included, from which on the execution reserves
	MinFencingToken int64 // every token is greater
}

// Request names an execution and the locks it wants.
type Request struct {
	Tenant             string
	Execution          string
	Epoch              int64
	Age                string               // id of the root execution that started it; empty means its own id
	IgnoreReservations bool                 // set if another execution waits for this one, since the reserver may be waiting for that other one
	Mode               workflow.LockMode    // shared or exclusive
	SkipLocked         bool                 // leave out what others hold or have reserved
	Conflicts          int                  // number of conflicts before this call
	Keys               []workflow.EntityKey // an entity's place is its position, from 1
	Slot               *workflow.Slot       // a limit of live executions, taken with the keys; nil for none
	Ahead              *Reading             // what the first round would read, read before; nil reads it
	Recent             bool                 // say who took the locks before
	Now                time.Time
}

// Result is one of three: the tokens of all locks except the skipped ones; a conflict;
// or Stale, when the execution is no longer locking at this epoch and the caller must
// reload it.
type Result struct {
	Tokens   map[workflow.EntityKey]int64
	Recent   map[workflow.EntityKey]workflow.RecentHolders // who had taken them, perhaps this execution among them; only if the request asks for it
	Skipped  []workflow.BlockedBy                          // the skipped entities in the order of the request, and who holds or has reserved them
	Conflict *workflow.BlockedBy
	Stale    bool
}

// acquisition is the state of one call.
type acquisition struct {
	*Locker
	Request
	conflicts int
	places    map[workflow.EntityKey]int
	tokens    map[workflow.EntityKey]int64
	recent    map[workflow.EntityKey]workflow.RecentHolders
	skipped   map[workflow.EntityKey]workflow.BlockedBy
}

// Acquire takes every lock, or returns the first conflict. It takes nothing while it
// knows of a conflict.
func (l *Locker) Acquire(ctx context.Context, req Request) (Result, error) {
	if req.Age == "" {
		req.Age = req.Execution
	}
	a := &acquisition{
		Locker: l, Request: req, conflicts: req.Conflicts,
		tokens: make(map[workflow.EntityKey]int64, len(req.Keys)), skipped: map[workflow.EntityKey]workflow.BlockedBy{},
		places: make(map[workflow.EntityKey]int, len(req.Keys)), recent: make(map[workflow.EntityKey]workflow.RecentHolders, len(req.Keys)),
	}
	for i, key := range req.Keys {
		a.places[key] = i + 1
	}
	remaining := req.Keys
	if req.Slot != nil {
		remaining = append(slices.Clone(req.Keys), req.Slot.Key) // it has no place
	}
	var contested workflow.EntityKey // the entity that the last round was about
	for round := range maxRounds {
		if len(remaining) == 0 {
			return a.granted(ctx)
		}
		evaluated, err := a.read(ctx, remaining, round > 0)
		if err != nil {
			return Result{}, err
		}
		var toTake []evaluatedLock
		var retry []workflow.EntityKey
		var blocked *evaluatedLock
		for _, r := range evaluated {
			switch r.status {
			case lockHeld:
				held, _ := r.lock.HolderOf(a.Execution, a.Epoch)
				a.tokens[r.lock.Entity], a.recent[r.lock.Entity] = held.Token, r.lock.Recent
			case lockStale:
				return Result{Stale: true}, nil
			case lockUncertain:
				retry = append(retry, r.lock.Entity)
			case lockConflict:
				if a.SkipLocked && !r.lock.Entity.IsSlot() {
					a.skipped[r.lock.Entity] = r.blockedBy
				} else if blocked == nil {
					blocked = &r
				}
			case lockFree:
				toTake = append(toTake, r)
			}
		}
		if blocked != nil {
			contested = blocked.blockedBy.Entity
			done, result, err := a.handleConflict(ctx, *blocked)
			if done || err != nil {
				return result, err
			}
			continue // the holder has released in between: read again
		}
		lost, err := a.take(ctx, toTake)
		if err != nil {
			return Result{}, err
		}
		if remaining = slices.Concat(retry, lost); len(remaining) > 0 {
			contested = remaining[0]
		}
		if len(lost) > 0 {
			a.conflicts++
			if still, err := a.stillLocking(ctx); err != nil || !still {
				return Result{Stale: true}, err
			}
			if still, err := a.reserveLost(ctx, toTake, lost); err != nil || !still {
				return Result{Stale: true}, err
			}
		}
	}
	if len(remaining) == 0 {
		return a.granted(ctx)
	}
	// Do not stay in LOCKING: release, and let the timer or a wake-up try again. It is
	// registered with none of those it met: they have released what they held.
	return Result{Conflict: &workflow.BlockedBy{Entity: contested, Execution: a.Execution, Epoch: -1}}, nil
}

// granted is the result once all locks are taken. A join depends on no revision, so that what was read
// before it may be old: then who took the locks is read under them.
func (a *acquisition) granted(ctx context.Context) (Result, error) {
	result := Result{Tokens: a.tokens}
	if a.Request.Recent {
		result.Recent = a.recent
	}
	if a.Request.Recent && a.Mode == workflow.LockShared {
		items, err := a.Locks.Read(ctx, a.Tenant, slices.Collect(maps.Keys(a.tokens)), true)
		if err != nil {
			return Result{}, err
		}
		for key, item := range items {
			result.Recent[key] = item.Recent
		}
	}
	for _, key := range a.Keys {
		if by, ok := a.skipped[key]; ok {
			result.Skipped = append(result.Skipped, by)
		}
	}
	return result, nil
}

// evaluatedLock is a lock item as it was read, with its evaluation.
type evaluatedLock struct {
	evaluation
	lock  workflow.Lock
	heads map[string]workflow.OwnerStatus // of the executions that it names
}

// read reads lock items first, and then the states of all executions they name. The first
// read of a call is not a strong one, which costs half as much: an item as it was some time ago
// is what a slow handler has as well. Who is named in it and live still holds the lock, because
// nobody takes a lock from a live holder; and what it shows to be free is taken only if it has not
// changed since. If it has, the next read is strong.
func (a *acquisition) read(ctx context.Context, keys []workflow.EntityKey, strong bool) ([]evaluatedLock, error) {
	reading := a.Ahead
	if a.Ahead = nil; reading == nil || strong || !reading.covers(keys) {
		var err error
		if reading, err = a.ReadItems(ctx, a.Tenant, keys, strong); err != nil {
			return nil, err
		}
		if err := a.ReadOwners(ctx, a.Tenant, a.Execution, reading, func(key workflow.EntityKey, l workflow.Lock) bool { return a.needsHolders(key, l) }); err != nil {
			return nil, err
		}
	}
	items, heads := reading.items, reading.heads
	evaluated := make([]evaluatedLock, len(keys))
	for i, key := range keys {
		item := items[key]
		item.Entity = key
		if evaluated[i] = (evaluatedLock{a.evaluate(item, heads), item, heads}); item.Revision < a.MinFencingToken {
			if err := a.raise(ctx, &evaluated[i]); err != nil {
				return nil, err
			}
		}
	}
	return evaluated, nil
}

// Reading is lock items as they were read, and then the states of the executions that they name.
type Reading struct {
	items map[workflow.EntityKey]workflow.Lock
	heads map[string]workflow.OwnerStatus // nil until they are read
}

// covers reports whether a reading of exclusive locks is about all keys.
func (r *Reading) covers(keys []workflow.EntityKey) bool {
	return r.heads != nil && !slices.ContainsFunc(keys, func(key workflow.EntityKey) bool {
		l, read := r.items[key]
		return !read || len(l.Holders) > 0
	})
}

// ReadItems reads lock items.
func (l *Locker) ReadItems(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (*Reading, error) {
	items, err := l.Locks.Read(ctx, tenant, keys, strong)
	return &Reading{items: items}, err
}

// ReadOwners reads the executions, besides the one that asks, that the items of a reading name. Those who share a lock are
// read where needsHolders says so; nil is nowhere. To share it as well, the others need not be
// read until there are so many of them that removing the dead ones is worth the reads.
func (l *Locker) ReadOwners(ctx context.Context, tenant, execution string, r *Reading, needsHolders func(workflow.EntityKey, workflow.Lock) bool) (err error) {
	named := map[string]bool{}
	for key, item := range r.items {
		named[item.Owner], named[item.Reserver] = true, true
		if needsHolders != nil && needsHolders(key, item) {
			for id := range item.Holders {
				named[id] = true
			}
		}
	}
	delete(named, "")
	delete(named, execution)
	heads := map[string]workflow.OwnerStatus{}
	if len(named) > 0 {
		if heads, err = l.Store.Heads(ctx, tenant, slices.Sorted(maps.Keys(named))); err != nil {
			return err
		}
	}
	r.heads = heads
	return nil
}

// needsHolders reports whether the states of the holders of a lock have to be read. Of a limit they are
// where it may have no place left: dead entries would fill it for ever.
func (a *acquisition) needsHolders(key workflow.EntityKey, l workflow.Lock) bool {
	if key.IsSlot() {
		return len(l.Holders)+1 >= a.Slot.Limit
	}
	return a.Mode != workflow.LockShared || len(l.Holders) >= pruneThreshold
}

// handleConflict reserves the lock from the second conflict on, and registers as a
// waiter with the holder or reserver on the condition that it still is one. Whether the
// holder waits for an operator is as the registration found it. done means that Acquire
// returns the result; otherwise the items have to be read again.
//
// A write that would change nothing is not made: thousands of waiters would make it again and
// again, of an item that grows with them.
func (a *acquisition) handleConflict(ctx context.Context, e evaluatedLock) (done bool, _ Result, err error) {
	a.conflicts++
	if a.conflicts >= a.ReserveAfter && !e.blockedBy.Reservation && !a.reservedByOlder(e) {
		if still, err := a.reserve(ctx, e.blockedBy.Entity, e.voidReserver); err != nil || !still {
			return true, Result{Stale: true}, err
		}
	}
	var ok bool
	if e.blockedBy.Reservation && e.heads[e.blockedBy.Execution].FullOfWaiters {
		ok = true
	} else if e.blockedBy.Reservation {
		ok, err = a.Store.AddReserverWaiter(ctx, a.Tenant, e.blockedBy.Execution, a.Execution)
	} else {
		e.blockedBy.NeedsPerson, ok, err = a.registerWithAll(ctx, e.blockedBy, e.heads)
	}
	if err != nil {
		return false, Result{}, err
	}
	if ok {
		return true, Result{Conflict: &e.blockedBy}, nil
	}
	still, err := a.stillLocking(ctx)
	if err != nil || !still {
		return true, Result{Stale: true}, err
	}
	return false, Result{}, nil
}

// reservedByOlder reports whether a lock has a reservation that the execution may not replace: its
// own, or that of an older execution.
func (a *acquisition) reservedByOlder(e evaluatedLock) bool {
	l := e.lock
	return l.Reserver == a.Execution || l.Reserver != "" && e.voidReserver == "" && workflow.Older(l.ReserverAge, a.Age)
}

// registerWithAll registers the execution with all that block it. It is not ok if one of them no longer
// does. needsPerson says that all of them wait for an operator. heads are these as they were read.
func (a *acquisition) registerWithAll(ctx context.Context, by workflow.BlockedBy, heads map[string]workflow.OwnerStatus) (needsPerson, ok bool, err error) {
	needsPerson = true
	for _, one := range by.Holders() {
		holder, ok := heads[one.Execution], true
		if !holder.FullOfWaiters {
			holder, ok, err = a.Store.AddHolderWaiter(ctx, a.Tenant, one, a.Execution)
		}
		if err != nil || !ok {
			return false, false, err
		}
		needsPerson = needsPerson && holder.NeedsPerson()
	}
	return needsPerson, true, nil
}

// reserve writes the execution's reservation to a lock, unless an older execution has
// reserved it. void names a reserver whose reservation may be replaced. still reports
// whether the execution is still locking at this epoch.
func (a *acquisition) reserve(ctx context.Context, key workflow.EntityKey, void string) (still bool, err error) {
	ok, err := a.Locks.Reserve(ctx, a.Tenant, key, workflow.Reservation{Execution: a.Execution, Age: a.Age}, void)
	if ok || err != nil {
		return ok, err
	}
	return a.stillLocking(ctx)
}

// reserveLost reserves the locks that others took first, from the second conflict on.
// Without it, an execution that finds a lock free each time and is always too late
// would never see a holder, and so never reserve.
func (a *acquisition) reserveLost(ctx context.Context, taken []evaluatedLock, lost []workflow.EntityKey) (still bool, err error) {
	if a.conflicts < a.ReserveAfter || a.SkipLocked {
		return true, nil
	}
	for _, r := range taken {
		if !slices.Contains(lost, r.lock.Entity) {
			continue
		}
		if still, err := a.reserve(ctx, r.lock.Entity, r.voidReserver); err != nil || !still {
			return false, err
		}
	}
	return true, nil
}

// stillLocking reports whether the execution is still locking at this epoch. It is
// called after every failed write. Otherwise a stale handler and the current one could
// replace each other's reservations for ever.
func (a *acquisition) stillLocking(ctx context.Context) (bool, error) {
	heads, err := a.Store.Heads(ctx, a.Tenant, []string{a.Execution})
	if err != nil {
		return false, err
	}
	h := heads[a.Execution]
	return h.State == sm.ExecutionLocking && h.Epoch == a.Epoch, nil
}
