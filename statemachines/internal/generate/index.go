package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/statemachines"
)

// index is the table of the six layers.
func index() string {
	var b strings.Builder
	b.WriteString("# The lifecycle\n\n" +
		"Six layers have a state of their own. Only an event of the layer *execution* opens or closes an execution: what happens on a\n" +
		"lower layer may inform it. Each page has the layer's diagram, its moves, and the verdict on every state and every event:\n" +
		"it moves, it is ignored because it is late or a duplicate, or it is refused.\n\n" +
		"| layer | states | ends in | moved by | events | moves | ignored | refused |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, m := range statemachines.Machines() {
		count := map[statemachines.Verdict]int{}
		for _, from := range m.States {
			for _, on := range m.Events {
				count[m.Cell(from, on)[0].Verdict]++
			}
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | %d | %s | %s | %d | %d | %d | %d |\n", m.Layer, m.Layer, len(m.States),
			strings.Join(m.Closed, ", "), strings.Join(actors(m), ", "), len(m.Events),
			count[statemachines.Move], count[statemachines.Ignore], count[statemachines.Refuse])
	}
	b.WriteString("\nThe last three columns count pairs of a state and an event.\n\n" +
		"What other engines call the states of an execution: [vocabulary](vocabulary.md).\n")
	return b.String()
}

// actors is everybody who may move the machine, in the order in which they
// first appear.
func actors(m *statemachines.Machine) []string {
	var all []string
	for _, r := range m.Rows {
		for actor := range strings.SplitSeq(r.Actors, ", ") {
			if actor != "" && !slices.Contains(all, actor) {
				all = append(all, actor)
			}
		}
	}
	return all
}
