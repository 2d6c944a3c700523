package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Store stores executions.
type Store struct {
	*conn
	programVersion int // version of the program that reads and writes; see SetProgramVersion
}

// SetProgramVersion sets the version of the program that uses the store. The store writes it
// to every item and refuses items that a newer version has written.
func (s *Store) SetProgramVersion(version int) { s.programVersion = version }

// executionItem is a state item with the items that belong to it.
type executionItem struct {
	x             *workflow.Execution // nil if only other items of the execution exist
	waiters       map[string]bool
	failureStreak *workflow.FailureStreak
	headBefore    workflow.OwnerStatus // before the last change
	index         indexEntry           // what the indexes show
	before        indexEntry           // what they showed before the last change

	descendants map[string]int
	observed    workflow.ObservedThrough
	heard       map[string]bool // keys of consumed signals that have left the state item
	values      map[string][]byte

	input  *workflow.Input
	scopes map[string][][]workflow.ScopeEntity
	events map[int64]workflow.Event
}

func (s *Store) item(tenant, id string) *executionItem {
	return s.w.executions[tenantKey(tenant, id)]
}

func (s *Store) put(x *workflow.Execution, o workflow.CommitOptions) {
	e := s.ensureItem(x.Tenant, x.ID)
	old := e.x
	e.headBefore = s.head(e)
	e.x = clone(x)
	if x.FailureStreak == nil {
		e.failureStreak = nil
	}
	e.x.Schema = max(x.Schema, s.programVersion)
	if old != nil {
		keepMailbox(e.x, old, o)
		if r := e.x.Result; r.Unread() && old.Result != nil && old.Result.Stored != nil && *old.Result.Stored == *r.Stored {
			r.Sets = old.Result.Sets
		}
	}
	if s.w.Observer != nil {
		s.w.Observer.ExecutionWritten(old, e.x)
	}
	e.before, e.index = e.index, indexEntry{tenant: x.Tenant, id: x.ID, listedAs: x.ListedAs(), dueAt: x.DueAt}
}

// ensureItem returns an execution's item and creates it if necessary.
func (s *Store) ensureItem(tenant, id string) *executionItem {
	e := s.item(tenant, id)
	if e == nil {
		e = &executionItem{waiters: map[string]bool{}, descendants: map[string]int{}, heard: map[string]bool{}, values: map[string][]byte{}, scopes: map[string][][]workflow.ScopeEntity{}, events: map[int64]workflow.Event{}}
		s.w.executions[tenantKey(tenant, id)] = e
	}
	return e
}

func (e *executionItem) ownerStatus() workflow.OwnerStatus {
	if e == nil || e.x == nil {
		return workflow.OwnerStatus{}
	}
	s := e.x.OwnerStatus()
	s.Kept = clone(s.Kept)
	return s
}

// decode returns the item as a reader sees it.
func (s *Store) decode(e *executionItem) (*workflow.Execution, error) {
	if e.x.Schema > max(workflow.SchemaVersion, s.programVersion) {
		return nil, workflow.Errorf(workflow.CodeUnavailable, "execution %s has a newer schema", e.x.ID)
	}
	x := clone(e.x)
	x.Result = x.Result.InItem() // observers see all of it
	if x.LastEnd != nil {
		x.LastEnd.Result = x.LastEnd.Result.InItem()
	}
	x.Waiters = slices.Sorted(maps.Keys(e.waiters)) // a commit does not change the waiters
	x.FailureStreak = clone(e.failureStreak)
	return x, nil
}

// Create writes the state item if none exists.
func (s *Store) Create(_ context.Context, x *workflow.Execution) (bool, error) {
	return call(s.conn, "store.create", func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		n, err := s.w.executionBytes(x)
		if err != nil {
			return false, err
		}
		x.ItemBytes = n
		if e := s.item(x.Tenant, x.ID); e != nil && e.x != nil {
			return e.x.Commit == x.Commit, nil
		}
		s.put(x, workflow.CommitOptions{})
		return true, nil
	})
}

// Load reads an execution, strongly consistent.
func (s *Store) Load(_ context.Context, tenant, id string) (*workflow.Execution, error) {
	return call(s.conn, "store.load", func(bool) (*workflow.Execution, error) {
		s.countReads(tableExecutions, 1)
		e := s.item(tenant, id)
		if e == nil || e.x == nil {
			return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
		}
		return s.decode(e)
	})
}

// LoadMany reads executions, strongly consistent. It leaves out missing ones, and names those
// that a newer version wrote.
func (s *Store) LoadMany(_ context.Context, tenant string, ids []string) (found []*workflow.Execution, newer []string, err error) {
	_, err = call(s.conn, "store.load_many", func(bool) (empty, error) {
		s.countReads(tableExecutions, len(ids))
		found, newer = nil, nil
		for _, id := range ids {
			if e := s.item(tenant, id); e != nil && e.x != nil {
				if x, err := s.decode(e); err == nil {
					found = append(found, x)
				} else {
					newer = append(newer, id)
				}
			}
		}
		return empty{}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return found, newer, nil
}

// Heads reads what decides about locks, strongly consistent.
func (s *Store) Heads(_ context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return call(s.conn, "store.heads", func(bool) (map[string]workflow.OwnerStatus, error) {
		s.countReads(tableExecutions, len(ids))
		return s.heads(tenant, ids), nil
	})
}

// HeadsWeakly reads the same. A stale read returns each as it was before its last change.
func (s *Store) HeadsWeakly(_ context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return call(s.conn, "store.heads_weakly", func(stale bool) (map[string]workflow.OwnerStatus, error) {
		s.countWeakReads(tableExecutions, len(ids))
		heads := s.heads(tenant, ids)
		for _, id := range ids {
			if e := s.item(tenant, id); stale && e != nil {
				heads[id] = e.headBefore
			}
		}
		return heads, nil
	})
}

func (s *Store) heads(tenant string, ids []string) map[string]workflow.OwnerStatus {
	heads := make(map[string]workflow.OwnerStatus, len(ids))
	for _, id := range ids {
		heads[id] = s.head(s.item(tenant, id))
	}
	return heads
}

func (s *Store) head(e *executionItem) workflow.OwnerStatus {
	head := e.ownerStatus()
	if e == nil {
		return head
	}
	return head.WithWaiters(slices.Sorted(maps.Keys(e.waiters)), s.w.MaxWaiters)
}

// Commit replaces the state item if its version is still seen, and no signal has come where that
// matters. It also returns and clears the waiters, and removes signals, as o asks.
func (s *Store) Commit(_ context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) (waiters []string, ok bool, err error) {
	if err := s.hear(next, o); err != nil {
		return nil, false, err
	}
	type answer struct {
		waiters []string
		ok      bool
	}
	a, err := call(s.conn, "store.commit", func(bool) (answer, error) {
		s.countWrite(tableExecutions)
		n, err := s.w.executionBytes(next)
		if err != nil {
			return answer{}, err
		}
		next.ItemBytes = n
		e := s.item(next.Tenant, next.ID)
		switch {
		case e == nil || e.x == nil:
			return answer{}, nil
		case e.x.Version != seen:
			return answer{ok: e.x.Commit == next.Commit && e.x.Version == next.Version}, nil
		case o.SignalsSeen && e.x.SignalOrder != next.SignalOrder:
			return answer{}, nil
		}
		s.put(next, o)
		a := answer{ok: true}
		if o.Release {
			for id := range e.waiters {
				a.waiters = append(a.waiters, id)
			}
			slices.Sort(a.waiters)
			clear(e.waiters)
		}
		if s.w.Observer != nil {
			s.w.Observer.WaitersRemaining(next.ID, len(e.waiters))
		}
		return a, nil
	})
	heard, left := next.HearSignals(o.Consumed)
	next.Heard, next.HeardOut = heard, next.HeardOut+int64(len(left))
	return a.waiters, a.ok, err
}

// RecordFailureStreak stores a failure streak if the version is still seen, and the revision of the streak still that of before.
func (s *Store) RecordFailureStreak(_ context.Context, tenant, id string, seen int64, before *workflow.FailureStreak, t workflow.FailureStreak) (bool, error) {
	return call(s.conn, "store.record_failure_streak", func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		e := s.item(tenant, id)
		if e == nil || e.x == nil || e.x.Version != seen {
			return false, nil
		}
		if (e.failureStreak == nil) != (before == nil) || e.failureStreak.OrZero().Revision != before.OrZero().Revision {
			return false, nil
		}
		if e.failureStreak = &t; t == (workflow.FailureStreak{}) {
			e.failureStreak = nil
		}
		return true, nil
	})
}

// CountDescendants counts n descendants of root, once, unless there are more than limit then.
func (s *Store) CountDescendants(_ context.Context, tenant, root, as string, n, limit int) (bool, error) {
	return call(s.conn, "store.count_descendant", func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		e := s.ensureItem(tenant, root)
		all := n
		for _, counted := range e.descendants {
			all += counted
		}
		if e.descendants[as] > 0 {
			return true, nil
		}
		if all > limit {
			return false, nil
		}
		e.descendants[as] = n
		return true, nil
	})
}

// AddHolderWaiter adds a waiter if the holder is still live at the epoch and has released no
// entity since by was read.
func (s *Store) AddHolderWaiter(_ context.Context, tenant string, by workflow.BlockedBy, waiter string) (workflow.OwnerStatus, bool, error) {
	return s.await("store.add_holder_waiter", tenant, by.Execution, waiter, func(h workflow.OwnerStatus) bool {
		return h.HoldsEntity(by.Entity, by.Epoch, 0) && h.Narrowed == by.Narrowed
	})
}

// AddReserverWaiter adds a waiter if the reserver has not locked yet and does not wait for an
// operator.
func (s *Store) AddReserverWaiter(_ context.Context, tenant, reserver, waiter string) (workflow.OwnerStatus, bool, error) {
	return s.await("store.add_reserver_waiter", tenant, reserver, waiter, workflow.OwnerStatus.Reserves)
}

func (s *Store) await(name, tenant, id, waiter string, canWait func(workflow.OwnerStatus) bool) (head workflow.OwnerStatus, ok bool, err error) {
	ok, err = call(s.conn, name, func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		e := s.item(tenant, id)
		if head = e.ownerStatus(); !canWait(head) {
			return false, nil
		}
		if len(e.waiters) < s.w.MaxWaiters {
			e.waiters[waiter] = true
		}
		head = s.head(e)
		return true, nil
	})
	return head, ok, err
}

// States returns the state of every execution of a tenant. No fault applies.
func (w *World) States(tenant string) map[string]sm.ExecutionState {
	w.mu.Lock()
	defer w.mu.Unlock()
	states := map[string]sm.ExecutionState{}
	for _, e := range w.executions {
		if e.x != nil && e.x.Tenant == tenant {
			states[e.x.ID] = e.x.State
		}
	}
	return states
}

// empty is the result of a call that returns only an error.
type empty = struct{}

// SaveInput stores an input in an item of its own.
func (s *Store) SaveInput(_ context.Context, tenant, id string, in workflow.Input) error {
	_, err := call(s.conn, "store.save_input", func(bool) (empty, error) {
		s.countWrite(tableExecutions)
		if err := checkItemSize(in); err != nil {
			return empty{}, err
		}
		kept := clone(in)
		s.ensureItem(tenant, id).input = &kept
		return empty{}, nil
	})
	return err
}

// LoadInput reads an input.
func (s *Store) LoadInput(_ context.Context, tenant, id string) (workflow.Input, error) {
	return call(s.conn, "store.load_input", func(bool) (workflow.Input, error) {
		s.countReads(tableExecutions, 1)
		e := s.item(tenant, id)
		if e == nil || e.input == nil {
			return workflow.Input{}, workflow.Errorf(workflow.CodeNotFound, "execution %s has no input", id)
		}
		return clone(*e.input), nil
	})
}

// ObservedThrough returns how far the events have been published.
func (s *Store) ObservedThrough(_ context.Context, tenant, id string) (workflow.ObservedThrough, error) {
	return call(s.conn, "store.observed_through", func(bool) (o workflow.ObservedThrough, err error) {
		s.countReads(tableExecutions, 1)
		if e := s.item(tenant, id); e != nil {
			o = e.observed
		}
		return o, nil
	})
}

// LeaseObserved lets one handler at a time publish the events.
func (s *Store) LeaseObserved(_ context.Context, tenant, id string, seen int64, by string, now, until time.Time) (bool, error) {
	return call(s.conn, "store.lease_observed", func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		o := &s.ensureItem(tenant, id).observed
		if o.Sequence != seen || o.By != "" && o.By != by && !o.Until.Before(now) {
			return false, nil
		}
		o.By, o.Until = by, until
		return true, nil
	})
}

// MoveObserved records that the events have been published.
func (s *Store) MoveObserved(_ context.Context, tenant, id string, seen, to int64) (bool, error) {
	return call(s.conn, "store.move_observed", func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		o := &s.ensureItem(tenant, id).observed
		if o.Sequence != seen {
			return o.Sequence == to, nil
		}
		*o = workflow.ObservedThrough{Sequence: to}
		return true, nil
	})
}

// Discard allows everything but the state item to be deleted from at on. The world deletes
// nothing; it records the time, see World.DiscardedAt.
func (s *Store) Discard(_ context.Context, tenant, id string, at time.Time) error {
	return s.discard("store.discard", workflow.StepRunKey{Tenant: tenant, Execution: id}, partsShard, at)
}

// SaveScope stores entities in chunks.
func (s *Store) SaveScope(_ context.Context, tenant, id, key string, entities []workflow.ScopeEntity) (chunks, perChunk int, err error) {
	chunks, err = call(s.conn, "store.save_scope", func(bool) (int, error) {
		var chunks [][]workflow.ScopeEntity
		for c := range slices.Chunk(entities, s.w.ScopeEntities) {
			s.countWrite(tableExecutions)
			chunks = append(chunks, clone(c))
		}
		s.ensureItem(tenant, id).scopes[key] = chunks
		return len(chunks), nil
	})
	return chunks, s.w.ScopeEntities, err
}

// LoadScope reads chunks in order.
func (s *Store) LoadScope(_ context.Context, tenant, id, key string, from, to int) ([]workflow.ScopeEntity, error) {
	return call(s.conn, "store.load_scope", func(bool) ([]workflow.ScopeEntity, error) {
		s.countReads(tableExecutions, to-from)
		e := s.item(tenant, id)
		if e == nil || len(e.scopes[key]) < to {
			return nil, workflow.Errorf(workflow.CodeNotFound, "execution %s has no scope %s of %d chunks", id, key, to)
		}
		return clone(slices.Concat(e.scopes[key][from:to]...)), nil
	})
}

// SaveEvents stores a page of events. It does not replace a stored event.
func (s *Store) SaveEvents(_ context.Context, tenant, id string, events []workflow.Event) error {
	_, err := call(s.conn, "store.save_events", func(bool) (empty, error) {
		s.countWrite(tableExecutions)
		kept := s.ensureItem(tenant, id).events
		for _, e := range clone(events) {
			if _, ok := kept[e.Sequence]; !ok {
				kept[e.Sequence] = e
			}
		}
		return empty{}, nil
	})
	return err
}

// LoadEvents reads stored events above a sequence number, in order.
func (s *Store) LoadEvents(_ context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error) {
	return call(s.conn, "store.load_events", func(bool) ([]workflow.Event, error) {
		var found []workflow.Event
		if e := s.item(tenant, id); e != nil {
			for n, event := range e.events {
				if n > after {
					found = append(found, event)
				}
			}
		}
		slices.SortFunc(found, func(a, b workflow.Event) int { return int(a.Sequence - b.Sequence) })
		found = clone(found[:min(limit, len(found))])
		s.countReads(tableExecutions, len(found))
		return found, nil
	})
}
