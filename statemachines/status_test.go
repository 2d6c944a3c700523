package statemachines

import (
	"errors"
	"slices"
	"testing"
)

// TestStateFacts_AgreeWithTheTable holds the facts against the law's own lists, and spells
// out what locks rely on.
func TestStateFacts_AgreeWithTheTable(t *testing.T) {
	m := Execution.Machine()
	var listed []ExecutionState
	for _, s := range Statuses() {
		listed = append(listed, StatesOf(s)...)
	}
	if len(listed) != len(m.States) {
		t.Errorf("the statuses stand for %d states, there are %d", len(listed), len(m.States))
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
			t.Errorf("%s is entered by %s and said to be ended by %s", s, end, TerminalEvent(s))
		}
	}
}

// TestHoldsLocks_IsAClosedList writes the states that hold nothing once more, by
// hand: whoever adds a state has to decide here as well.
func TestHoldsLocks_IsAClosedList(t *testing.T) {
	free := []ExecutionState{
		"", "NEW", "VALID", "BLOCKED_WAITING", "READY", "RESOURCE_DISCOVERY", "RESOURCES_DISCOVERED", "SCHEDULED",
		"COMPLETED_ACK", "FAILED_SAFE_ACK", "FAILED_UNSAFE_ACK", "CANCELLED_ACK",
	}
	for _, s := range append(ExecutionStates(), "", "A_STATE_OF_TOMORROW", "new", "COMPLETED_ACK ") {
		if got, want := HoldsLocks(s), !slices.Contains(free, s); got != want {
			t.Errorf("Holding(%q) = %t", s, got)
		}
	}
}

// TestHoldsLocks_EndsOnlyOnReleasingEvents: a move from a state that holds to
// one that does not is one of the few that are meant to release everything.
func TestHoldsLocks_EndsOnlyOnReleasingEvents(t *testing.T) {
	releasing := []Event{EventLockDeferred, EventExecutionSettled, EventExecutionAcknowledged, EventExecutionRetried}
	for _, r := range Execution.Machine().Rows {
		if r.Verdict != Move {
			continue
		}
		lets := HoldsLocks(ExecutionState(r.From)) && !HoldsLocks(ExecutionState(r.To))
		if lets && !slices.Contains(releasing, r.On) {
			t.Errorf("%s from %s to %s gives the locks away", r.On, r.From, r.To)
		}
		if gets := !HoldsLocks(ExecutionState(r.From)) && ExecutionState(r.To) == ExecutionRunning; gets {
			t.Errorf("%s from %s runs without locks", r.On, r.From)
		}
	}
}

func TestStatusOf_UnknownStates(t *testing.T) {
	if got := StatusOf("A_STATE_OF_TOMORROW"); got != StatusRunning {
		t.Errorf("an unknown state is %s: somebody may take it for ended", got)
	}
	if got := StatusOf(""); got != StatusPending {
		t.Errorf("an execution that does not exist is %s", got)
	}
	if got := StatusOf(ExecutionCancelling); got != StatusRunning {
		t.Errorf("CANCELLING is %s", got)
	}
	if got := StatesOf("PAUSED"); len(got) != 0 {
		t.Errorf("a status that does not exist stands for %v", got)
	}
	if Terminal("A_STATE_OF_TOMORROW") || Acknowledged("") || TerminalEvent("") != "" {
		t.Error("what is not known has ended")
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
		t.Error("RUNNING is taken for an outcome")
	}
}
