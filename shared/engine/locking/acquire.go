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

// maxRounds bounds how often one call judges its lock items. Each round after
// the first was caused by somebody else's progress; when they run out, the run
// releases and comes back.
const maxRounds = 8

// Locker acquires locks through the two ports it needs.
type Locker struct {
	Store           port.Store
	Locks           port.Locks
	Parallel        int   // takes in flight at a time; 1 keeps everything in the caller's goroutine
	ReserveAfter    int   // conflicts, this one included, from which on the run reserves
	MinFencingToken int64 // tokens are greater
}

// Request names the run and what it wants.
type Request struct {
	Tenant             string
	Execution          string
	Epoch              int64
	Age                string            // of the outermost run that started it; its own id if empty
	IgnoreReservations bool              // no reservation counts: whoever made it may wait for who waits for this run
	Mode               workflow.LockMode // shared, or exclusive
	SkipLocked         bool              // leave out what is held or reserved by others
	Conflicts          int               // conflicts before this call
	Keys               []workflow.EntityKey
	Now                time.Time
}

// Result is one of: all locks, with their tokens, but for what was to be skipped;
// a conflict; or Stale, when the run is no longer locking at this epoch and the
// caller must reload it.
type Result struct {
	Tokens   map[workflow.EntityKey]int64
	Skipped  []workflow.BlockedBy // what was skipped, in the order it was asked for, and for whom
	Conflict *workflow.BlockedBy
	Stale    bool
}

// acquisition is the state of one call.
type acquisition struct {
	*Locker
	Request
	conflicts    int
	tokens       map[workflow.EntityKey]int64
	skipped      map[workflow.EntityKey]workflow.BlockedBy
	lastConflict workflow.BlockedBy // the conflict met last, for when the rounds run out
}

// Acquire takes every lock, or comes back with the first conflict. It takes
// nothing while any conflict is known.
func (l *Locker) Acquire(ctx context.Context, ask Request) (Result, error) {
	if ask.Age == "" {
		ask.Age = ask.Execution
	}
	a := &acquisition{
		Locker: l, Request: ask, conflicts: ask.Conflicts,
		tokens: make(map[workflow.EntityKey]int64, len(ask.Keys)), skipped: map[workflow.EntityKey]workflow.BlockedBy{},
	}
	remaining := ask.Keys
	for range maxRounds {
		if len(remaining) == 0 {
			return a.granted(), nil
		}
		evaluated, err := a.read(ctx, remaining)
		if err != nil {
			return Result{}, err
		}
		var toTake []evaluatedLock
		var retry []workflow.EntityKey
		var blocked *evaluation
		for _, r := range evaluated {
			switch r.status {
			case lockHeld:
				held, _ := r.lock.HolderOf(a.Execution, a.Epoch)
				a.tokens[r.lock.Entity] = held.Token
			case lockStale:
				return Result{Stale: true}, nil
			case lockUncertain:
				retry = append(retry, r.lock.Entity)
			case lockConflict:
				if a.SkipLocked {
					a.skipped[r.lock.Entity] = r.blockedBy
				} else if blocked == nil {
					blocked = &r.evaluation
				}
			case lockFree:
				toTake = append(toTake, r)
			}
		}
		if blocked != nil {
			done, answer, err := a.handleConflict(ctx, *blocked)
			if done || err != nil {
				return answer, err
			}
			continue // the holder has let go in between: judge anew
		}
		lost, err := a.take(ctx, toTake)
		if err != nil {
			return Result{}, err
		}
		remaining = slices.Concat(retry, lost)
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
		return a.granted(), nil
	}
	// Never rest in LOCKING: release, and let the alarm or a message come back.
	if a.lastConflict.Execution == "" {
		a.lastConflict = workflow.BlockedBy{Entity: remaining[0], Execution: a.Execution, Epoch: -1}
	}
	return Result{Conflict: &a.lastConflict}, nil
}

func (a *acquisition) granted() Result {
	answer := Result{Tokens: a.tokens}
	for _, key := range a.Keys {
		if by, ok := a.skipped[key]; ok {
			answer.Skipped = append(answer.Skipped, by)
		}
	}
	return answer
}

// evaluatedLock is a lock item as it was read and judged.
type evaluatedLock struct {
	evaluation
	lock workflow.Lock
}

// read reads lock items, then the states of everybody they name, in this order.
func (a *acquisition) read(ctx context.Context, keys []workflow.EntityKey) ([]evaluatedLock, error) {
	items, err := a.Locks.Read(ctx, a.Tenant, keys)
	if err != nil {
		return nil, err
	}
	var named []string
	seen := map[string]bool{"": true, a.Execution: true}
	name := func(id string) {
		if !seen[id] {
			seen[id] = true
			named = append(named, id)
		}
	}
	for _, key := range keys {
		l := items[key]
		name(l.Owner)
		name(l.Reserver)
		// Who shares need not know with whom, until the dead ones among them are
		// worth a read each.
		if a.Mode != workflow.LockShared || len(l.Holders) >= pruneThreshold {
			for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
				name(id)
			}
		}
	}
	heads := map[string]workflow.OwnerStatus{}
	if len(named) > 0 {
		if heads, err = a.Store.Heads(ctx, a.Tenant, named); err != nil {
			return nil, err
		}
	}
	evaluated := make([]evaluatedLock, len(keys))
	for i, key := range keys {
		item := items[key]
		item.Entity = key
		if evaluated[i] = (evaluatedLock{a.evaluate(item, heads), item}); item.Revision < a.MinFencingToken {
			if err := a.raise(ctx, &evaluated[i]); err != nil {
				return nil, err
			}
		}
	}
	return evaluated, nil
}

// handleConflict handles one: reserve from the second on, register with whoever is in
// the way on the condition that they still are. done means that the run has to
// release and sleep, or to stop; otherwise the item has to be judged again.
func (a *acquisition) handleConflict(ctx context.Context, j evaluation) (done bool, _ Result, err error) {
	a.conflicts++
	a.lastConflict = j.blockedBy
	if a.conflicts >= a.ReserveAfter && !j.blockedBy.Reservation {
		if still, err := a.reserve(ctx, j.blockedBy.Entity, j.voidReserver); err != nil || !still {
			return true, Result{Stale: true}, err
		}
	}
	var ok bool
	if j.blockedBy.Reservation {
		ok, err = a.Store.AddReserverWaiter(ctx, a.Tenant, j.blockedBy.Execution, a.Execution)
	} else {
		ok, err = a.Store.AddHolderWaiter(ctx, a.Tenant, j.blockedBy.Execution, j.blockedBy.Epoch, a.Execution)
	}
	if err != nil {
		return false, Result{}, err
	}
	if ok {
		return true, Result{Conflict: &j.blockedBy}, nil
	}
	still, err := a.stillLocking(ctx)
	if err != nil || !still {
		return true, Result{Stale: true}, err
	}
	return false, Result{}, nil
}

// reserve leaves the run's reservation on a lock, unless an older one stands. It
// reports whether the run is still locking at this epoch.
func (a *acquisition) reserve(ctx context.Context, key workflow.EntityKey, void string) (still bool, err error) {
	ok, err := a.Locks.Reserve(ctx, a.Tenant, key, workflow.Reservation{Execution: a.Execution, Age: a.Age}, void)
	if ok || err != nil {
		return ok, err
	}
	return a.stillLocking(ctx)
}

// reserveLost reserves what others were quicker with, once that has happened
// twice. A run that found the lock free each time and each time came too late
// would otherwise never meet a holder, and never reserve.
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

// stillLocking reports whether the run is still locking at this epoch. It is asked after
// every failed write: a stale handler and a live one would otherwise replace
// each other's reservations for ever.
func (a *acquisition) stillLocking(ctx context.Context) (bool, error) {
	heads, err := a.Store.Heads(ctx, a.Tenant, []string{a.Execution})
	if err != nil {
		return false, err
	}
	h := heads[a.Execution]
	return h.State == sm.ExecutionLocking && h.Epoch == a.Epoch, nil
}
