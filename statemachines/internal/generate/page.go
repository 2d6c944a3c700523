package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/statemachines"
)

// groupThreshold is the number of source states from which a move is drawn as one
// arrow, from a box that names them all. Forty arrows into one state are unreadable.
const groupThreshold = 5

// page renders the page of one layer.
func page(m *statemachines.Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Layer: %s\n\n[All layers](README.md)\n\n", m.Layer)
	writeDiagram(&b, m)
	if m.Layer == statemachines.LayerExecution {
		writeStates(&b)
	}
	writeMoves(&b, m)
	writeMatrix(&b, m)
	writeReasons(&b, m)
	return b.String()
}

// group is rows that differ only in their source state.
type group struct {
	statemachines.Row
	from []string
}

func groupedMoves(m *statemachines.Machine) []group {
	var groups []group
	for _, r := range m.Rows {
		if r.Verdict != statemachines.Move {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool {
			same := r
			same.From = g.From
			return same == g.Row
		})
		if i < 0 {
			groups = append(groups, group{Row: r})
			i = len(groups) - 1
		}
		groups[i].from = append(groups[i].from, r.From)
	}
	return groups
}

// writeDiagram draws one arrow for each pair of states, labelled with every event
// that leads from the first to the second.
func writeDiagram(b *strings.Builder, m *statemachines.Machine) {
	b.WriteString("```mermaid\nstateDiagram-v2\n    direction TB\n")
	type arrow struct{ from, to string }
	var order []arrow
	labels := map[arrow][]string{}
	draw := func(from, to string, on statemachines.Event) {
		a := arrow{from, to}
		if labels[a] == nil {
			order = append(order, a)
		}
		if !slices.Contains(labels[a], string(on)) {
			labels[a] = append(labels[a], string(on))
		}
	}
	if len(m.CreationRows()) == 0 {
		fmt.Fprintf(b, "    [*] --> %s\n", m.Initial)
	}
	boxes := map[string]string{}
	for _, g := range groupedMoves(m) {
		if len(g.from) >= groupThreshold {
			name := stateRange(m, g.from)
			if boxes[name] == "" {
				boxes[name] = fmt.Sprintf("many%d", len(boxes)+1)
				fmt.Fprintf(b, "    state %q as %s\n", name, boxes[name])
			}
			draw(boxes[name], g.To, g.On)
			continue
		}
		for _, from := range g.from {
			if from == "" {
				from = "[*]"
			}
			draw(from, g.To, g.On)
		}
	}
	for _, a := range order {
		fmt.Fprintf(b, "    %s --> %s: %s\n", a.from, a.to, strings.Join(labels[a], ", "))
	}
	for _, s := range m.Closed {
		fmt.Fprintf(b, "    %s --> [*]\n", s)
	}
	b.WriteString("```\n\n")
}

// stateRange names a set of states. Three or more that follow each other are written
// as "first to last".
func stateRange(m *statemachines.Machine, states []string) string {
	in := func(s string) bool { return slices.Contains(states, s) }
	var parts []string
	if in("") {
		parts = append(parts, "(none)")
	}
	for i := 0; i < len(m.States); i++ {
		if !in(m.States[i]) {
			continue
		}
		j := i
		for j+1 < len(m.States) && in(m.States[j+1]) {
			j++
		}
		if j-i >= 2 {
			parts = append(parts, m.States[i]+" to "+m.States[j])
			i = j
			continue
		}
		parts = append(parts, m.States[i])
	}
	return strings.Join(parts, ", ")
}

// writeStates writes what the state of an execution says by itself.
func writeStates(b *strings.Builder) {
	b.WriteString("## States\n\nIn lifecycle order; *A to B* below means all states from A to B in this order.\n\n" +
		"| state | status | holds its locks | ended by |\n| --- | --- | --- | --- |\n")
	for _, s := range statemachines.ExecutionStates() {
		holds := "no"
		if statemachines.HoldsLocks(s) {
			holds = "yes"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s, statemachines.StatusOf(s), holds, code(string(statemachines.TerminalEvent(s))))
	}
	b.WriteString("\nA state that a reader does not know counts as holding locks, and as RUNNING.\n\n")
}

// recordedLayers are the layers whose moves the history of an execution records. The
// states of jobs and workers are in items of their own.
var recordedLayers = []statemachines.Layer{statemachines.LayerExecution, statemachines.LayerWorkflow, statemachines.LayerStep}

func writeMoves(b *strings.Builder, m *statemachines.Machine) {
	history := slices.Contains(recordedLayers, m.Layer)
	b.WriteString("## Moves\n\n| from | event | to | when | who |")
	if history {
		b.WriteString(" history records |\n| --- ")
	} else {
		b.WriteString("\n")
	}
	b.WriteString("| --- | --- | --- | --- | --- |\n")
	for _, g := range groupedMoves(m) {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |", stateRange(m, g.from), code(string(g.On)), g.To, g.Reason, g.Actors)
		if history {
			fmt.Fprintf(b, " %s |", code(string(g.RecordedAs)))
		}
		b.WriteString("\n")
	}
	if !history {
		b.WriteString("\nThe history of an execution does not record the events of this layer.\n")
	}
	if m.ReopenEvent != "" {
		fmt.Fprintf(b, "\nOnly %[2]s leaves %[1]s.\n", strings.Join(m.Closed, ", "), code(string(m.ReopenEvent)))
	} else {
		fmt.Fprintf(b, "\nNothing leaves %s.\n", strings.Join(m.Closed, ", "))
	}
}

// writeMatrix writes one character for every pair of a state and an event.
func writeMatrix(b *strings.Builder, m *statemachines.Machine) {
	b.WriteString("\n## Every state and every event\n\n`>`: the event moves it, `.`: it is ignored, `x`: it is refused. The columns are the states:\n\n```text\n")
	width := 0
	for _, on := range m.Events {
		width = max(width, len(on))
	}
	for i, s := range m.States {
		fmt.Fprintf(b, "%*s  %s%s\n", width, "", strings.Repeat("| ", i), s)
	}
	for _, on := range m.Events {
		fmt.Fprintf(b, "%-*s  ", width, on)
		for i, from := range m.States {
			if i > 0 {
				b.WriteString(" ")
			}
			b.WriteString(map[statemachines.Verdict]string{
				statemachines.Move: ">", statemachines.Ignore: ".", statemachines.Refuse: "x",
			}[m.Cell(from, on)[0].Verdict])
		}
		b.WriteString("\n")
	}
	b.WriteString("```\n\n")
}

// writeReasons writes the reason of every pair that does not move. Events with the
// same states and the same reason share a line.
func writeReasons(b *strings.Builder, m *statemachines.Machine) {
	b.WriteString("## Why the other events do not move it\n\n| verdict | event | in | because |\n| --- | --- | --- | --- |\n")
	type reason struct {
		verdict statemachines.Verdict
		why     string
		in      string
	}
	var order []reason
	events := map[reason][]string{}
	for _, on := range m.Events {
		states := map[reason][]string{}
		var here []reason
		for _, from := range m.States {
			r := m.Cell(from, on)[0]
			if r.Verdict == statemachines.Move {
				continue
			}
			key := reason{verdict: r.Verdict, why: r.Reason}
			if states[key] == nil {
				here = append(here, key)
			}
			states[key] = append(states[key], from)
		}
		for _, key := range here {
			full := key
			full.in = stateRange(m, states[key])
			if events[full] == nil {
				order = append(order, full)
			}
			events[full] = append(events[full], code(string(on)))
		}
	}
	slices.SortStableFunc(order, func(a, b reason) int { return strings.Compare(string(a.verdict), string(b.verdict)) })
	for _, r := range order {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.verdict, strings.Join(events[r], ", "), r.in, r.why)
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
