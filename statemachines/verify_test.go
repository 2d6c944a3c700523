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

// TestMachines_ShareNoEvents keeps an event of a lower layer from ever being
// taken for one that opens or closes an execution.
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
			t.Errorf("%s, which ends an execution in %s, is an event of %s", e, s, l)
		}
	}
}

// TestVerify_FindsEachFlaw breaks the execution's law, one mistake at a time, and
// asks that Verify names it. A check that no mistake can trip proves nothing.
func TestVerify_FindsEachFlaw(t *testing.T) {
	find := func(m *Machine, from ExecutionState, on Event) int {
		i := slices.IndexFunc(m.Rows, func(r Row) bool { return r.From == string(from) && r.On == on })
		if i < 0 {
			t.Fatalf("no row for %s, %s", from, on)
		}
		return i
	}
	row := func(from ExecutionState, on Event, to ExecutionState) Row {
		return Row{From: string(from), On: on, To: string(to), Verdict: Move, Actors: "engine", Reason: "a mistake", RecordedAs: on}
	}
	for name, c := range map[string]struct {
		flaw  Flaw
		spoil func(m *Machine)
	}{
		"no default for what no row names": {FlawGap, func(m *Machine) { m.Defaults = m.Defaults[:len(m.Defaults)-1] }},
		"a new event nobody thought about": {FlawGap, func(m *Machine) {
			m.Defaults = slices.DeleteFunc(m.Defaults, func(d Default) bool { return len(d.On) == 0 })
		}},
		"a move that is also refused": {FlawAmbiguous, func(m *Machine) {
			m.Rows = append(m.Rows, refuses(EventExecutionValidated, "no", ExecutionNew)...)
		}},
		"ignored for two reasons": {FlawAmbiguous, func(m *Machine) {
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
		"a birth in the middle of life": {FlawUnknown, func(m *Machine) {
			m.Rows[find(m, "", EventExecutionCreated)].To = string(ExecutionRunning)
		}},
		"a refusal that moves": {FlawUnknown, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Verdict = Refuse
		}},
		"a verdict that is none":    {FlawUnknown, func(m *Machine) { m.Rows[0].Verdict = "perhaps" }},
		"a default that moves":      {FlawUnknown, func(m *Machine) { m.Defaults[0].Verdict = Move }},
		"a default for a lost name": {FlawUnknown, func(m *Machine) { m.Defaults[0].From = []string{"STARTED"} }},
		"an initial state unknown":  {FlawUnknown, func(m *Machine) { m.Initial = "BORN" }},
		"closed but not terminal":   {FlawUnknown, func(m *Machine) { m.Closed = append(m.Closed, string(ExecutionError)) }},
		"an end that is no state":   {FlawUnknown, func(m *Machine) { m.TerminalEvents["GONE"] = EventExecutionCompleted }},
		"reopened by no event":      {FlawUnknown, func(m *Machine) { m.ReopenEvent = "execution.reopened" }},
		"a move without a guard": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Reason = ""
		}},
		"a move by nobody": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Actors = ""
		}},
		"a move without a trace": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].RecordedAs = ""
		}},
		"a refusal without a reason": {FlawUnexplained, func(m *Machine) { m.Defaults[len(m.Defaults)-1].Reason = "" }},
		"a default behind a wider one": {FlawUnused, func(m *Machine) {
			m.Defaults = append(m.Defaults, Default{Verdict: Refuse, Reason: "never asked"})
		}},
		"nothing leads to WAITING": {FlawUnreachable, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.On == EventExecutionPaused })
		}},
		"a way out of an _ACK": {FlawLeavesTerminal, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionCompletedAck, EventExecutionReady, ExecutionReady))
		}},
		"an end that begins again by itself": {FlawLeavesTerminal, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionCompleted, EventExecutionStarted, ExecutionRunning))
		}},
		"a second end after the first": {FlawLeavesTerminal, func(m *Machine) {
			m.Rows = append(m.Rows, recordTerminalEvents([]Row{row(ExecutionCompleted, EventExecutionBroken, ExecutionFailedUnsafe)}, m.TerminalEvents)...)
		}},
		"no way out of ROLLBACK": {FlawDeadEnd, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.From == string(ExecutionRollback) })
		}},
		"FAILED_UNSAFE cannot be acknowledged": {FlawDeadEnd, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.From == string(ExecutionFailedUnsafe) })
		}},
		"an end recorded by its trigger": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionRejected)].RecordedAs = EventExecutionRejected
		}},
		"an end recorded by another's event": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionRunning, EventExecutionCompleted)].RecordedAs = EventExecutionCancelled
		}},
		"an end recorded without ending": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionRunning, EventExecutionPaused)].RecordedAs = EventExecutionFailedSafe
		}},
		"an end recorded twice": {FlawTerminalEvent, func(m *Machine) {
			m.Rows[find(m, ExecutionCompleted, EventExecutionSettled)].RecordedAs = EventExecutionCompleted
		}},
		"an end without an event": {FlawTerminalEvent, func(m *Machine) { delete(m.TerminalEvents, string(ExecutionCancelled)) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := cloneMachine(Execution.Machine())
			c.spoil(m)
			found := Verify(m)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Flaw == c.flaw }) {
				t.Errorf("Verify does not see %q in:\n%v", c.flaw, found)
			}
		})
	}
	if found := Verify(Execution.Machine()); len(found) > 0 {
		t.Errorf("the mistakes have leaked into the law itself: %v", found)
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
