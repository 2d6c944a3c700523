package harness

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// History reads the whole history of an execution, page by page.
func (s *Harness) History(id string) (all []workflow.Event) {
	s.Helper()
	s.WithoutFaults(func() {
		for page := (workflow.Page{Limit: 7}); ; {
			list, err := s.Query.History(context.Background(), Caller, id, 0, page)
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

// ExecutionStates returns the states of the execution in its history, in order.
func (s *Harness) ExecutionStates(id string) (states []string) {
	s.Helper()
	for _, e := range s.History(id) {
		if e.Layer == string(sm.LayerExecution) {
			states = append(states, e.To)
		}
	}
	return states
}

// CheckInvariants fails the test if anything that happened so far violates an invariant.
func (s *Harness) CheckInvariants() {
	s.Helper()
	states := s.States(Caller.Tenant)
	for id, state := range states {
		s.checkHistory(id, state)
	}
	s.checkCalls()
	s.checkLocks()
}

// checkHistory requires a history without gaps that leads to the state, with one terminal event for
// each try that has ended.
func (s *Harness) checkHistory(id string, state sm.ExecutionState) {
	s.Helper()
	at, ends, tries := sm.ExecutionState(""), 0, 1
	for i, e := range s.History(id) {
		if e.Sequence != int64(i+1) {
			s.Errorf("%s: event %d is at position %d", id, e.Sequence, i+1)
		}
		if e.Layer != string(sm.LayerExecution) {
			continue
		}
		if e.From != string(at) {
			s.Errorf("%s: %s begins in %s, but the execution was in %s", id, e.Type, e.From, at)
		}
		at = sm.ExecutionState(e.To)
		if oracle.Terminal(at) && oracle.TerminalEvent(at) == sm.Event(e.Type) {
			ends++
		}
		if e.Type == string(sm.EventExecutionRetried) {
			tries++
		}
	}
	if at != state {
		s.Errorf("%s: the history leads to %s, but the execution is in %s", id, at, state)
	}
	if (ends == tries) != oracle.Terminal(state) || ends < tries-1 || ends > tries {
		s.Errorf("%s: %d terminal events in %d tries, in state %s", id, ends, tries, state)
	}
}

// checkCalls requires that every job that is not repeatable is called at most once, and that the
// fences that a device sees never decrease.
func (s *Harness) checkCalls() {
	s.Helper()
	times := map[string]int{}
	last := map[string]BlockCall{}
	for _, c := range s.BlockCalls {
		if times[c.Job]++; times[c.Job] > 1 && !c.Repeatable {
			s.Errorf("job %s was called %d times", c.Job, times[c.Job])
		}
		if c.Entity == "" || c.Pure {
			continue // a pure block changes nothing and may come late
		}
		before := last[c.Entity]
		if c.Fence < before.Fence {
			s.Errorf("%s: fence %s of %s follows %s of %s", c.Entity, c.Fence, c.Job, before.Fence, before.Job)
		}
		last[c.Entity] = c
	}
}

// checkLocks requires that every lock is held by an execution in a state that holds locks.
func (s *Harness) checkLocks() {
	s.Helper()
	states := s.States(Caller.Tenant)
	for _, l := range s.Locks() {
		if l.HeldBy == nil || !oracle.HoldsLocks(states[*l.HeldBy]) {
			s.Errorf("locked, but not by an execution that holds locks: %+v", l)
		}
	}
}

// Locks reads all held locks, page by page.
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

// Jobs reads all jobs of an execution, page by page.
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

// ExpectState fails the test if an execution is not in a state.
func (s *Harness) ExpectState(id string, want sm.ExecutionState) *workflow.Execution {
	s.Helper()
	x := s.Load(id)
	if x.State != want {
		s.Errorf("%s is in %s (%s), want %s; its states were %s", id, x.State, x.Reason, want, strings.Join(s.ExecutionStates(id), " "))
	}
	return x
}

// CallsOf returns the calls of an execution's blocks as "STEP KIND ENTITY", in order.
func (s *Harness) CallsOf(id string) (calls []string) {
	for _, c := range s.BlockCalls {
		if c.Execution == id {
			calls = append(calls, strings.TrimSpace(c.Step+" "+string(c.Kind)+" "+c.Entity))
		}
	}
	return calls
}

// HasCalled reports whether CallsOf contains a call.
func (s *Harness) HasCalled(id, call string) bool { return slices.Contains(s.CallsOf(id), call) }

// blockTraits are the properties of a block that CheckOutcome needs.
type blockTraits struct{ pure, reversible, idempotent, harmless bool }

var traitsByBlock = map[string]blockTraits{
	"pure": {pure: true}, "again": {reversible: true, idempotent: true}, "once": {reversible: true},
	"harmless": {reversible: true, harmless: true}, "forever": {},
	"compensated": {reversible: true}, // in a step with compensate
}

// entityRecord summarises the jobs of one entity. Global jobs belong to the entity "", the jobs of
// an item to itemPrefix with the item's number.
type entityRecord struct {
	failed   bool            // a job failed, in a step whose failure is not handled
	executed map[string]bool // step runs that are not pure and were executed; true if they can be undone
	undone   map[string]bool // step runs with a rollback of the entity; true if it ended OK
}

// leavesDoubt reports whether a job's outcome is unknown and it can neither be left so nor repeated
// and undone.
func leavesDoubt(j workflow.Job, traits blockTraits) bool {
	endUnknown := j.State == sm.JobUnknown || j.Error != nil && slices.Contains([]string{workflow.FailureTimeout, workflow.FailureWorkerCrash, workflow.FailureHTTPUnreachable}, j.Error.Code)
	return endUnknown && !traits.pure && !(traits.idempotent && traits.reversible)
}

// itemPrefix begins the name of an item; no entity's name begins with it.
const itemPrefix = "item "

func isEntity(name string) bool { return name != "" && !strings.HasPrefix(name, itemPrefix) }

// remaining counts the step runs that changed the entity and have not been undone. canUndo is false
// if one of all that changed it cannot be undone.
func (e *entityRecord) remaining() (stepRuns int, canUndo bool) {
	canUndo = true
	for stepRun, undoable := range e.executed {
		canUndo = canUndo && undoable
		stepRuns += boolToInt(!e.undone[stepRun])
	}
	return stepRuns, canUndo
}

// noRoomToUndo reports whether too many entities have failed and could be undone for the state item
// to hold them: then nothing is undone (docs/limits.md).
func (s *Harness) noRoomToUndo(x *workflow.Execution, records map[string]*entityRecord) bool {
	if s.MaxSetBytes == 0 {
		return false
	}
	all := x.Scope.Inline
	if x.Scope.Key != "" {
		s.WithoutFaults(func() {
			var err error
			if all, err = s.openView().Store.LoadScope(context.Background(), x.Tenant, x.ID, x.Scope.Key, 0, x.Scope.Chunks); err != nil {
				s.Fatal(err)
			}
		})
	}
	var places []int
	for i := range all {
		e := records[all[i].Key.ID]
		if e == nil || !e.failed || len(e.executed) == 0 {
			continue
		}
		if _, undoable := e.remaining(); undoable {
			places = append(places, cmp.Or(all[i].Place, i+1))
		}
	}
	return len(workflow.NewPlaces(places...).String()) > s.MaxSetBytes
}

// releasedByName reports whether somebody has acknowledged the end of an execution for some of its
// entities. Before that it may have kept all of them, if the set of the unsafe ones did not fit.
func (s *Harness) releasedByName(id string) bool {
	return slices.ContainsFunc(s.History(id), func(e workflow.Event) bool { return bytes.Contains(e.Data, []byte(`"released":`)) })
}

func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// CheckOutcome predicts from the states of the jobs alone how an execution must have ended. It
// fails the test if the execution ended otherwise, or if its rollback did not undo exactly what it
// had to. blocks are the names of the steps' blocks by label, handled the steps whose failure does
// not fail the execution; tolerance is how many entities may fail in the execution.
func (s *Harness) CheckOutcome(id string, blocks map[string]string, handled map[string]bool, tolerance int) {
	s.Helper()
	x := s.Load(id)
	if !oracle.Terminal(x.State) {
		s.Errorf("%s has not ended: %s", id, x.State)
		return
	}
	jobs := s.Jobs(id)
	records := map[string]*entityRecord{}
	var executionOrder, rollbackOrder []string // step runs in order of their first job, and of their first rollback
	failed, rollbackFailed, failedEntities, failedIn, failedItems := false, false, 0, map[string]int{}, map[string]int{}
	for _, j := range latestAttempts(jobs) {
		entity := ""
		switch {
		case j.Entity != nil:
			entity = j.Entity.ID
		case j.Item != nil:
			entity = fmt.Sprint(itemPrefix, *j.Item)
		}
		e := records[entity]
		if e == nil {
			e = &entityRecord{executed: map[string]bool{}, undone: map[string]bool{}}
			records[entity] = e
		}
		traits := traitsByBlock[blocks[j.Step]]
		stepRun := fmt.Sprintf("%s#%d", j.Step, j.StepRunOrdinal)
		if j.Kind == workflow.JobRollback {
			e.undone[stepRun] = j.State == sm.JobCompleted
			rollbackFailed = rollbackFailed || j.State != sm.JobCompleted
			if !slices.Contains(rollbackOrder, stepRun) {
				rollbackOrder = append(rollbackOrder, stepRun)
			}
			continue
		}
		if j.State == sm.JobCancelled {
			failed = failed || !handled[j.Step]
			continue
		}
		if j.State != sm.JobCompleted {
			doubt := leavesDoubt(j, traits)
			switch {
			case handled[j.Step] && !doubt:
			case handled[j.Step]:
				e.failed = true
			case j.Item != nil && !doubt:
				failedItems[stepRun]++
				failed = failed || failedItems[stepRun] > s.ItemsTolerated[j.Step]
			case j.Entity == nil:
				failed = true
			case !e.failed || failedIn[entity] == 0:
				e.failed = true
				failedIn[entity]++
				failedEntities++
			}
		}
		if !traits.pure {
			e.executed[stepRun] = traits.reversible && (j.State != sm.JobUnknown || traits.harmless)
			if !slices.Contains(executionOrder, stepRun) {
				executionOrder = append(executionOrder, stepRun)
			}
		}
	}
	failed = failed || failedEntities > tolerance || x.Cancellation != nil || x.Cause != "" && !partialCause(x.Cause)

	want, rolledBack, unsafe := "COMPLETED", false, 0
	changed, canUndo := 0, true
	noRoom := s.noRoomToUndo(x, records)
	for entity, e := range records {
		n, undoable := e.remaining()
		changed, canUndo = changed+len(e.executed), canUndo && undoable
		switch {
		case failed:
			unsafe += boolToInt(n > 0 && isEntity(entity))
		case e.failed && isEntity(entity):
			unsafe += boolToInt(n > 0)
			if undoable && n > 0 && len(e.undone) == 0 && !noRoom {
				s.Errorf("%s completed without undoing %s: %s", id, entity, describeJobs(jobs))
			}
			if noRoom && len(e.undone) > 0 {
				s.Errorf("%s undid %s, although there is no room for the names of all that would have to be undone: %s", id, entity, describeJobs(jobs))
			}
			if !undoable && len(e.undone) > 0 {
				s.Errorf("%s undid a part of %s, which cannot be undone: %s", id, entity, describeJobs(jobs))
			}
		case len(e.undone) > 0:
			s.Errorf("%s undid %q, which has not failed: %s", id, entity, describeJobs(jobs))
		}
	}
	switch {
	case failed && x.Cancellation != nil:
		want, rolledBack = "CANCELLED", changed > 0 && canUndo
	case failed && (changed == 0 || canUndo):
		want, rolledBack = "FAILED_SAFE", changed > 0
	case failed || unsafe > 0:
		want = "FAILED_UNSAFE"
	}
	if failed && rollbackFailed {
		want, rolledBack = "FAILED_UNSAFE", false
	}
	if ended := strings.TrimSuffix(string(x.State), "_ACK"); ended != want || x.RolledBack != rolledBack {
		s.Errorf("%s ended %s, rolled back %v; want %s, %v; jobs %s", id, x.State, x.RolledBack, want, rolledBack, describeJobs(jobs))
	}
	caseHandled := func(j workflow.Job) bool { // the definition says what follows instead
		return slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool {
			return r.Label == j.Step && r.Ordinal == j.StepRunOrdinal && r.Handled > 0 && (j.Entity != nil || !leavesDoubt(j, traitsByBlock[blocks[j.Step]]))
		})
	}
	if partial := want == "COMPLETED" && slices.ContainsFunc(jobs, func(j workflow.Job) bool {
		return !caseHandled(j) && (j.State == sm.JobUnknown || j.State == sm.JobFailed && j.ReplacedBy == nil)
	}); want == "COMPLETED" && partial != (x.Outcome() == workflow.OutcomePartial) {
		s.Errorf("%s has the outcome %s; jobs %s", id, x.Outcome(), describeJobs(jobs))
	}
	if want == "FAILED_UNSAFE" && x.Kept != nil && x.Narrowed == 1 && x.Kept.Len() != unsafe && !s.releasedByName(id) {
		s.Errorf("%s keeps %s, but %d entities are unsafe; jobs %s", id, x.Kept, unsafe, describeJobs(jobs))
	}
	if failed && !rolledBack && !rollbackFailed && len(rollbackOrder) > 0 {
		s.Errorf("%s rolled back jobs, but must not: %s", id, describeJobs(jobs))
	}
	slices.Reverse(executionOrder)
	if rolledBack && !slices.Equal(executionOrder, rollbackOrder) {
		s.Errorf("%s rolled back step runs %v, want %v", id, rollbackOrder, executionOrder)
	}
	for entity, e := range records {
		for stepRun := range e.undone {
			if _, ok := e.executed[stepRun]; !ok {
				s.Errorf("%s rolled back step run %s on %q, but it was not executed there", id, stepRun, entity)
			}
		}
		if n, _ := e.remaining(); rolledBack && n > 0 {
			s.Errorf("%s left changes of %q: %s", id, entity, describeJobs(jobs))
		}
	}
}

// partialCause reports whether an execution may have this cause although all its steps are over,
// because of a single entity.
func partialCause(c workflow.Cause) bool {
	return c == workflow.CauseStepFailed || c == workflow.CauseJobTimeout || c == workflow.CauseWorkerCrash
}

// latestAttempts drops jobs that a later attempt replaces, unless that attempt was cancelled.
func latestAttempts(jobs []workflow.Job) (latest []workflow.Job) {
	for i, j := range jobs {
		if j.ReplacedBy != nil && jobs[i+1].State != sm.JobCancelled {
			continue
		}
		if j.Replaces != nil && j.State == sm.JobCancelled {
			continue // the outcome of the attempt before it counts
		}
		latest = append(latest, j)
	}
	return latest
}

func describeJobs(jobs []workflow.Job) string {
	var b strings.Builder
	for _, j := range jobs {
		entity := "-"
		if j.Entity != nil {
			entity = j.Entity.ID
		}
		fmt.Fprintf(&b, "%s %s %s/%d %s; ", j.Step, j.Kind, entity, j.Attempt, j.State)
	}
	return b.String()
}

// ListExecutions returns the ids of all executions of a tenant, each once: those that are listed by
// state, and those that are not listed so.
func ListExecutions(ctx context.Context, store port.Store, tenant string, now time.Time) ([]string, error) {
	ids, err := store.ListUnlisted(ctx, tenant, now)
	if err != nil {
		return nil, err
	}
	for _, state := range sm.ExecutionStates() {
		listed, err := store.ListByState(ctx, tenant, state, "", workflow.OrderNewest, workflow.MaxPageSize)
		if err != nil {
			return nil, err
		}
		ids = append(ids, listed...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
