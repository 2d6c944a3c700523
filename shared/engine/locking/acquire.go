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
	Store        port.Store
	Locks        port.Locks
	Parallel     int   // takes in flight at a time; 1 keeps everything in the caller's goroutine
	ReserveAfter int   // conflicts, this one included, from which on the run reserves
	Floor        int64 // tokens are greater
}

// Ask names the run and what it wants.
type Ask struct {
	Tenant    string
	Execution string
	Epoch     int64
	Age       string            // of the outermost run that started it; its own id if empty
	Passes    bool              // no reservation counts: whoever made it may wait for who waits for this run
	Mode      workflow.LockMode // shared, or exclusive
	Skip      bool              // leave out what is held or reserved by others
	Conflicts int               // conflicts before this call
	Keys      []workflow.EntityKey
	Now       time.Time
}

// Answer is one of: all locks, with their tokens, but for what was to be skipped;
// a conflict; or Stale, when the run is no longer locking at this epoch and the
// caller must reload it.
type Answer struct {
	Tokens   map[workflow.EntityKey]int64
	Dropped  []workflow.BlockedBy // what was skipped, in the order it was asked for, and for whom
	Conflict *workflow.BlockedBy
	Stale    bool
}

// attempt is the state of one call.
type attempt struct {
	*Locker
	Ask
	conflicts int
	tokens    map[workflow.EntityKey]int64
	dropped   map[workflow.EntityKey]workflow.BlockedBy
	last      workflow.BlockedBy // the conflict met last, for when the rounds run out
}

// Acquire takes every lock, or comes back with the first conflict. It takes
// nothing while any conflict is known.
func (l *Locker) Acquire(ctx context.Context, ask Ask) (Answer, error) {
	if ask.Age == "" {
		ask.Age = ask.Execution
	}
	a := &attempt{
		Locker: l, Ask: ask, conflicts: ask.Conflicts,
		tokens: make(map[workflow.EntityKey]int64, len(ask.Keys)), dropped: map[workflow.EntityKey]workflow.BlockedBy{},
	}
	open := ask.Keys
	for range maxRounds {
		if len(open) == 0 {
			return a.granted(), nil
		}
		found, err := a.read(ctx, open)
		if err != nil {
			return Answer{}, err
		}
		var takes []reading
		var again []workflow.EntityKey
		var blocked *judgement
		for _, r := range found {
			switch r.verdict {
			case mine:
				held, _ := r.lock.Held(a.Execution, a.Epoch)
				a.tokens[r.lock.Entity] = held.Token
			case stale:
				return Answer{Stale: true}, nil
			case unsure:
				again = append(again, r.lock.Entity)
			case conflict:
				if a.Skip {
					a.dropped[r.lock.Entity] = r.by
				} else if blocked == nil {
					blocked = &r.judgement
				}
			case free:
				takes = append(takes, r)
			}
		}
		if blocked != nil {
			done, answer, err := a.conflict(ctx, *blocked)
			if done || err != nil {
				return answer, err
			}
			continue // the holder has let go in between: judge anew
		}
		lost, err := a.take(ctx, takes)
		if err != nil {
			return Answer{}, err
		}
		open = slices.Concat(again, lost)
		if len(lost) > 0 {
			a.conflicts++
			if still, err := a.self(ctx); err != nil || !still {
				return Answer{Stale: true}, err
			}
			if still, err := a.reserveLost(ctx, takes, lost); err != nil || !still {
				return Answer{Stale: true}, err
			}
		}
	}
	if len(open) == 0 {
		return a.granted(), nil
	}
	// Never rest in LOCKING: release, and let the alarm or a message come back.
	if a.last.Execution == "" {
		a.last = workflow.BlockedBy{Entity: open[0], Execution: a.Execution, Epoch: -1}
	}
	return Answer{Conflict: &a.last}, nil
}

func (a *attempt) granted() Answer {
	answer := Answer{Tokens: a.tokens}
	for _, key := range a.Keys {
		if by, ok := a.dropped[key]; ok {
			answer.Dropped = append(answer.Dropped, by)
		}
	}
	return answer
}

// reading is a lock item as it was read and judged.
type reading struct {
	judgement
	lock workflow.Lock
}

// read reads lock items, then the states of everybody they name, in this order.
func (a *attempt) read(ctx context.Context, keys []workflow.EntityKey) ([]reading, error) {
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
		name(l.Res)
		// Who shares need not know with whom, until the dead ones among them are
		// worth a read each.
		if a.Mode != workflow.LockShared || len(l.Holders) >= pruneFrom {
			for _, id := range slices.Sorted(maps.Keys(l.Holders)) {
				name(id)
			}
		}
	}
	heads := map[string]workflow.Head{}
	if len(named) > 0 {
		if heads, err = a.Store.Heads(ctx, a.Tenant, named); err != nil {
			return nil, err
		}
	}
	found := make([]reading, len(keys))
	for i, key := range keys {
		item := items[key]
		item.Entity = key
		if found[i] = (reading{a.judge(item, heads), item}); item.Rev < a.Floor {
			if err := a.raise(ctx, &found[i]); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// conflict handles one: reserve from the second on, register with whoever is in
// the way on the condition that they still are. done means that the run has to
// release and sleep, or to stop; otherwise the item has to be judged again.
func (a *attempt) conflict(ctx context.Context, j judgement) (done bool, _ Answer, err error) {
	a.conflicts++
	a.last = j.by
	if a.conflicts >= a.ReserveAfter && !j.by.Reservation {
		if still, err := a.reserve(ctx, j.by.Entity, j.void); err != nil || !still {
			return true, Answer{Stale: true}, err
		}
	}
	var ok bool
	if j.by.Reservation {
		ok, err = a.Store.AwaitReserver(ctx, a.Tenant, j.by.Execution, a.Execution)
	} else {
		ok, err = a.Store.AwaitHolder(ctx, a.Tenant, j.by.Execution, j.by.Epoch, a.Execution)
	}
	if err != nil {
		return false, Answer{}, err
	}
	if ok {
		return true, Answer{Conflict: &j.by}, nil
	}
	still, err := a.self(ctx)
	if err != nil || !still {
		return true, Answer{Stale: true}, err
	}
	return false, Answer{}, nil
}

// reserve leaves the run's reservation on a lock, unless an older one stands. It
// reports whether the run is still locking at this epoch.
func (a *attempt) reserve(ctx context.Context, key workflow.EntityKey, void string) (still bool, err error) {
	ok, err := a.Locks.Reserve(ctx, a.Tenant, key, workflow.Reservation{Execution: a.Execution, Age: a.Age}, void)
	if ok || err != nil {
		return ok, err
	}
	return a.self(ctx)
}

// reserveLost reserves what others were quicker with, once that has happened
// twice. A run that found the lock free each time and each time came too late
// would otherwise never meet a holder, and never reserve.
func (a *attempt) reserveLost(ctx context.Context, takes []reading, lost []workflow.EntityKey) (still bool, err error) {
	if a.conflicts < a.ReserveAfter || a.Skip {
		return true, nil
	}
	for _, r := range takes {
		if !slices.Contains(lost, r.lock.Entity) {
			continue
		}
		if still, err := a.reserve(ctx, r.lock.Entity, r.void); err != nil || !still {
			return false, err
		}
	}
	return true, nil
}

// self reports whether the run is still locking at this epoch. It is asked after
// every failed write: a stale handler and a live one would otherwise replace
// each other's reservations for ever.
func (a *attempt) self(ctx context.Context) (bool, error) {
	heads, err := a.Store.Heads(ctx, a.Tenant, []string{a.Execution})
	if err != nil {
		return false, err
	}
	h := heads[a.Execution]
	return h.State == sm.ExecutionLocking && h.Epoch == a.Epoch, nil
}
