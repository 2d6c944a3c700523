package statemachines

import (
	"slices"
	"testing"
)

func TestEveryMachineIsSound(t *testing.T) {
	for _, m := range Machines() {
		for _, v := range Verify(m) {
			t.Error(v)
		}
	}
}

// TestNoEventBelongsToTwoLayers keeps an event of a lower layer from ever being
// taken for one that opens or closes an execution.
func TestNoEventBelongsToTwoLayers(t *testing.T) {
	layer := make(map[Event]Layer)
	for _, m := range Machines() {
		for _, on := range m.Events {
			if other, ok := layer[on]; ok {
				t.Errorf("%s is an event of %s and of %s", on, other, m.Layer)
			}
			layer[on] = m.Layer
		}
	}
	for s, e := range executionEnds {
		if l, ok := layer[e]; ok && l != LayerExecution {
			t.Errorf("%s, which ends an execution in %s, is an event of %s", e, s, l)
		}
	}
}

// TestVerifySeesEachFlaw breaks the execution's law, one mistake at a time, and
// asks that Verify names it. A check that no mistake can trip proves nothing.
func TestVerifySeesEachFlaw(t *testing.T) {
	find := func(m *Machine, from ExecutionState, on Event) int {
		i := slices.IndexFunc(m.Rows, func(r Row) bool { return r.From == string(from) && r.On == on })
		if i < 0 {
			t.Fatalf("no row for %s, %s", from, on)
		}
		return i
	}
	row := func(from ExecutionState, on Event, to ExecutionState) Row {
		return Row{From: string(from), On: on, To: string(to), Verdict: Move, Who: "engine", Why: "a mistake", Records: on}
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
		"an end that is no state":   {FlawUnknown, func(m *Machine) { m.Ends["GONE"] = EventExecutionCompleted }},
		"reopened by no event":      {FlawUnknown, func(m *Machine) { m.Reopens = "execution.reopened" }},
		"a move without a guard": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Why = ""
		}},
		"a move by nobody": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Who = ""
		}},
		"a move without a trace": {FlawUnexplained, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionValidated)].Records = ""
		}},
		"a refusal without a reason": {FlawUnexplained, func(m *Machine) { m.Defaults[len(m.Defaults)-1].Why = "" }},
		"a default behind a wider one": {FlawUnused, func(m *Machine) {
			m.Defaults = append(m.Defaults, Default{Verdict: Refuse, Why: "never asked"})
		}},
		"nothing leads to WAITING": {FlawUnreachable, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.On == EventExecutionPaused })
		}},
		"a way out of an _ACK": {FlawOpen, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionCompletedAck, EventExecutionReady, ExecutionReady))
		}},
		"an end that begins again by itself": {FlawOpen, func(m *Machine) {
			m.Rows = append(m.Rows, row(ExecutionCompleted, EventExecutionStarted, ExecutionRunning))
		}},
		"a second end after the first": {FlawOpen, func(m *Machine) {
			m.Rows = append(m.Rows, ending([]Row{row(ExecutionCompleted, EventExecutionBroken, ExecutionFailedUnsafe)}, m.Ends)...)
		}},
		"no way out of ROLLBACK": {FlawDeadEnd, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.From == string(ExecutionRollback) })
		}},
		"FAILED_UNSAFE cannot be acknowledged": {FlawDeadEnd, func(m *Machine) {
			m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.From == string(ExecutionFailedUnsafe) })
		}},
		"an end recorded by its trigger": {FlawEnd, func(m *Machine) {
			m.Rows[find(m, ExecutionNew, EventExecutionRejected)].Records = EventExecutionRejected
		}},
		"an end recorded by another's event": {FlawEnd, func(m *Machine) {
			m.Rows[find(m, ExecutionRunning, EventExecutionCompleted)].Records = EventExecutionCancelled
		}},
		"an end recorded without ending": {FlawEnd, func(m *Machine) {
			m.Rows[find(m, ExecutionRunning, EventExecutionPaused)].Records = EventExecutionFailedSafe
		}},
		"an end recorded twice": {FlawEnd, func(m *Machine) {
			m.Rows[find(m, ExecutionCompleted, EventExecutionSettled)].Records = EventExecutionCompleted
		}},
		"an end without an event": {FlawEnd, func(m *Machine) { delete(m.Ends, string(ExecutionCancelled)) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := copied(Execution.Machine())
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

func copied(m *Machine) *Machine {
	c := *m
	c.Closed = slices.Clone(m.Closed)
	c.Rows = slices.Clone(m.Rows)
	c.Defaults = slices.Clone(m.Defaults)
	c.Ends = make(map[string]Event, len(m.Ends))
	for s, e := range m.Ends {
		c.Ends[s] = e
	}
	return &c
}
