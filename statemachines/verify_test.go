package statemachines

import (
	"slices"
	"testing"
)

func TestVerify_EveryMachineIsSound(t *testing.T) {
	for _, m := range Machines() {
		for _, v := range Verify(m) {
			t.Error(v)
		}
	}
}

// TestMachines_ShareNoEvents checks that no event belongs to two layers, so that an
// event of a lower layer is never taken for one that opens or closes an execution.
func TestMachines_ShareNoEvents(t *testing.T) {
	layer := make(map[Event]Layer)
	for _, m := range Machines() {
		for _, on := range m.Events {
			if other, ok := layer[on]; ok {
				t.Errorf("%s is an event of %s and of %s", on, other, m.Layer)
			}
			layer[on] = m.Layer
		}
	}
	for s, e := range executionTerminalEvents {
		if l, ok := layer[e]; ok && l != LayerExecution {
			t.Errorf("%s, the terminal event of %s, is an event of the layer %s", e, s, l)
		}
	}
}

// TestVerify_FindsEachFlaw breaks the table of the execution in one way at a time and
// checks that Verify reports the flaw.
func TestVerify_FindsEachFlaw(t *testing.T) {
	find := func(m *Machine, from ExecutionState, on Event) int {
		i := slices.IndexFunc(m.Rows, func(r Row) bool { return r.From == string(from) && r.On == on })
		if i < 0 {
			t.Fatalf("no row for %s, %s", from, on)
		}
		return i
	}
	row := func(from ExecutionState, on Event, to ExecutionState) Row {
		return Row{From: string(from), On: on, To: string(to), Verdict: Move, Actors: "engine", Reason: "a test", RecordedAs: on}
	}
	for name, c := range map[string]struct {
		flaw       Flaw
		breakTable func(m *Machine)
	}{
		"no default for the remaining pairs": {FlawGap, func(m *Machine) { m.Defaults = m.Defaults[:len(m.Defaults)-1] }},
		"no default for an event": {FlawGap, func(m *Machine) {
			m.Defaults = slices.DeleteFunc(m.Defaults, func(d Default) bool { return len(d.On) == 0 })
		}},
		"an event that moves and is refused": {FlawAmbiguous, func(m *Machine) {
			m.Rows = append(m.Rows, refuses(EventExecutionValidated, "no", ExecutionNew)...)
		}},
		"an event ignored for two reasons": {FlawAmbiguous, func(m *Machine) {
			m.Rows = append(m.Rows, ignores(EventLockGranted, "a", ExecutionRunning)...)
			m.Rows = append(m.Rows, ignores(EventLockGranted, "b", ExecutionRunning)...)
		}},
		"the same move twice": {FlawAmbiguous, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionNew, EventExecutionValidated, ExecutionValid))
		}},
		"a destination that does not exist": {FlawUnknown, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].To = "VALIDATED"
		}},
		"a source that does not exist": {FlawUnknown, func(m *Machine) {
			m.Rows = append(m.Rows, row("STARTED", EventExecutionValidated, ExecutionValid))
		}},
		"an event that does not exist": {FlawUnknown, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionNew, EventJobClaimed, ExecutionValid))
		}},
		"creation in a state that is not initial": {FlawUnknown, func(m *Machine) {
			m.Rows[find(m, "", EventExecutionCreated)].To = string(ExecutionRunning)
		}},
		"a refusal that moves": {FlawUnknown, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Verdict = Refuse
		}},
		"an unknown verdict":                   {FlawUnknown, func(m *Machine) { m.Rows[0].Verdict = "perhaps" }},
		"a default that moves":                 {FlawUnknown, func(m *Machine) { m.Defaults[0].Verdict = Move }},
		"a default for an unknown state":       {FlawUnknown, func(m *Machine) { m.Defaults[0].From = []string{"STARTED"} }},
		"an unknown initial state":             {FlawUnknown, func(m *Machine) { m.Initial = "BORN" }},
		"a closed state that is not terminal":  {FlawUnknown, func(m *Machine) { m.Closed = append(m.Closed, string(ExecutionError)) }},
		"a terminal event of an unknown state": {FlawUnknown, func(m *Machine) { m.TerminalEvents["GONE"] = EventExecutionCompleted }},
		"an unknown reopen event":              {FlawUnknown, func(m *Machine) { m.ReopenEvent = "execution.reopened" }},
		"a move without a reason": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Reason = ""
		}},
		"a move without actors": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Actors = ""
		}},
		"a move without a recorded event": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].RecordedAs = ""
		}},
		"a refusal without a reason": {FlawUnexplained, func(m *Machine) { m.Defaults[len(m.Defaults)-1].Reason = "" }},
		"a default after a wider one": {FlawUnused, func(m *Machine) {
			m.Defaults = append(m.Defaults, Default{Verdict: Refuse, Reason: "never used"})
		}},
		"WAITING cannot be reached": {FlawUnreachable, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.On == EventExecutionPaused })
		}},
		"a move out of a closed state": {FlawLeavesTerminal, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionCompletedAck, EventExecutionReady, ExecutionReady))
		}},
		"a terminal state that runs again": {FlawLeavesTerminal, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionCompleted, EventExecutionStarted, ExecutionRunning))
		}},
		"a terminal state that moves to another": {FlawLeavesTerminal, func(m *Machine) {
			m.Rows = append(m.Rows, recordTerminalEvents([]Row{row(ExecutionCompleted, EventExecutionBroken, ExecutionFailedUnsafe)}, m.TerminalEvents)...)
		}},
		"nothing leaves ROLLBACK": {FlawDeadEnd, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.From == string(ExecutionRollback) })
		}},
		"FAILED_UNSAFE cannot be acknowledged": {FlawDeadEnd, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.From == string(ExecutionFailedUnsafe) })
		}},
		"an end recorded as its trigger": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionRejected)].RecordedAs = EventExecutionRejected
		}},
		"an end recorded as the event of another end": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionRunning, EventExecutionCompleted)].RecordedAs = EventExecutionCancelled
		}},
		"a terminal event recorded without ending": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionRunning, EventExecutionPaused)].RecordedAs = EventExecutionFailedSafe
		}},
		"a terminal event recorded twice": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionCompleted, EventExecutionSettled)].RecordedAs = EventExecutionCompleted
		}},
		"a terminal state without a terminal event": {FlawTerminalEvent, func(m *Machine) { delete(m.TerminalEvents, string(ExecutionCancelled)) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := cloneMachine(Execution.Machine())
			c.breakTable(m)
			found := Verify(m)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Flaw == c.flaw }) {
				t.Errorf("Verify does not report %q:\n%v", c.flaw, found)
			}
		})
	}
	if found := Verify(Execution.Machine()); len(found) > 0 {
		t.Errorf("the test has changed the table itself: %v", found)
	}
}

func cloneMachine(m *Machine) *Machine {
	c := *m
	c.Closed = slices.Clone(m.Closed)
	c.Rows = slices.Clone(m.Rows)
	c.Defaults = slices.Clone(m.Defaults)
	c.TerminalEvents = make(map[string]Event, len(m.TerminalEvents))
	for s, e := range m.TerminalEvents {
		c.TerminalEvents[s] = e
	}
	return &c
}
