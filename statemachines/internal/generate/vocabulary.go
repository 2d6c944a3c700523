package main

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/statemachines"
)

// vocabulary is the mapping, once by Lockstep's states and once by their words.
func vocabulary() string {
	var b strings.Builder
	b.WriteString("# The words of other engines\n\n" +
		"What four other workflow engines call the situation an execution is in. Their words depend on the state, on what a waiting\n" +
		"execution waits for, on whether jobs are outstanding, on whether it was rolled back and on the cause of a failure.\n\n" +
		"## By state\n\nWhere several words are given, which one it is depends on the rest: see below.\n\n| state |")
	dialects := statemachines.Dialects()
	for _, d := range dialects {
		fmt.Fprintf(&b, " %s |", d)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(dialects)) + "\n")
	for _, s := range statemachines.ExecutionStates() {
		fmt.Fprintf(&b, "| %s |", s)
		for _, d := range dialects {
			fmt.Fprintf(&b, " %s |", strings.Join(possibleWords(d, s), ", "))
		}
		b.WriteString("\n")
	}
	for _, d := range dialects {
		fmt.Fprintf(&b, "\n## %s\n\nThe first line that applies is the word.\n\n| word | when |\n| --- | --- |\n", d)
		for _, w := range statemachines.Words() {
			if w.Dialect == d {
				fmt.Fprintf(&b, "| %s | %s |\n", w.Word, w.When)
			}
		}
	}
	return b.String()
}

// possibleWords is every word the dialect can have for a state, in the order of its
// lines.
func possibleWords(d statemachines.Dialect, s statemachines.ExecutionState) []string {
	seen := map[string]bool{}
	for _, waiting := range []string{"", "INPUT", "TIMER", "SIGNAL", "CHILD", "CHILD_INPUT"} {
		for _, cause := range []string{"", "WORKER_CRASH", "CHILD_FAILED"} {
			for bits := range 4 {
				seen[statemachines.WordFor(d, statemachines.Situation{
					State: s, Waiting: waiting, Cause: cause, JobsOutstanding: bits&1 != 0, RolledBack: bits&2 != 0,
				})] = true
			}
		}
	}
	var words []string
	for _, w := range statemachines.Words() {
		if w.Dialect == d && seen[w.Word] {
			words = append(words, w.Word)
			delete(seen, w.Word)
		}
	}
	return words
}
