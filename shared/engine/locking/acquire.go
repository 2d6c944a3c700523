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

// maxRounds bounds how often one call reads its lock items. Each round after the first is needed
// because other executions have changed something. After the last round the execution releases its
// locks and tries again later.
const maxRounds = 8

// Locker acquires locks through two ports.
type Locker struct {
	Store           port.Store
	Locks           port.Locks
	Parallel        int   // concurrent takes; 1 keeps all of them in the caller's goroutine
	ReserveAfter    int   // number of conflicts, including the current one, from which the execution makes reservations
	MinFencingToken int64 // every token is greater than this
}

// Request names an execution and the locks it wants.
type Request struct {
	Tenant             string
	Execution          string
	Epoch              int64
	Age                string                // id of the root execution that started it; empty means its own id
	IgnoreReservations bool                  // set if another execution waits for this one, because the reserver may be waiting for that other one
	Mode               workflow.LockMode     // shared or exclusive
	SkipLocked         bool                  // skip what others hold or have reserved
	Conflicts          int                   // number of conflicts before this call
	Keys               []workflow.EntityKey  // the place of an entity is its position, counted from 1
	Slot               *workflow.Slot        // a concurrency limit, taken with the keys; nil for none
	Ahead              *Reading              // items of the first round, if read in advance; nil to read them
	Recent             bool                  // return who took the locks before
	Beside             func(context.Context) // if not nil, called once, while all locks are taken, unless they are taken one after the other, or shared
	Now                time.Time
}

// Result is one of three: the tokens of all locks that were not skipped; a conflict; or Stale, if
// the execution is no longer locking at this epoch and the caller must reload it.
type Result struct {
	Tokens   map[workflow.EntityKey]int64
	Recent   map[workflow.EntityKey]workflow.RecentHolders // earlier holders, possibly including this execution; only if the request asks for them
	Skipped  []workflow.BlockedBy                          // the skipped entities in the order of the request, and who holds or has reserved them
	Conflict *workflow.BlockedBy
	Stale    bool

	// WaiterSetFull means that the execution is not registered with anything that it is in conflict
	// with, because their waiter sets are full.
	WaiterSetFull bool

	// Besides means that Beside was called, after all items were read, with the owners that they
	// name, and that each lock was taken on the condition that its item was unchanged since.
	Besides bool
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
	besides   bool
}

// Acquire takes every lock, or returns the first conflict. While it knows of a conflict, it takes
// nothing.
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
	var contested workflow.EntityKey // the entity that the last round failed on
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
		beside := a.Beside
		if round > 0 || a.Slot != nil || a.Mode == workflow.LockShared || len(toTake) < len(a.Keys) {
			beside = nil
		}
		lost, err := a.take(ctx, toTake, beside)
		if err != nil {
			return Result{}, err
		}
		a.besides = beside != nil && len(lost) == 0
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
	// Do not stay in LOCKING: release, and let the timer or a wake-up try again. The execution is
	// not registered with the executions that it met, because they have released what they held. So
	// it polls as if their waiter sets were full.
	return Result{Conflict: &workflow.BlockedBy{Entity: contested, Execution: a.Execution, Epoch: -1}, WaiterSetFull: true}, nil
}

// granted returns the result once all locks are taken. Joining a shared lock does not depend on its
// revision, so the items read before may be outdated. In that case it reads the recent holders
// again, under the locks.
func (a *acquisition) granted(ctx context.Context) (Result, error) {
	result := Result{Tokens: a.tokens, Besides: a.besides}
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

// evaluatedLock is a lock item as read, with its evaluation.
type evaluatedLock struct {
	evaluation
	lock  workflow.Lock
	heads map[string]workflow.OwnerStatus // states of the executions that the item names
}

// read reads lock items first, and then the states of all executions that they name.
//
// The first read of a call is eventually consistent, which costs half as much. An outdated item is
// no worse than what a slow handler sees. If an execution named in it is still live, it still holds
// the lock, because nobody takes a lock from a live holder. If the item looks free, it is taken
// only if it has not changed since; if it has, the next read is strongly consistent. See
// [Locker.passedOwners] for the executions.
func (a *acquisition) read(ctx context.Context, keys []workflow.EntityKey, strong bool) ([]evaluatedLock, error) {
	reading := a.Ahead
	if a.Ahead = nil; reading == nil || strong || !reading.covers(keys) {
		var err error
		if reading, err = a.ReadItems(ctx, a.Tenant, keys, strong); err != nil {
			return nil, err
		}
		if err := a.readOwners(ctx, a.Tenant, a.Execution, reading, a.needsHolders, !strong); err != nil {
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

// Reading holds lock items as read, and then the states of the executions that they name.
type Reading struct {
	items map[workflow.EntityKey]workflow.Lock
	heads map[string]workflow.OwnerStatus // nil until they are read
}

// covers reports whether a reading contains all keys, and no shared locks.
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

// ReadOwners reads the states of the executions that the items of a weak reading name, except the
// one that asks, and the holders of shared locks.
func (l *Locker) ReadOwners(ctx context.Context, tenant, execution string, r *Reading) error {
	return l.readOwners(ctx, tenant, execution, r, nil, true)
}

// readOwners reads the states of the executions that the items of a reading name, except the one
// that asks. The holders of a shared lock are read only if needsHolders reports true; nil means
// never. To join a shared lock, the other holders need not be read until there are so many that it
// pays to remove the dead ones.
func (l *Locker) readOwners(ctx context.Context, tenant, execution string, r *Reading, needsHolders func(workflow.EntityKey, workflow.Lock) bool, weak bool) (err error) {
	owners, named := map[string]bool{}, map[string]bool{}
	for key, item := range r.items {
		owners[item.Owner], named[item.Owner], named[item.Reserver] = true, true, true
		if needsHolders != nil && needsHolders(key, item) {
			for id := range item.Holders {
				named[id] = true
			}
		}
	}
	for _, id := range []string{"", execution} {
		delete(owners, id)
		delete(named, id)
	}
	heads := map[string]workflow.OwnerStatus{}
	if weak && len(owners) > 0 {
		if heads, err = l.passedOwners(ctx, tenant, r.items, slices.Sorted(maps.Keys(owners))); err != nil {
			return err
		}
	}
	for id := range heads {
		delete(named, id)
	}
	if len(named) > 0 {
		others, err := l.Store.Heads(ctx, tenant, slices.Sorted(maps.Keys(named)))
		if err != nil {
			return err
		}
		maps.Copy(heads, others)
	}
	r.heads = heads
	return nil
}

// passedOwners reads the owners of locks weakly, which costs half as much, and returns the states of
// those that no longer hold any of the items that name them as owners. Usually that is all: they
// have ended. What was true of them stays true, however outdated it is, because an execution that
// holds nothing at an epoch never again holds anything at it. Nothing else that a weak read says is
// believed, not even that there is no such execution: it may have been created since.
//
// A reservation that was void may stand again, so those who also reserve are not returned.
func (l *Locker) passedOwners(ctx context.Context, tenant string, items map[workflow.EntityKey]workflow.Lock, owners []string) (map[string]workflow.OwnerStatus, error) {
	heads, err := l.Store.HeadsWeakly(ctx, tenant, owners)
	if err != nil {
		return nil, err
	}
	for key, item := range items {
		if h := heads[item.Owner]; h.State == "" || h.Epoch < item.OwnerEpoch || h.HoldsEntity(key, item.OwnerEpoch, item.Place) {
			delete(heads, item.Owner)
		}
		delete(heads, item.Reserver)
		for id := range item.Holders {
			delete(heads, id)
		}
	}
	return heads, nil
}

// needsHolders reports whether the states of a lock's holders must be read. For a concurrency limit
// this is so when it may be full, because dead entries would otherwise fill it for ever.
func (a *acquisition) needsHolders(key workflow.EntityKey, l workflow.Lock) bool {
	if key.IsSlot() {
		return len(l.Holders)+1 >= a.Slot.Limit
	}
	return a.Mode != workflow.LockShared || len(l.Holders) >= pruneThreshold
}

// handleConflict makes a reservation from the second conflict on, and registers the execution as a
// waiter with the holder or reserver, on the condition that it still is one. The registration also
// tells whether the holder waits for an operator. done means that Acquire returns the result;
// otherwise the items must be read again.
//
// It skips a write that would change nothing. Otherwise thousands of waiters would keep writing an
// item that grows with them.
func (a *acquisition) handleConflict(ctx context.Context, e evaluatedLock) (done bool, _ Result, err error) {
	a.conflicts++
	if a.conflicts >= a.ReserveAfter && !e.blockedBy.Reservation && !a.reservedByOlder(e) {
		if still, err := a.reserve(ctx, e.blockedBy.Entity, e.voidReserver); err != nil || !still {
			return true, Result{Stale: true}, err
		}
	}
	var ok, full bool
	if by := e.blockedBy.Execution; e.blockedBy.Reservation {
		ok, full, err = RegisterWithReserver(ctx, a.Store, a.Tenant, by, e.heads[by], a.Execution)
	} else {
		e.blockedBy.NeedsPerson, full, ok, err = a.registerWithAll(ctx, e.blockedBy, e.heads)
	}
	if err != nil {
		return false, Result{}, err
	}
	if ok {
		return true, Result{Conflict: &e.blockedBy, WaiterSetFull: full}, nil
	}
	still, err := a.stillLocking(ctx)
	if err != nil || !still {
		return true, Result{Stale: true}, err
	}
	return false, Result{}, nil
}

// reservedByOlder reports whether the lock has a reservation that the execution must not replace:
// its own, or that of an older execution.
func (a *acquisition) reservedByOlder(e evaluatedLock) bool {
	l := e.lock
	return l.Reserver == a.Execution || l.Reserver != "" && e.voidReserver == "" && workflow.Older(l.ReserverAge, a.Age)
}

// RegisterWithReserver registers a waiter with an execution that has reserved a lock. status is that
// execution's, as read: where its reservation no longer stands, or its waiter set is full, there is
// nothing to write. ok means that the reservation stands, and full that the waiter is not registered.
func RegisterWithReserver(ctx context.Context, store port.Store, tenant, reserver string, status workflow.OwnerStatus, waiter string) (ok, full bool, err error) {
	if ok = status.Reserves(); ok && !status.IsWaiterSetFull() {
		status, ok, err = store.AddReserverWaiter(ctx, tenant, reserver, waiter)
	}
	return ok, status.RejectsWaiter(waiter), err
}

// registerWithAll registers the execution with everything that blocks it. ok is false if one of
// them no longer blocks it. needsPerson means that all of them wait for an operator, and full that
// all waiter sets are full without it. heads holds their states as read.
func (a *acquisition) registerWithAll(ctx context.Context, by workflow.BlockedBy, heads map[string]workflow.OwnerStatus) (needsPerson, full, ok bool, err error) {
	needsPerson, full = true, true
	for _, one := range by.Holders() {
		holder, ok := heads[one.Execution], true
		if !holder.IsWaiterSetFull() {
			holder, ok, err = a.Store.AddHolderWaiter(ctx, a.Tenant, one, a.Execution)
		}
		if err != nil || !ok {
			return false, false, false, err
		}
		needsPerson = needsPerson && holder.NeedsPerson()
		full = full && holder.RejectsWaiter(a.Execution)
	}
	return needsPerson, full, true, nil
}

// reserve writes the execution's reservation to a lock, unless an older execution has reserved it.
// void names a reserver whose reservation may be replaced. still reports whether the execution is
// still locking at this epoch.
func (a *acquisition) reserve(ctx context.Context, key workflow.EntityKey, void string) (still bool, err error) {
	ok, err := a.Locks.Reserve(ctx, a.Tenant, key, workflow.Reservation{Execution: a.Execution, Age: a.Age}, void)
	if ok || err != nil {
		return ok, err
	}
	return a.stillLocking(ctx)
}

// reserveLost makes reservations, from the second conflict on, for the locks that others took
// first. Without it, an execution that always finds a lock free but is always too late would never
// see a holder, and so never make a reservation.
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

// stillLocking reports whether the execution is still locking at this epoch. It is called after
// every failed write. Otherwise a stale handler and the current one could replace each other's
// reservations for ever.
func (a *acquisition) stillLocking(ctx context.Context) (bool, error) {
	heads, err := a.Store.Heads(ctx, a.Tenant, []string{a.Execution})
	if err != nil {
		return false, err
	}
	h := heads[a.Execution]
	return h.State == sm.ExecutionLocking && h.Epoch == a.Epoch, nil
}
