package statemachines

import (
	"fmt"
	"slices"
)

// Layer names one of the six layers that have a state of their own.
type Layer string

// The layers, from the outside in, and the workers beside them.
const (
	LayerExecution Layer = "execution"
	LayerWorkflow  Layer = "workflow"
	LayerStep      Layer = "step"
	LayerJob       Layer = "job"
	LayerTool      Layer = "tool"
	LayerWorker    Layer = "worker"
)

// Event is a past fact of one layer. It makes a machine move, or does not.
type Event string

// Verdict says what an event does to a machine in a state.
type Verdict string

// The verdicts. Ignore is for what comes late or twice by the nature of
// messages and alarms; Refuse is for what somebody has to be told about.
const (
	Move   Verdict = "move"
	Ignore Verdict = "ignore"
	Refuse Verdict = "refuse"
)

// Row is the law for one state and one event. Several rows of a state and an
// event, all of them moves, name several destinations; Why says which applies.
type Row struct {
	From       string // empty: the thing does not exist yet
	On         Event
	To         string // of a move
	Verdict    Verdict
	Actors     string // who may cause the move
	Reason     string // the guard of a move, the reason of anything else
	RecordedAs Event  // what the history calls the move: On, but for the events that end
}

// Default is the verdict on every cell that no row names and no earlier default
// covers. An empty From or On stands for all.
type Default struct {
	From    []string
	On      []Event
	Verdict Verdict // Ignore or Refuse
	Reason  string
}

// Machine is the law of one layer.
type Machine struct {
	Layer       Layer
	States      []string
	Initial     string
	Terminal    []string // the states in which it has ended
	Closed      []string // those terminal states that nothing but Reopens leaves
	ReopenEvent Event    // empty: nothing does
	Events      []Event

	// TerminalEvents gives, where a layer has one, the only event that the history records
	// for entering a terminal state: no other row records it.
	TerminalEvents map[string]Event

	Rows     []Row
	Defaults []Default
}

// Cell is every row for a state and an event: those written down, or else the
// one made from the first default that covers them. No rows means a gap in the
// law, which Verify reports.
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

// CreationRows are the moves that bring the thing into being. A layer without any is
// born with the thing around it.
func (m *Machine) CreationRows() []Row {
	return slices.DeleteFunc(slices.Clone(m.Rows), func(r Row) bool { return r.From != "" })
}

// TransitionError is the error of a move that the law does not know.
type TransitionError struct {
	Layer   Layer
	State   string // empty: the thing does not exist
	Event   Event
	To      string  // the destination asked for
	Verdict Verdict // Ignore if the event is merely late or a duplicate, else Refuse
	Reason  string
}

func (r *TransitionError) Error() string {
	if r.State == "" {
		return fmt.Sprintf("%s: no %s: %s", r.Layer, r.Event, r.Reason)
	}
	return fmt.Sprintf("%s in state %s: no %s: %s", r.Layer, r.State, r.Event, r.Reason)
}

// TransitionTable is a machine whose states have a Go type, so that one layer's state is
// never asked about another layer's event by mistake.
type TransitionTable[S ~string] struct {
	machine *Machine
	cells   map[cell][]Row
}

type cell struct {
	from string
	on   Event
}

func newTransitionTable[S ~string](m Machine) TransitionTable[S] {
	l := TransitionTable[S]{machine: &m, cells: make(map[cell][]Row)}
	for _, on := range m.Events {
		for _, from := range m.States {
			l.cells[cell{from, on}] = m.Cell(from, on)
		}
	}
	for _, r := range m.CreationRows() {
		l.cells[cell{"", r.On}] = append(l.cells[cell{"", r.On}], r)
	}
	return l
}

// Move is nil if the event leads from one state to the other, else a *Refusal.
// From the empty state, the event brings the thing into being.
func (l TransitionTable[S]) Move(from S, on Event, to S) error {
	_, err := l.Transition(from, on, to)
	return err
}

// Transition is Move that also says by which name the history records the move.
// It is the event itself, but for the events that end an execution: whatever
// led there, they have one name for each of the four ends.
func (l TransitionTable[S]) Transition(from S, on Event, to S) (Event, error) {
	refusal := &TransitionError{Layer: l.machine.Layer, State: string(from), Event: on, To: string(to), Verdict: Refuse}
	rows := l.cells[cell{string(from), on}]
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
	case !slices.Contains(l.machine.Events, on):
		refusal.Reason = "the layer has no such event"
	case from == "":
		refusal.Reason = "it does not exist"
	default:
		refusal.Reason = "the layer has no such state"
	}
	return "", refusal
}

// Verdict says what the event does in a state. What the layer does not know is
// refused.
func (l TransitionTable[S]) Verdict(from S, on Event) Verdict {
	if rows := l.cells[cell{string(from), on}]; len(rows) > 0 {
		return rows[0].Verdict
	}
	return Refuse
}

// Machine is the layer's machine, shared: it must not be changed.
func (l TransitionTable[S]) Machine() *Machine { return l.machine }

// TransitionExecution is Execution.Recorded: one transition of an execution, and the
// type under which the history records it.
func TransitionExecution(from ExecutionState, on Event, to ExecutionState) (records Event, err error) {
	return Execution.Transition(from, on, to)
}

// Machines lists the six machines, from the outside in.
func Machines() []*Machine {
	return []*Machine{
		Execution.Machine(), Workflow.Machine(), Step.Machine(), Job.Machine(), Tool.Machine(), Worker.Machine(),
	}
}

// The rest are the words in which the layers' files write their rows.

func stateNames[S ~string](states ...S) []string {
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = string(s)
	}
	return texts
}

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

// recordTerminalEvents gives every row that enters one of the ends the one name the history
// has for it.
func recordTerminalEvents(rows []Row, ends map[string]Event) []Row {
	for i, r := range rows {
		if end, ok := ends[r.To]; ok && r.From != r.To && r.Verdict == Move {
			rows[i].RecordedAs = end
		}
	}
	return rows
}
