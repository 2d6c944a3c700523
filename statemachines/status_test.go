package statemachines

import (
	"errors"
	"slices"
	"testing"
)

// TestStateFacts_AgreeWithTheTable compares the facts of the states with the lists in
// the transition table, and checks what locks rely on.
func TestStateFacts_AgreeWithTheTable(t *testing.T) {
	m := Execution.Machine()
	var listed []ExecutionState
	for _, s := range Statuses() {
		listed = append(listed, StatesOf(s)...)
	}
	if len(listed) != len(m.States) {
		t.Errorf("the statuses have %d states, the table has %d", len(listed), len(m.States))
	}
	for _, s := range ExecutionStates() {
		if !slices.Contains(StatesOf(StatusOf(s)), s) {
			t.Errorf("%s is not among the states of its status %s", s, StatusOf(s))
		}
		if Terminal(s) != slices.Contains(m.Terminal, string(s)) || Acknowledged(s) != slices.Contains(m.Closed, string(s)) {
			t.Errorf("%s: terminal %t, acknowledged %t", s, Terminal(s), Acknowledged(s))
		}
		ended := StatusOf(s) != StatusPending && StatusOf(s) != StatusRunning
		if Terminal(s) != ended || (TerminalEvent(s) != "") != ended {
			t.Errorf("%s: terminal %t, status %s, terminal event %q", s, Terminal(s), StatusOf(s), TerminalEvent(s))
		}
		if Acknowledged(s) && HoldsLocks(s) {
			t.Errorf("%s is acknowledged and holds locks", s)
		}
		if end, ok := m.TerminalEvents[string(s)]; ok && end != TerminalEvent(s) {
			t.Errorf("%s is entered by %s, and its terminal event is %s", s, end, TerminalEvent(s))
		}
	}
}

// TestHoldsLocks_IsAClosedList repeats the states that hold no locks by hand, so that
// whoever adds a state has to decide here too.
func TestHoldsLocks_IsAClosedList(t *testing.T) {
	free := []ExecutionState{
		"", "NEW", "VALID", "BLOCKED_WAITING", "READY", "RESOURCE_DISCOVERY", "RESOURCES_DISCOVERED", "SCHEDULED",
		"COMPLETED_ACK", "FAILED_SAFE_ACK", "FAILED_UNSAFE_ACK", "CANCELLED_ACK",
	}
	for _, s := range append(ExecutionStates(), "", "FUTURE_STATE", "new", "COMPLETED_ACK ") {
		if got, want := HoldsLocks(s), !slices.Contains(free, s); got != want {
			t.Errorf("HoldsLocks(%q) = %t", s, got)
		}
	}
}

// TestAcceptsSignals_RefusersAreAClosedList repeats the states that refuse signals by hand.
func TestAcceptsSignals_RefusersAreAClosedList(t *testing.T) {
	refuse := []ExecutionState{
		"", "ERROR", "CANCELLING", "ROLLBACK", "COMPLETED", "FAILED_SAFE", "FAILED_UNSAFE", "CANCELLED",
		"COMPLETED_ACK", "FAILED_SAFE_ACK", "FAILED_UNSAFE_ACK", "CANCELLED_ACK",
	}
	for _, s := range append(ExecutionStates(), "", "FUTURE_STATE") {
		if got, want := AcceptsSignals(s), !slices.Contains(refuse, s); got != want {
			t.Errorf("AcceptsSignals(%q) = %t", s, got)
		}
	}
}

// TestHoldsLocks_EndsOnlyOnReleasingEvents checks that only the events that are meant
// to release all locks move from a state that holds locks to one that does not.
func TestHoldsLocks_EndsOnlyOnReleasingEvents(t *testing.T) {
	releasing := []Event{EventLockDeferred, EventExecutionSettled, EventExecutionAcknowledged, EventExecutionRetried}
	for _, r := range Execution.Machine().Rows {
		if r.Verdict != Move {
			continue
		}
		releases := HoldsLocks(ExecutionState(r.From)) && !HoldsLocks(ExecutionState(r.To))
		if releases && !slices.Contains(releasing, r.On) {
			t.Errorf("%s from %s to %s releases the locks", r.On, r.From, r.To)
		}
		if !HoldsLocks(ExecutionState(r.From)) && ExecutionState(r.To) == ExecutionRunning {
			t.Errorf("%s from %s runs without locks", r.On, r.From)
		}
	}
}

func TestStatusOf_UnknownStates(t *testing.T) {
	if got := StatusOf("FUTURE_STATE"); got != StatusRunning {
		t.Errorf("an unknown state has the status %s, which may be taken for ended", got)
	}
	if got := StatusOf(""); got != StatusPending {
		t.Errorf("an execution that does not exist has the status %s", got)
	}
	if got := StatusOf(ExecutionCancelling); got != StatusRunning {
		t.Errorf("CANCELLING has the status %s", got)
	}
	if got := StatesOf("PAUSED"); len(got) != 0 {
		t.Errorf("an unknown status has the states %v", got)
	}
	if Terminal("FUTURE_STATE") || Acknowledged("") || TerminalEvent("") != "" {
		t.Error("an unknown state counts as ended")
	}
}

func TestParse_AcceptsOneSpelling(t *testing.T) {
	for _, s := range ExecutionStates() {
		if got, err := ParseExecutionState(string(s)); got != s || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range Job.Machine().States {
		if got, err := ParseJobState(s); string(got) != s || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range Statuses() {
		if got, err := ParseStatus(string(s)); got != s || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range Tool.Machine().Terminal {
		if got, err := ParseOutcome(s); string(got) != s || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, text := range []string{"", "running", "Running", " RUNNING", "RUNNING ", "PAUSED"} {
		_, state := ParseExecutionState(text)
		_, status := ParseStatus(text)
		_, job := ParseJobState(text)
		_, outcome := ParseOutcome(text)
		for _, err := range []error{state, status, job, outcome} {
			var unknown *UnknownNameError
			if !errors.As(err, &unknown) || unknown.Text != text || unknown.Error() == "" {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if _, err := ParseOutcome("RUNNING"); err == nil {
		t.Error("RUNNING is accepted as an outcome")
	}
}

// Nobody may look for an execution in a state at a place where it is not listed.
func TestListedAs_IsAStateOfItsOwn(t *testing.T) {
	for _, state := range ExecutionStates() {
		at := ListedAs(state)
		if ListedAs(at) != at {
			t.Errorf("%s is listed as %s, which is listed as %s", state, at, ListedAs(at))
		}
		if at != state && (Terminal(state) || StatusOf(state) != StatusPending) { // others may stay for long
			t.Errorf("%s is listed as %s", state, at)
		}
	}
}
