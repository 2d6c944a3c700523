package harness

import (
	"context"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// History is the whole history of a run, read by pages.
func (s *Harness) History(id string) (all []workflow.Event) {
	s.Helper()
	s.WithoutFaults(func() {
		for page := (workflow.Page{Limit: 7}); ; {
			list, err := s.Query.History(context.Background(), Caller, id, page)
			if err != nil {
				s.Fatal(err)
			}
			all = append(all, list.Items...)
			if page.Token = list.NextToken; page.Token == "" {
				return
			}
		}
	})
	return all
}

// ExecutionStates are the states of the execution layer in a run's history.
func (s *Harness) ExecutionStates(id string) (states []string) {
	s.Helper()
	for _, e := range s.History(id) {
		if e.Layer == string(sm.LayerExecution) {
			states = append(states, e.To)
		}
	}
	return states
}

// CheckInvariants holds everything that was played so far against what must hold of every
// play, and fails the test where it does not.
func (s *Harness) CheckInvariants() {
	s.Helper()
	states := s.States(Caller.Tenant)
	for id, state := range states {
		s.checkHistory(id, state)
	}
	s.checkCalls()
	s.checkLocks()
}

// checkHistory wants a history without gaps that leads to the state, with one
// terminal event if the run has ended and none if it has not.
func (s *Harness) checkHistory(id string, state sm.ExecutionState) {
	s.Helper()
	at, ends, tries := sm.ExecutionState(""), 0, 1
	for i, e := range s.History(id) {
		if e.Sequence != int64(i+1) {
			s.Errorf("%s: event %d is at place %d", id, e.Sequence, i+1)
		}
		if e.Layer != string(sm.LayerExecution) {
			continue
		}
		if e.From != string(at) {
			s.Errorf("%s: %s leads from %s, but it was in %s", id, e.Type, e.From, at)
		}
		at = sm.ExecutionState(e.To)
		if sm.Terminal(at) && sm.TerminalEvent(at) == sm.Event(e.Type) {
			ends++
		}
		if e.Type == string(sm.EventExecutionRetried) {
			tries++
		}
	}
	if at != state {
		s.Errorf("%s: its history leads to %s, but it is in %s", id, at, state)
	}
	if (ends == tries) != sm.Terminal(state) || ends < tries-1 || ends > tries {
		s.Errorf("%s: %d terminal events in %d tries, in state %s", id, ends, tries, state)
	}
}

// checkCalls wants every job that must not be repeated called once at most, and
// no two runs to take turns on one entity: the tokens that a device sees only
// grow.
func (s *Harness) checkCalls() {
	s.Helper()
	times := map[string]int{}
	last := map[string]BlockCall{}
	for _, c := range s.BlockCalls {
		if times[c.Job]++; times[c.Job] > 1 && !c.Repeatable {
			s.Errorf("job %s was called %d times", c.Job, times[c.Job])
		}
		if c.Entity == "" || c.Pure {
			continue // what changes nothing may come late
		}
		before := last[c.Entity]
		if c.Fence < before.Fence {
			s.Errorf("%s: fence %s of %s comes after %s of %s", c.Entity, c.Fence, c.Job, before.Fence, before.Job)
		}
		last[c.Entity] = c
	}
}

// checkLocks wants the live locks to be of runs that hold.
func (s *Harness) checkLocks() {
	s.Helper()
	states := s.States(Caller.Tenant)
	for _, l := range s.Locks() {
		if l.HeldBy == nil || !sm.HoldsLocks(states[*l.HeldBy]) {
			s.Errorf("listed as locked: %+v", l)
		}
	}
}

// Locks are all live locks, read by pages.
func (s *Harness) Locks() (all []views.LockView) {
	s.Helper()
	s.WithoutFaults(func() {
		for page := (workflow.Page{Limit: 3}); ; {
			list, err := s.Query.Locks(context.Background(), Caller, page)
			if err != nil {
				s.Fatal(err)
			}
			all = append(all, list.Items...)
			if page.Token = list.NextToken; page.Token == "" {
				return
			}
		}
	})
	return all
}

// Jobs are all jobs of a run, read by pages.
func (s *Harness) Jobs(id string) (all []workflow.Job) {
	s.Helper()
	s.WithoutFaults(func() {
		for page := (workflow.Page{Limit: 5}); ; {
			list, err := s.Query.Jobs(context.Background(), Caller, id, views.JobFilter{}, page)
			if err != nil {
				s.Fatal(err)
			}
			all = append(all, list.Items...)
			if page.Token = list.NextToken; page.Token == "" {
				return
			}
		}
	})
	return all
}

// ExpectState wants a run to be in a state.
func (s *Harness) ExpectState(id string, want sm.ExecutionState) *workflow.Execution {
	s.Helper()
	x := s.Load(id)
	if x.State != want {
		s.Errorf("%s is in %s (%s), want %s; it went %s", id, x.State, x.Reason, want, strings.Join(s.ExecutionStates(id), " "))
	}
	return x
}

// CallsOf are the calls of a run's blocks as "STEP KIND ENTITY", in order.
func (s *Harness) CallsOf(id string) (calls []string) {
	for _, c := range s.BlockCalls {
		if c.Execution == id {
			calls = append(calls, strings.TrimSpace(c.Step+" "+string(c.Kind)+" "+c.Entity))
		}
	}
	return calls
}

// HasCalled reports whether a run has called a block so.
func (s *Harness) HasCalled(id, call string) bool { return slices.Contains(s.CallsOf(id), call) }
