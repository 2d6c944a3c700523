package sim

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Store keeps executions.
type Store struct {
	*line
	release int // of the program that reads and writes
}

// Release makes the store that of a program of another version, which writes its
// own on what it changes, and refuses what a newer one has written.
func (s *Store) Release(version int) { s.release = version }

// execution is a state item with all that lies beside it.
type execution struct {
	x       *workflow.Execution // nil where only something beside it exists
	waiters map[string]bool
	trouble *workflow.Trouble
	index   entry // as the indexes have it
	before  entry // as they had it before the last change

	input  *workflow.Input
	scopes map[string][][]workflow.Held
	events map[int64]workflow.Event
}

// maxWaiters bounds an item's waiters.
const maxWaiters = 64

func (s *Store) item(tenant, id string) *execution {
	return s.w.executions[within(tenant, id)]
}

func (s *Store) put(x *workflow.Execution) {
	e := s.beside(x.Tenant, x.ID)
	old := e.x
	e.x = replica.Of(x)
	if x.Trouble == nil {
		e.trouble = nil
	}
	e.x.Schema = max(x.Schema, s.release)
	if s.w.Watcher != nil {
		s.w.Watcher.Execution(old, e.x)
	}
	e.before, e.index = e.index, entry{tenant: x.Tenant, id: x.ID, state: x.State, dueAt: x.DueAt}
}

// beside is the item under which things are kept, made if need be.
func (s *Store) beside(tenant, id string) *execution {
	e := s.item(tenant, id)
	if e == nil {
		e = &execution{waiters: map[string]bool{}, scopes: map[string][][]workflow.Held{}, events: map[int64]workflow.Event{}}
		s.w.executions[within(tenant, id)] = e
	}
	return e
}

func (e *execution) head() workflow.Head {
	if e == nil || e.x == nil {
		return workflow.Head{}
	}
	return workflow.Head{State: e.x.State, Epoch: e.x.Epoch}
}

// read is the item as it is read.
func (s *Store) read(e *execution) (*workflow.Execution, error) {
	if e.x.Schema > max(workflow.SchemaVersion, s.release) {
		return nil, workflow.Errorf(workflow.CodeUnavailable, "execution %s is of a newer schema", e.x.ID)
	}
	x := replica.Of(e.x)
	x.Waiters = slices.Sorted(maps.Keys(e.waiters)) // whoever commits a run has no say in who waits for it
	x.Trouble = replica.Of(e.trouble)
	return x, nil
}

// Create writes the state item if none exists.
func (s *Store) Create(_ context.Context, x *workflow.Execution) (bool, error) {
	return call(s.line, "store.create", func(bool) (bool, error) {
		s.writes(tableExecutions)
		if err := fits(x); err != nil {
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
	return call(s.line, "store.load", func(bool) (*workflow.Execution, error) {
		s.reads(tableExecutions, 1)
		e := s.item(tenant, id)
		if e == nil || e.x == nil {
			return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
		}
		return s.read(e)
	})
}

// LoadMany are strongly consistent reads; missing ones are left out.
func (s *Store) LoadMany(_ context.Context, tenant string, ids []string) ([]*workflow.Execution, error) {
	return call(s.line, "store.load_many", func(bool) ([]*workflow.Execution, error) {
		s.reads(tableExecutions, len(ids))
		var found []*workflow.Execution
		for _, id := range ids {
			if e := s.item(tenant, id); e != nil && e.x != nil {
				x, err := s.read(e)
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
func (s *Store) Heads(_ context.Context, tenant string, ids []string) (map[string]workflow.Head, error) {
	return call(s.line, "store.heads", func(bool) (map[string]workflow.Head, error) {
		s.reads(tableExecutions, len(ids))
		heads := make(map[string]workflow.Head, len(ids))
		for _, id := range ids {
			heads[id] = s.item(tenant, id).head()
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
	a, err := call(s.line, "store.commit", func(bool) (answer, error) {
		s.writes(tableExecutions)
		if err := fits(next); err != nil {
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
		if s.w.Watcher != nil {
			s.w.Watcher.Waiting(next.ID, len(e.waiters))
		}
		return a, nil
	})
	return a.waiters, a.ok, err
}

// Trouble writes down that looks fail.
func (s *Store) Trouble(_ context.Context, tenant, id string, seen int64, t workflow.Trouble) error {
	_, err := call(s.line, "store.trouble", func(bool) (nothing, error) {
		s.writes(tableExecutions)
		if e := s.item(tenant, id); e != nil && e.x != nil && e.x.Version == seen {
			e.trouble = &t
		}
		return nothing{}, nil
	})
	return err
}

// AwaitHolder adds a waiter if the holder is still live at the epoch.
func (s *Store) AwaitHolder(_ context.Context, tenant, holder string, epoch int64, waiter string) (bool, error) {
	return s.await("store.await_holder", tenant, holder, waiter, func(h workflow.Head) bool { return h.Live(epoch) })
}

// AwaitReserver adds a waiter if the reserver has still to lock.
func (s *Store) AwaitReserver(_ context.Context, tenant, reserver, waiter string) (bool, error) {
	return s.await("store.await_reserver", tenant, reserver, waiter, workflow.Head.Reserves)
}

func (s *Store) await(name, tenant, id, waiter string, stands func(workflow.Head) bool) (bool, error) {
	return call(s.line, name, func(bool) (bool, error) {
		s.writes(tableExecutions)
		e := s.item(tenant, id)
		if !stands(e.head()) {
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
