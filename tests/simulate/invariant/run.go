package invariant

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The laws of state items.
const (
	lawCommit   = "each commit follows the one before it"
	lawHistory  = "the history has no gap and leads to the state"
	lawTerminal = "one terminal event a try"
	lawAlarm    = "who is not at rest has an alarm"
	lawBroken   = "nothing breaks"
	lawServed   = "jobs are claimed as long as there are workers"
	lawUndoing  = "a rollback is never interrupted"
)

// Execution is told of every write of a state item.
func (w *Watch) Execution(before, after *workflow.Execution) {
	r := w.runs[after.ID]
	if r == nil {
		r = &run{called: map[int]map[string]bool{}, undone: map[int]map[string]bool{}}
		w.runs[after.ID] = r
		before = &workflow.Execution{}
	}
	r.x, r.before = after, before.State
	w.resting += count(Rests(after.State)) - count(Rests(before.State))
	r.wasOver = r.wasOver || sm.Acknowledged(after.State)
	if w.Tell != nil {
		w.tellRun(before, after)
	}
	id := after.ID
	if after.Version != before.Version+1 || after.Epoch < before.Epoch || after.Epoch > before.Epoch+1 && after.Floor == before.Floor || after.Try < before.Try ||
		after.State == sm.ExecutionLocking && before.State != after.State && after.Epoch != before.Epoch+1 ||
		after.RunSeq < before.RunSeq || after.Sequence < before.Sequence || after.Schema < before.Schema {
		w.Break(lawCommit, "%s: version %d epoch %d try %d runSeq %d sequence %d schema %d became %d %d %d %d %d %d", id,
			before.Version, before.Epoch, before.Try, before.RunSeq, before.Sequence, before.Schema,
			after.Version, after.Epoch, after.Try, after.RunSeq, after.Sequence, after.Schema)
	}
	w.history(r, before, after)
	w.reserved(r, before, after)
	if after.Cause == workflow.CauseUnclaimed {
		w.Break(lawServed, "%s: %s", id, after.Reason)
	}
	if after.DueAt.IsZero() && !sm.Acknowledged(after.State) && !Rests(after.State) {
		w.Break(lawAlarm, "%s in %s has none", id, after.State)
	}
	if after.Cause == workflow.CauseInternal {
		w.Break(lawBroken, "%s: %s", id, after.Reason)
	}
	w.steps(before, after)
	w.granted(before, after)
	if before.State != after.State {
		w.undoing(id, before.State, after.State)
		w.ended(r, before, after)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// undoing wants a rollback to go on to its end, whatever anybody asks for.
func (w *Watch) undoing(id string, from, to sm.ExecutionState) {
	if to == sm.ExecutionRollback {
		w.rolling = append(w.rolling, id)
	}
	if from == sm.ExecutionRollback && !sm.Terminal(to) {
		w.Break(lawUndoing, "%s goes from %s to %s", id, from, to)
	}
}

// Rolling are the runs whose rollback has begun since the last time it was asked.
func (w *Watch) Rolling() []string {
	ids := w.rolling
	w.rolling = nil
	return ids
}

// history goes on with the events that a commit adds.
func (w *Watch) history(r *run, before, after *workflow.Execution) {
	id := after.ID
	if len(after.Events) > 0 && after.Events[0].Sequence != after.Paged+1 {
		w.Break(lawHistory, "%s: the events in the item begin with %d, though %d are elsewhere", id, after.Events[0].Sequence, after.Paged)
	}
	for _, e := range after.Events {
		if e.Sequence <= before.Sequence {
			continue
		}
		if e.Sequence != int64(len(r.events)+1) {
			w.Break(lawHistory, "%s: event %d comes after event %d", id, e.Sequence, len(r.events))
		}
		r.events = append(r.events, e)
		if e.Layer != string(sm.LayerExecution) {
			continue
		}
		from, to := sm.ExecutionState(e.From), sm.ExecutionState(e.To)
		if from != r.at {
			w.Break(lawHistory, "%s: %s leads from %s, but it was in %s", id, e.Type, from, r.at)
		}
		// A terminal event tells the end, whatever has triggered it.
		if terminal := sm.TerminalEvent(to); terminal == sm.Event(e.Type) && from != to {
			r.ends++
		}
		if e.Type == string(sm.EventExecutionRetried) {
			if r.ends != 1 {
				w.Break(lawTerminal, "%s: %d of them in try %d", id, r.ends, before.Try)
			}
			r.ends = 0
		}
		r.at = to
	}
	if int64(len(r.events)) != after.Sequence || r.at != after.State {
		w.Break(lawHistory, "%s: %d events lead to %s, the item says %d and %s", id, len(r.events), r.at, after.Sequence, after.State)
	}
	if want := count(sm.Terminal(after.State)); r.ends != want {
		w.Break(lawTerminal, "%s: %d of them in try %d, which is in %s", id, r.ends, after.Try, after.State)
	}
}

// Ended compares the history of a run as it is read with what was written.
func (w *Watch) Ended(id string, stored []workflow.Event) *Violation {
	r := w.runs[id]
	if len(stored) != len(r.events) {
		return &Violation{lawHistory, fmt.Sprintf("%s: %d events are read, %d were written", id, len(stored), len(r.events))}
	}
	for i, e := range stored {
		if o := r.events[i]; e.Sequence != o.Sequence || e.Type != o.Type || e.To != o.To || e.Layer != o.Layer || e.Step != o.Step {
			return &Violation{lawHistory, fmt.Sprintf("%s: event %d is read as %+v, and was written as %+v", id, o.Sequence, e, o)}
		}
	}
	if !r.x.DueAt.IsZero() {
		return &Violation{lawAlarm, fmt.Sprintf("%s in %s is at rest, and has one", id, r.x.State)}
	}
	return nil
}

func (w *Watch) tellRun(before, after *workflow.Execution) {
	text := fmt.Sprintf("   %s v%d", short(after.ID), after.Version)
	if before.State != after.State {
		text += fmt.Sprintf(" %s -> %s", before.State, after.State)
	}
	if before.Epoch != after.Epoch {
		text += fmt.Sprintf(" epoch %d", after.Epoch)
	}
	if before.Try != after.Try {
		text += fmt.Sprintf(" try %d", after.Try)
	}
	for i := range after.Runs {
		r := &after.Runs[i]
		switch {
		case i >= len(before.Runs):
			text += fmt.Sprintf(" + run %d %s %s visit %d of %d jobs", r.RunSeq, r.Label, r.Kind, r.Visit, r.Jobs)
		case before.Runs[i].Status != r.Status:
			text += fmt.Sprintf(" run %d %s %+v", r.RunSeq, r.Status, tally(r))
		case before.Runs[i].Closing != r.Closing:
			text += fmt.Sprintf(" run %d closing", r.RunSeq)
		}
	}
	if b := after.BlockedBy; b != nil {
		text += fmt.Sprintf(" blocked by %s", short(b.Execution))
	}
	if after.Cause != before.Cause {
		text += fmt.Sprintf(" %s: %s", after.Cause, after.Reason)
	}
	w.tell("%s", text)
}

func tally(r *workflow.StepRun) string {
	return fmt.Sprintf("ok %d failed %d unknown %d not executed %d", r.Tally.OK, r.Tally.Failed, r.Tally.Unknown, r.Tally.NotExecuted)
}

// short is enough of an id to tell runs apart.
func short(id string) string { return id[max(0, len(id)-4):] }
