package sim

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Store keeps executions.
type Store struct {
	*conn
	programVersion int // of the program that reads and writes
}

// SetProgramVersion makes the store that of a program of another version, which writes its
// own on what it changes, and refuses what a newer one has written.
func (s *Store) SetProgramVersion(version int) { s.programVersion = version }

// executionItem is a state item with all that lies beside it.
type executionItem struct {
	x             *workflow.Execution // nil where only something beside it exists
	waiters       map[string]bool
	failureStreak *workflow.FailureStreak
	index         indexEntry // as the indexes have it
	before        indexEntry // as they had it before the last change

	input  *workflow.Input
	scopes map[string][][]workflow.ScopeEntity
	events map[int64]workflow.Event
}

// maxWaiters bounds an item's waiters.
const maxWaiters = 64

func (s *Store) item(tenant, id string) *executionItem {
	return s.w.executions[tenantKey(tenant, id)]
}

func (s *Store) put(x *workflow.Execution) {
	e := s.ensureItem(x.Tenant, x.ID)
	old := e.x
	e.x = clone(x)
	if x.FailureStreak == nil {
		e.failureStreak = nil
	}
	e.x.Schema = max(x.Schema, s.programVersion)
	if s.w.Observer != nil {
		s.w.Observer.ExecutionWritten(old, e.x)
	}
	e.before, e.index = e.index, indexEntry{tenant: x.Tenant, id: x.ID, state: x.State, dueAt: x.DueAt}
}

// ensureItem is the item under which things are kept, made if need be.
func (s *Store) ensureItem(tenant, id string) *executionItem {
	e := s.item(tenant, id)
	if e == nil {
		e = &executionItem{waiters: map[string]bool{}, scopes: map[string][][]workflow.ScopeEntity{}, events: map[int64]workflow.Event{}}
		s.w.executions[tenantKey(tenant, id)] = e
	}
	return e
}

func (e *executionItem) ownerStatus() workflow.OwnerStatus {
	if e == nil || e.x == nil {
		return workflow.OwnerStatus{}
	}
	return workflow.OwnerStatus{State: e.x.State, Epoch: e.x.Epoch}
}

// decode is the item as it is read.
func (s *Store) decode(e *executionItem) (*workflow.Execution, error) {
	if e.x.Schema > max(workflow.SchemaVersion, s.programVersion) {
		return nil, workflow.Errorf(workflow.CodeUnavailable, "execution %s is of a newer schema", e.x.ID)
	}
	x := clone(e.x)
	x.Waiters = slices.Sorted(maps.Keys(e.waiters)) // whoever commits a run has no say in who waits for it
	x.FailureStreak = clone(e.failureStreak)
	return x, nil
}

// Create writes the state item if none exists.
func (s *Store) Create(_ context.Context, x *workflow.Execution) (bool, error) {
	return call(s.conn, "store.create", func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		if err := checkItemSize(x); err != nil {
			return false, err
		}
		if e := s.item(x.Tenant, x.ID); e != nil && e.x != nil {
			return e.x.Commit == x.Commit, nil
		}
		s.put(x)
		return true, nil
	})
}

// Load is a strongly consistent read.
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

// LoadMany are strongly consistent reads; missing ones are left out.
func (s *Store) LoadMany(_ context.Context, tenant string, ids []string) ([]*workflow.Execution, error) {
	return call(s.conn, "store.load_many", func(bool) ([]*workflow.Execution, error) {
		s.countReads(tableExecutions, len(ids))
		var found []*workflow.Execution
		for _, id := range ids {
			if e := s.item(tenant, id); e != nil && e.x != nil {
				x, err := s.decode(e)
				if err != nil {
					return nil, err
				}
				found = append(found, x)
			}
		}
		return found, nil
	})
}

// Heads are strongly consistent reads of states and epochs.
func (s *Store) Heads(_ context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	return call(s.conn, "store.heads", func(bool) (map[string]workflow.OwnerStatus, error) {
		s.countReads(tableExecutions, len(ids))
		heads := make(map[string]workflow.OwnerStatus, len(ids))
		for _, id := range ids {
			heads[id] = s.item(tenant, id).ownerStatus()
		}
		return heads, nil
	})
}

// Commit replaces the state item if its version is still seen.
func (s *Store) Commit(_ context.Context, seen int64, next *workflow.Execution, release bool) (waiters []string, ok bool, err error) {
	type answer struct {
		waiters []string
		ok      bool
	}
	a, err := call(s.conn, "store.commit", func(bool) (answer, error) {
		s.countWrite(tableExecutions)
		if err := checkItemSize(next); err != nil {
			return answer{}, err
		}
		e := s.item(next.Tenant, next.ID)
		switch {
		case e == nil || e.x == nil:
			return answer{}, nil
		case e.x.Version != seen:
			return answer{ok: e.x.Commit == next.Commit && e.x.Version == next.Version}, nil
		}
		s.put(next)
		a := answer{ok: true}
		if release {
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
	return a.waiters, a.ok, err
}

// RecordFailureStreak writes down that looks fail.
func (s *Store) RecordFailureStreak(_ context.Context, tenant, id string, seen int64, t workflow.FailureStreak) error {
	_, err := call(s.conn, "store.record_failure_streak", func(bool) (empty, error) {
		s.countWrite(tableExecutions)
		if e := s.item(tenant, id); e != nil && e.x != nil && e.x.Version == seen {
			if e.failureStreak = &t; t == (workflow.FailureStreak{}) {
				e.failureStreak = nil
			}
		}
		return empty{}, nil
	})
	return err
}

// AddHolderWaiter adds a waiter if the holder is still live at the epoch.
func (s *Store) AddHolderWaiter(_ context.Context, tenant, holder string, epoch int64, waiter string) (bool, error) {
	return s.await("store.add_holder_waiter", tenant, holder, waiter, func(h workflow.OwnerStatus) bool { return h.HoldsLocks(epoch) })
}

// AddReserverWaiter adds a waiter if the reserver has still to lock.
func (s *Store) AddReserverWaiter(_ context.Context, tenant, reserver, waiter string) (bool, error) {
	return s.await("store.add_reserver_waiter", tenant, reserver, waiter, workflow.OwnerStatus.Reserves)
}

func (s *Store) await(name, tenant, id, waiter string, canWait func(workflow.OwnerStatus) bool) (bool, error) {
	return call(s.conn, name, func(bool) (bool, error) {
		s.countWrite(tableExecutions)
		e := s.item(tenant, id)
		if !canWait(e.ownerStatus()) {
			return false, nil
		}
		if len(e.waiters) < maxWaiters {
			e.waiters[waiter] = true
		}
		return true, nil
	})
}

// States is the state of every execution of a tenant, read past all faults.
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
