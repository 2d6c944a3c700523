// Package statemachines holds the transition tables: which layer may move from
// which state to which, on which event, who may cause the move and what the history
// records.
//
// Six layers have a state of their own: the execution, the workflow inside it, a
// step of it, a job of a step, the call of a job's tool, and the worker that runs
// jobs. Each layer has its owners. Only an event of the layer "execution" opens or
// closes an execution; events of the lower layers inform it.
//
// A tour of the package:
//
//   - machine.go: [Machine] holds the rows of a layer. [TransitionTable] is a machine
//     whose states have a Go type, which is what callers use:
//     Execution.Move(from, event, to) returns nil or a [*TransitionError].
//   - execution.go, workflow.go, step.go, job.go, tool.go, worker.go: the six
//     layers, one file each: states, events, rows.
//   - status.go: pure functions of an execution's state: its normalised [Status],
//     whether it is [Terminal] or [Acknowledged], whether it [HoldsLocks], and the
//     event that ended it.
//   - verify.go: what must hold for every machine, whatever its rows are.
//
// Every pair of a state and an event has exactly one verdict: the event moves the
// machine, is ignored because it is late or a duplicate, or is refused. A row gives
// the verdict and the reason. A default, with a reason of its own, covers the pairs
// that no row names, so that no pair is undefined.
//
// The diagrams and tables in docs/lifecycle are generated from the rows.
//
// The package imports only the standard library, and neither time nor context: a
// verdict does not depend on when it is asked for.
package statemachines

//go:generate go run ./internal/generate

import (
	"fmt"
	"slices"
)

// Layer names one of the six layers that have a state.
type Layer string

// The layers, from the outermost to the innermost, then the workers.
const (
	LayerExecution Layer = "execution"
	LayerWorkflow  Layer = "workflow"
	LayerStep      Layer = "step"
	LayerJob       Layer = "job"
	LayerTool      Layer = "tool"
	LayerWorker    Layer = "worker"
)

// Event is something that has happened in one layer. It may move the machine.
type Event string

// Verdict is what an event does to a machine in a state.
type Verdict string

// The verdicts. Ignore is for events that arrive late or twice because messages and
// timers do; Refuse is for events that the caller must learn about.
const (
	Move   Verdict = "move"
	Ignore Verdict = "ignore"
	Refuse Verdict = "refuse"
)

// Row is the verdict for one state and one event. Several rows for the same pair,
// all of them moves, give several destinations; Reason says which applies.
type Row struct {
	From       string // empty: it does not exist yet
	On         Event
	To         string // of a move
	Verdict    Verdict
	Actors     string // who may cause the move
	Reason     string // the guard of a move, the reason of anything else
	RecordedAs Event  // the name of the move in the history: On, except for a move to an end
}

// Default is the verdict for every pair of a state and an event that no row names
// and no earlier default covers. An empty From or On matches all.
type Default struct {
	From    []string
	On      []Event
	Verdict Verdict // Ignore or Refuse
	Reason  string
}

// Machine is the transition table of one layer.
type Machine struct {
	Layer       Layer
	States      []string
	Initial     string
	Terminal    []string // the states in which it has ended
	Closed      []string // the terminal states that only ReopenEvent leaves
	ReopenEvent Event    // empty: no event leaves a closed state
	Events      []Event

	// TerminalEvents gives the only event that the history records for entering a
	// terminal state, in layers that have one. No other row records that event.
	TerminalEvents map[string]Event

	Rows     []Row
	Defaults []Default
}

// Cell returns every row for a state and an event: the rows of the table, or else one row made from
// the first default that covers the pair. No rows means a gap in the table, which Verify reports.
func (m *Machine) Cell(from string, on Event) []Row {
	var rows []Row
	for _, r := range m.Rows {
		if r.From == from && r.On == on {
			rows = append(rows, r)
		}
	}
	if i := m.defaultFor(from, on); i >= 0 && len(rows) == 0 {
		d := m.Defaults[i]
		rows = []Row{{From: from, On: on, Verdict: d.Verdict, Reason: d.Reason}}
	}
	return rows
}

func (m *Machine) defaultFor(from string, on Event) int {
	return slices.IndexFunc(m.Defaults, func(d Default) bool {
		return (len(d.From) == 0 || slices.Contains(d.From, from)) && (len(d.On) == 0 || slices.Contains(d.On, on))
	})
}

// CreationRows returns the moves from the empty state. A layer without any is created together with
// the layer around it.
func (m *Machine) CreationRows() []Row {
	return slices.DeleteFunc(slices.Clone(m.Rows), func(r Row) bool { return r.From != "" })
}

// TransitionError is the error of a move that is not in the table.
type TransitionError struct {
	Layer   Layer
	State   string // empty: it does not exist
	Event   Event
	To      string  // the requested destination
	Verdict Verdict // Ignore if the event is late or a duplicate, else Refuse
	Reason  string
}

func (e *TransitionError) Error() string {
	if e.State == "" {
		return fmt.Sprintf("%s: no transition on %s: %s", e.Layer, e.Event, e.Reason)
	}
	return fmt.Sprintf("%s in state %s: no transition on %s: %s", e.Layer, e.State, e.Event, e.Reason)
}

// TransitionTable is a machine whose states have a Go type, so that code cannot mix
// up the states of two layers.
type TransitionTable[S ~string] struct {
	machine *Machine
	cells   map[cell][]Row
}

type cell struct {
	from string
	on   Event
}

func newTransitionTable[S ~string](m Machine) TransitionTable[S] {
	t := TransitionTable[S]{machine: &m, cells: make(map[cell][]Row)}
	for _, on := range m.Events {
		for _, from := range m.States {
			t.cells[cell{from, on}] = m.Cell(from, on)
		}
	}
	for _, r := range m.CreationRows() {
		t.cells[cell{"", r.On}] = append(t.cells[cell{"", r.On}], r)
	}
	return t
}

// Move returns nil if the event leads from one state to the other, else a
// *TransitionError. An event from the empty state creates the thing.
func (t TransitionTable[S]) Move(from S, on Event, to S) error {
	_, err := t.Transition(from, on, to)
	return err
}

// Transition is Move that also returns the event type under which the history
// records the move. It is the event itself, except for a move to one of the four
// ends of an execution: each end has one event, whatever triggered it.
func (t TransitionTable[S]) Transition(from S, on Event, to S) (Event, error) {
	refusal := &TransitionError{Layer: t.machine.Layer, State: string(from), Event: on, To: string(to), Verdict: Refuse}
	rows := t.cells[cell{string(from), on}]
	for _, r := range rows {
		if r.Verdict == Move && r.To == string(to) {
			return r.RecordedAs, nil
		}
	}
	switch {
	case len(rows) > 0 && rows[0].Verdict == Move:
		refusal.Reason = fmt.Sprintf("it does not lead to %s", to)
	case len(rows) > 0:
		refusal.Verdict, refusal.Reason = rows[0].Verdict, rows[0].Reason
	case !slices.Contains(t.machine.Events, on):
		refusal.Reason = "the layer has no such event"
	case from == "":
		refusal.Reason = "it does not exist"
	default:
		refusal.Reason = "the layer has no such state"
	}
	return "", refusal
}

// Verdict returns what the event does in a state. An unknown state or event is refused.
func (t TransitionTable[S]) Verdict(from S, on Event) Verdict {
	if rows := t.cells[cell{string(from), on}]; len(rows) > 0 {
		return rows[0].Verdict
	}
	return Refuse
}

// Machine returns the layer's machine. It is shared and must not be changed.
func (t TransitionTable[S]) Machine() *Machine { return t.machine }

// TransitionExecution is Execution.Transition: it checks one transition of an
// execution and returns the event type under which the history records it.
func TransitionExecution(from ExecutionState, on Event, to ExecutionState) (recordedAs Event, err error) {
	return Execution.Transition(from, on, to)
}

// Machines lists the six machines in the order of the layers.
func Machines() []*Machine {
	return []*Machine{
		Execution.Machine(), Workflow.Machine(), Step.Machine(), Job.Machine(), Tool.Machine(), Worker.Machine(),
	}
}

func stateNames[S ~string](states ...S) []string {
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = string(s)
	}
	return texts
}

// moves makes a row for each source state.
func moves[S ~string](on Event, to S, actors, reason string, from ...S) []Row {
	var rows []Row
	for _, f := range from {
		rows = append(rows, Row{From: string(f), On: on, To: string(to), Verdict: Move, Actors: actors, Reason: reason, RecordedAs: on})
	}
	return rows
}

func ignores[S ~string](on Event, reason string, from ...S) []Row {
	return noMove(Ignore, on, reason, from)
}

func refuses[S ~string](on Event, reason string, from ...S) []Row {
	return noMove(Refuse, on, reason, from)
}

func noMove[S ~string](v Verdict, on Event, reason string, from []S) []Row {
	var rows []Row
	for _, f := range from {
		rows = append(rows, Row{From: string(f), On: on, Verdict: v, Reason: reason})
	}
	return rows
}

// recordTerminalEvents sets RecordedAs of every row that enters one of the ends to
// the event of that end.
func recordTerminalEvents(rows []Row, ends map[string]Event) []Row {
	for i, r := range rows {
		if end, ok := ends[r.To]; ok && r.From != r.To && r.Verdict == Move {
			rows[i].RecordedAs = end
		}
	}
	return rows
}
