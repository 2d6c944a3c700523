// Command generate writes docs/lifecycle from the rows of package statemachines: an
// index, and a page for each layer with its diagram, its moves, the matrix of all
// states and events, and the reason of every event that does not move. It is run by
// go generate ./statemachines. It also writes the states and moves of an execution for
// the monitor, which draws them.
//
// page.go renders the page of a layer. A test compares the files on disk with what
// the rows give. vocabulary.md in the same folder is written by hand.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/statemachines"
)

// generatedNotice is the first line of every generated file.
const generatedNotice = "<!-- Generated from the rows in statemachines by `make generate`. Do not edit. -->\n\n"

func main() {
	// go generate runs in the folder of package statemachines.
	out := flag.String("out", filepath.Join("..", "docs", "lifecycle"), "folder to write to")
	script := flag.String("script", filepath.Join("..", monitorScript), "script of the monitor to write")
	flag.Parse()
	err := write(*out)
	if err == nil {
		err = os.WriteFile(*script, []byte(executionScript()), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// monitorScript is where the monitor has the states and moves of an execution.
const monitorScript = "shared/monitor/app/src/lifecycle.gen.ts"

// executionScript is the states of an execution and its moves, in TypeScript.
func executionScript() string {
	var b strings.Builder
	b.WriteString("// Generated from the rows in statemachines by `make generate`. Do not edit.\n\nexport const states = {\n")
	for _, state := range statemachines.ExecutionStates() {
		fmt.Fprintf(&b, "  %s: { status: %q, locks: %t },\n", state, statemachines.StatusOf(state), statemachines.HoldsLocks(state))
	}
	b.WriteString("} as const;\n\nexport type State = keyof typeof states;\n\n" +
		"export const moves: { from: State; on: string; to: State; by: string; when: string }[] = [\n")
	for _, r := range statemachines.Execution.Machine().Rows {
		if r.Verdict == statemachines.Move && r.From != "" {
			fmt.Fprintf(&b, "  { from: %q, on: %q, to: %q, by: %q, when: %q },\n", r.From, r.On, r.To, r.Actors, r.Reason)
		}
	}
	b.WriteString("];\n")
	return b.String()
}

func write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range pages() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages is every generated file, by name.
func pages() map[string]string {
	files := map[string]string{"README.md": generatedNotice + index()}
	for _, m := range statemachines.Machines() {
		files[string(m.Layer)+".md"] = generatedNotice + page(m)
	}
	return files
}

// index is the page with the table of the six layers.
func index() string {
	var b strings.Builder
	b.WriteString("# The lifecycle\n\n" +
		"Six layers have a state of their own. Only an event of the layer *execution* opens or closes an execution; events of the\n" +
		"lower layers inform it. Each page has the diagram of a layer, its moves, and the verdict on every state and every event:\n" +
		"the event moves it, is ignored because it is late or a duplicate, or is refused.\n\n" +
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
