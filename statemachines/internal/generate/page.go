package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/statemachines"
)

// groupThreshold is from how many states a move must lead to be drawn as one arrow from
// a box that names them all: forty arrows into one state show nothing.
const groupThreshold = 5

// page renders one layer.
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

// group is several rows that differ in nothing but where they come from.
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
// that leads from the one to the other.
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

// stateRange names a set of states: all of them in a row as first to last.
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

// writeStates is what an execution's state says by itself.
func writeStates(b *strings.Builder) {
	b.WriteString("## States\n\nIn the order of an execution's life, which is also what *A to B* means below.\n\n" +
		"| state | status | holds its locks | ended by |\n| --- | --- | --- | --- |\n")
	for _, s := range statemachines.ExecutionStates() {
		holds := "no"
		if statemachines.HoldsLocks(s) {
			holds = "yes"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s, statemachines.StatusOf(s), holds, code(string(statemachines.TerminalEvent(s))))
	}
	b.WriteString("\nA state that a reader does not know counts as holding, and as RUNNING.\n\n")
}

// recordedLayers are the layers whose moves stand in the history of an execution.
// Jobs and workers are asked about where they are kept.
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
		b.WriteString("\nThe history of an execution does not hold the events of this layer.\n")
	}
	if m.ReopenEvent != "" {
		fmt.Fprintf(b, "\nNothing leaves %s but %s.\n", strings.Join(m.Closed, ", "), code(string(m.ReopenEvent)))
	} else {
		fmt.Fprintf(b, "\nNothing leaves %s.\n", strings.Join(m.Closed, ", "))
	}
}

// writeMatrix is one character for every state and event.
func writeMatrix(b *strings.Builder, m *statemachines.Machine) {
	b.WriteString("\n## Every state and every event\n\n`>` moves, `.` is ignored, `x` is refused. The columns are the states:\n\n```text\n")
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

// writeReasons says why each cell that does not move does not. Events that do not
// move from the same states for the same reason share a line.
func writeReasons(b *strings.Builder, m *statemachines.Machine) {
	b.WriteString("## Why the rest does not move\n\n| verdict | event | in | because |\n| --- | --- | --- | --- |\n")
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
