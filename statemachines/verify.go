package statemachines

import (
	"fmt"
	"slices"
)

// Flaw names a kind of error in a machine.
type Flaw string

// The flaws that Verify checks for.
const (
	FlawGap            Flaw = "gap"             // a state and an event without any verdict
	FlawAmbiguous      Flaw = "ambiguous"       // two verdicts for one state and event, or one move twice
	FlawUnknown        Flaw = "unknown"         // a row or default that names a state or event that the machine does not have
	FlawUnexplained    Flaw = "unexplained"     // a verdict without a reason, a move without actors or recorded event
	FlawUnused         Flaw = "unused"          // a default that covers nothing
	FlawUnreachable    Flaw = "unreachable"     // a state that nothing leads to
	FlawLeavesTerminal Flaw = "leaves terminal" // a transition out of a terminal state that is not allowed there
	FlawDeadEnd        Flaw = "dead end"        // a state from which the machine cannot end
	FlawTerminalEvent  Flaw = "terminal event"  // a terminal event recorded wrongly, or more than once in a try
)

// Violation is one flaw found in a machine.
type Violation struct {
	Layer  Layer
	Flaw   Flaw
	Detail string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Layer, v.Flaw, v.Detail) }

// Verify lists the flaws of a machine. It finds none if every pair of a state and an event has
// exactly one verdict with a reason, every state can be reached, and every state can reach an end.
func Verify(m *Machine) []Violation {
	v := &verifier{m: m}
	v.checkNames()
	v.checkCells()
	v.checkPaths()
	v.checkTerminalEvents()
	return v.violations
}

type verifier struct {
	m          *Machine
	violations []Violation
}

func (v *verifier) report(flaw Flaw, format string, args ...any) {
	v.violations = append(v.violations, Violation{Layer: v.m.Layer, Flaw: flaw, Detail: fmt.Sprintf(format, args...)})
}

// checkNames checks that every state and event that is named exists.
func (v *verifier) checkNames() {
	state := func(where, s string) {
		if !slices.Contains(v.m.States, s) {
			v.report(FlawUnknown, "%s names the state %q", where, s)
		}
	}
	event := func(where string, on Event) {
		if !slices.Contains(v.m.Events, on) {
			v.report(FlawUnknown, "%s names the event %q", where, on)
		}
	}
	state("the initial state", v.m.Initial)
	for _, s := range v.m.Terminal {
		state("the terminal states", s)
	}
	for _, s := range v.m.Closed {
		if !slices.Contains(v.m.Terminal, s) {
			v.report(FlawUnknown, "the closed state %q is not terminal", s)
		}
	}
	for s := range v.m.TerminalEvents {
		state("the terminal events", s)
	}
	if v.m.ReopenEvent != "" {
		event("the reopen event", v.m.ReopenEvent)
	}
	for _, r := range v.m.Rows {
		where := fmt.Sprintf("the row %q, %q", r.From, r.On)
		event(where, r.On)
		switch r.Verdict {
		case Move:
			state(where, r.To)
			if r.From != "" {
				state(where, r.From)
			} else if r.To != v.m.Initial {
				v.report(FlawUnknown, "%s creates it in %q, which is not the initial state", where, r.To)
			}
		case Ignore, Refuse:
			state(where, r.From)
			if r.To != "" || r.RecordedAs != "" {
				v.report(FlawUnknown, "%s does not move, but names a destination or a recorded event", where)
			}
		default:
			v.report(FlawUnknown, "%s has the verdict %q", where, r.Verdict)
		}
	}
	for i, d := range v.m.Defaults {
		where := fmt.Sprintf("default %d", i)
		for _, s := range d.From {
			state(where, s)
		}
		for _, on := range d.On {
			event(where, on)
		}
		if d.Verdict != Ignore && d.Verdict != Refuse {
			v.report(FlawUnknown, "%s has the verdict %q", where, d.Verdict)
		}
	}
}

// checkCells checks that every pair of a state and an event has one verdict, with a
// reason, and that every default is used.
func (v *verifier) checkCells() {
	used := make(map[int]bool)
	for _, from := range v.m.States {
		for _, on := range v.m.Events {
			rows := v.m.Cell(from, on)
			if len(rows) == 0 {
				v.report(FlawGap, "%s, %s", from, on)
			}
			for i, r := range rows {
				if r.Verdict != rows[0].Verdict || i > 0 && r.Verdict != Move {
					v.report(FlawAmbiguous, "%s, %s: %s and %s", from, on, rows[0].Verdict, r.Verdict)
				}
				if slices.ContainsFunc(rows[:i], func(o Row) bool { return o.To == r.To && o.Verdict == Move && r.Verdict == Move }) {
					v.report(FlawAmbiguous, "%s, %s: moves to %s twice", from, on, r.To)
				}
				if r.Reason == "" || r.Verdict == Move && (r.Actors == "" || r.RecordedAs == "") {
					v.report(FlawUnexplained, "%s, %s", from, on)
				}
			}
			if !slices.ContainsFunc(v.m.Rows, func(r Row) bool { return r.From == from && r.On == on }) {
				used[v.m.defaultFor(from, on)] = true
			}
		}
	}
	for i, d := range v.m.Defaults {
		if !used[i] {
			v.report(FlawUnused, "default %d: %s", i, d.Reason)
		}
	}
}

// checkPaths checks that every state can be reached, that every state can reach a
// terminal and a closed state, and that a terminal state is left only for a closed
// state or by ReopenEvent.
func (v *verifier) checkPaths() {
	reached := v.reachable([]string{v.m.Initial}, func(r Row) (string, string) { return r.From, r.To })
	ending := v.reachable(v.m.Terminal, func(r Row) (string, string) { return r.To, r.From })
	closing := v.reachable(v.m.Closed, func(r Row) (string, string) { return r.To, r.From })
	for _, s := range v.m.States {
		if !reached[s] {
			v.report(FlawUnreachable, "%s", s)
		}
		if !ending[s] || !closing[s] {
			v.report(FlawDeadEnd, "%s", s)
		}
	}
	for _, r := range v.m.Rows {
		if r.Verdict != Move || r.On == v.m.ReopenEvent || !slices.Contains(v.m.Terminal, r.From) {
			continue
		}
		if slices.Contains(v.m.Closed, r.From) || r.From != r.To && !slices.Contains(v.m.Closed, r.To) {
			v.report(FlawLeavesTerminal, "%s leads from %s to %s", r.On, r.From, r.To)
		}
	}
}

// reachable returns the set of states that moves lead to from the seeds. step gives the direction
// in which a move is followed.
func (v *verifier) reachable(seeds []string, step func(Row) (from, to string)) map[string]bool {
	in, queue := make(map[string]bool), slices.Clone(seeds)
	for len(queue) > 0 {
		s := queue[0]
		queue, in[s] = queue[1:], true
		for _, r := range v.m.Rows {
			if from, to := step(r); r.Verdict == Move && r.From != "" && from == s && !in[to] {
				queue = append(queue, to)
			}
		}
	}
	return in
}

// checkTerminalEvents checks that entering a terminal state is recorded as its one
// event, and that no other move is. Together with checkPaths, which lets an end lead
// only to a closed state or to another try, this gives every try exactly one terminal
// event.
func (v *verifier) checkTerminalEvents() {
	for _, r := range v.m.Rows {
		if r.Verdict != Move {
			continue
		}
		end, enters := v.m.TerminalEvents[r.To]
		enters = enters && r.From != r.To
		if enters && r.RecordedAs != end {
			v.report(FlawTerminalEvent, "%s from %s enters %s and records %s, not %s", r.On, r.From, r.To, r.RecordedAs, end)
		}
		for s, e := range v.m.TerminalEvents {
			if !enters && r.RecordedAs == e {
				v.report(FlawTerminalEvent, "%s from %s to %s records %s without entering %s", r.On, r.From, r.To, e, s)
			}
		}
	}
	for _, s := range v.m.Terminal {
		if _, ok := v.m.TerminalEvents[s]; !ok && len(v.m.TerminalEvents) > 0 && !slices.Contains(v.m.Closed, s) {
			v.report(FlawTerminalEvent, "%s has no terminal event", s)
		}
	}
}
