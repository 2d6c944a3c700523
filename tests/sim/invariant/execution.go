package invariant

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The invariants of executions.
const (
	invCommitOrder           = "each commit follows its predecessor"
	invHistory               = "the history has no gaps and leads to the state"
	invTerminalEvent         = "one terminal event per try"
	invTimerSet              = "an unfinished execution has a timer"
	invNoInternalError       = "no execution fails with an internal error"
	invJobsClaimed           = "jobs are claimed while workers are running"
	invRollbackUninterrupted = "a rollback is never interrupted"
	invOneLive               = "at most one execution of a business key is live"
)

// ExecutionWritten is called on every write of a state item.
func (w *Checker) ExecutionWritten(before, after *workflow.Execution) {
	r := w.executions[after.ID]
	if r == nil {
		r = &executionState{executedJobs: map[int]map[string]bool{}, undoneJobs: map[int]map[string]bool{}}
		w.executions[after.ID] = r
		before = &workflow.Execution{}
	}
	if before == nil {
		before = &workflow.Execution{}
		w.Failf(invRemoved, "%s was removed, and is there again", after.ID)
	}
	r.x, r.previous = after, oracle.OwnerOf(before)
	w.awaitingOperator += boolToInt(oracle.AwaitsOperator(after.State)) - boolToInt(oracle.AwaitsOperator(before.State))
	r.hasEnded = r.hasEnded || oracle.Terminal(after.State)
	if oracle.Acknowledged(before.State) && !oracle.Acknowledged(after.State) {
		r.retriedAt = w.Now
	}
	r.awaitedPerson = r.awaitedPerson || after.BlockedBy != nil && after.BlockedBy.NeedsPerson
	if w.Trace != nil {
		w.traceExecution(before, after)
	}
	id := after.ID
	next := before.Epoch + 1
	if before.Epoch == 0 { // no lock from before a restore names a later one
		next = w.MinFencingToken + 1
	}
	if after.Version != before.Version+1 || after.Epoch < before.Epoch || after.Epoch > next && after.MinFencingToken == before.MinFencingToken || after.Try < before.Try ||
		after.State == sm.ExecutionLocking && before.State != after.State && after.Epoch != next ||
		after.StepRunSeq < before.StepRunSeq || after.Sequence < before.Sequence || after.Schema < before.Schema {
		w.Failf(invCommitOrder, "%s: version %d epoch %d try %d step run %d sequence %d schema %d became %d %d %d %d %d %d", id,
			before.Version, before.Epoch, before.Try, before.StepRunSeq, before.Sequence, before.Schema,
			after.Version, after.Epoch, after.Try, after.StepRunSeq, after.Sequence, after.Schema)
	}
	w.checkHistory(r, before, after)
	w.checkReserved(r, before, after)
	if after.Cause == workflow.CauseUnclaimed {
		w.Failf(invJobsClaimed, "%s: %s", id, after.Reason)
	}
	if after.DueAt.IsZero() && !oracle.Acknowledged(after.State) && !oracle.AwaitsOperator(after.State) {
		w.Failf(invTimerSet, "%s in %s has no timer", id, after.State)
	}
	if after.Cause == workflow.CauseInternal && before.Cause != after.Cause && !w.MayBreak(id) {
		w.Failf(invNoInternalError, "%s: %s", id, after.Reason)
	}
	w.checkRetention(before, after)
	if oracle.Acknowledged(after.State) && !oracle.Acknowledged(before.State) {
		w.newlyAcknowledged = append(w.newlyAcknowledged, id)
	}
	if !after.DiscardedAt.IsZero() && before.DiscardedAt.IsZero() {
		w.newlyRemoved = append(w.newlyRemoved, id)
	}
	w.checkKey(after)
	w.checkStepRuns(before, after)
	w.checkAllLocksHeld(before, after)
	w.recordHolders(r, before, after)
	w.checkNarrowing(before, after)
	w.checkFamily(after)
	if before.State != after.State {
		w.checkRollback(id, before.State, after.State)
		w.checkEndedExecution(r, before, after)
	}
}

func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// checkKey requires that at most one execution of a business key has checked in and has not ended.
func (w *Checker) checkKey(x *workflow.Execution) {
	if !isLive(x) || w.PredatesRestore(x.ID) {
		return
	}
	for id, r := range w.executions {
		if o := r.x; id != x.ID && o.Key == x.Key && o.Workflow.FullName() == x.Workflow.FullName() && isLive(o) && !r.predatesRestore {
			w.Failf(invOneLive, "%s is in %s, and %s of the same key %q in %s", x.ID, x.State, id, x.Key, o.State)
		}
	}
}

// isLive reports whether an execution has taken its business key and has not ended. It repeats the
// engine's rule on purpose.
func isLive(x *workflow.Execution) bool {
	return x.Key != "" && !HasNoKeyYet(x) && x.KeyOwner == "" && !oracle.Terminal(x.State)
}

// HasNoKeyYet reports whether an execution has still to take its business key, which it tries again
// by its timer.
func HasNoKeyYet(x *workflow.Execution) bool {
	return x.Key != "" && (x.State == sm.ExecutionNew || x.Try > 1 && (x.State == sm.ExecutionReady || x.State == sm.ExecutionValid))
}

// checkRollback requires that a rollback continues to its end.
func (w *Checker) checkRollback(id string, from, to sm.ExecutionState) {
	if to == sm.ExecutionRollback {
		w.newRollbacks = append(w.newRollbacks, id)
	}
	if from == sm.ExecutionRollback && !oracle.Terminal(to) {
		w.Failf(invRollbackUninterrupted, "%s goes from %s to %s", id, from, to)
	}
}

// TakeNewRollbacks returns the executions whose rollback has begun since the last call.
func (w *Checker) TakeNewRollbacks() []string {
	ids := w.newRollbacks
	w.newRollbacks = nil
	return ids
}

// checkHistory checks the events that a commit adds.
func (w *Checker) checkHistory(r *executionState, before, after *workflow.Execution) {
	id := after.ID
	if len(after.Events) > 0 && after.Events[0].Sequence != after.PagedThrough+1 {
		w.Failf(invHistory, "%s: the events in the item begin with %d, but %d are stored elsewhere", id, after.Events[0].Sequence, after.PagedThrough)
	}
	for _, e := range after.Events {
		if e.Sequence <= before.Sequence {
			continue
		}
		if e.Sequence != int64(len(r.events)+1) {
			w.Failf(invHistory, "%s: event %d follows event %d", id, e.Sequence, len(r.events))
		}
		r.events = append(r.events, e)
		if e.Layer != string(sm.LayerExecution) {
			continue
		}
		from, to := sm.ExecutionState(e.From), sm.ExecutionState(e.To)
		if from != r.historyState {
			w.Failf(invHistory, "%s: %s begins in %s, but the execution was in %s", id, e.Type, from, r.historyState)
		}
		// A terminal event marks the end, whatever triggered it.
		if terminal := oracle.TerminalEvent(to); terminal == sm.Event(e.Type) && from != to {
			r.terminalEvents++
		}
		if e.Type == string(sm.EventExecutionRetried) {
			if r.terminalEvents != 1 {
				w.Failf(invTerminalEvent, "%s: %d terminal events in try %d", id, r.terminalEvents, before.Try)
			}
			r.terminalEvents = 0
		}
		r.historyState = to
	}
	if int64(len(r.events)) != after.Sequence || r.historyState != after.State {
		w.Failf(invHistory, "%s: %d events lead to %s, but the item has %d events and is in %s", id, len(r.events), r.historyState, after.Sequence, after.State)
	}
	if want := boolToInt(oracle.Terminal(after.State)); r.terminalEvents != want {
		w.Failf(invTerminalEvent, "%s: %d terminal events in try %d, which is in %s", id, r.terminalEvents, after.Try, after.State)
	}
}

// CheckStoredHistory requires what CheckHistory does, and that there is no timer. It is for
// executions to which nothing happens any more.
func (w *Checker) CheckStoredHistory(id string, stored []workflow.Event) *Violation {
	if v := w.CheckHistory(id, stored); v != nil {
		return v
	}
	if x := w.executions[id].x; !x.DueAt.IsZero() {
		return &Violation{invTimerSet, fmt.Sprintf("%s in %s is idle, but has a timer", id, x.State)}
	}
	return nil
}

// CheckHistory compares the history that is read with the events that were written.
func (w *Checker) CheckHistory(id string, stored []workflow.Event) *Violation {
	r := w.executions[id]
	if len(stored) != len(r.events) {
		return &Violation{invHistory, fmt.Sprintf("%s: %d events are read, %d were written", id, len(stored), len(r.events))}
	}
	for i, e := range stored {
		if o := r.events[i]; e.Sequence != o.Sequence || e.Type != o.Type || e.To != o.To || e.Layer != o.Layer || e.Step != o.Step {
			return &Violation{invHistory, fmt.Sprintf("%s: event %d is read as %+v, but was written as %+v", id, o.Sequence, e, o)}
		}
	}
	return nil
}

func (w *Checker) traceExecution(before, after *workflow.Execution) {
	text := fmt.Sprintf("   %s v%d", shortID(after.ID), after.Version)
	if before.State != after.State {
		text += fmt.Sprintf(" %s -> %s", before.State, after.State)
	}
	if before.Epoch != after.Epoch {
		text += fmt.Sprintf(" epoch %d", after.Epoch)
	}
	if before.Try != after.Try {
		text += fmt.Sprintf(" try %d", after.Try)
	}
	for i := range after.StepRuns {
		r := &after.StepRuns[i]
		switch {
		case i >= len(before.StepRuns):
			text += fmt.Sprintf(" + step run %d %s %s #%d with %d jobs", r.Seq, r.Label, r.Kind, r.Ordinal, r.Jobs)
		case before.StepRuns[i].Status != r.Status:
			text += fmt.Sprintf(" step run %d %s %+v", r.Seq, r.Status, formatCounts(r))
		case before.StepRuns[i].Closing != r.Closing:
			text += fmt.Sprintf(" step run %d closing", r.Seq)
		}
	}
	if b := after.BlockedBy; b != nil {
		text += fmt.Sprintf(" blocked by %s", shortID(b.Execution))
	}
	if after.Cause != before.Cause {
		text += fmt.Sprintf(" %s: %s", after.Cause, after.Reason)
	}
	w.trace("%s", text)
}

func formatCounts(r *workflow.StepRun) string {
	return fmt.Sprintf("ok %d failed %d unknown %d not executed %d", r.Counts.OK, r.Counts.Failed, r.Counts.Unknown, r.Counts.NotExecuted)
}

// shortID returns the end of an ID, enough to distinguish executions in a trace.
func shortID(id string) string { return id[max(0, len(id)-4):] }
