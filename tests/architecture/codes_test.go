package architecture

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

var update = flag.Bool("update", false, "rewrite the generated pages")

const codesPage = "docs/codes.md"

// otherFailures are codes of failures that have no constant, because one place reports each.
var otherFailures = map[string]string{
	"ACQUIRE":            "a block that acquires entities has failed, or returned what are no entities",
	"BLOCK_MISMATCH":     "a step runs on another type than its block",
	"BLOCK_NOT_FOUND":    "no version of the block matches the reference",
	"CYCLE":              "a definition embeds itself",
	"EMPTY":              "no entity was found, and `assertNotEmpty` says that there has to be one",
	"ERROR":              "a block in Go returned an error without a code",
	"HANDLER_NOT_FOUND":  "the worker of the pool does not have the block; nothing was called",
	"HTTP_FORBIDDEN":     "the host of a call is not on the allow list; nothing was sent",
	"HTTP_INVALID":       "a call cannot be sent, or its answer is not valid",
	"INVALID":            "result, updates or entities of a block are not valid; the message names the place",
	"INTERNAL":           "a fault of the worker or of the engine; its log has the place",
	"NO_ACQUIRE":         "the block cannot acquire entities",
	"NO_ROLLBACK":        "the block cannot be rolled back",
	"PANIC":              "a block in Go panicked",
	"QUERY":              "a query that selects entities is not valid",
	"RESULT":             "a result cannot be encoded or decoded as JSON",
	"RESULT_SCHEMA":      "a result does not match the `resultSchema` of its block",
	"RUN_ON":             "a block was called for another type of entity than it runs on",
	"WORKFLOW_NOT_FOUND": "no version of a definition matches the reference",
}

// literalRE matches a code of a failure that is written where it is reported.
var literalRE = regexp.MustCompile(`(?:Terminal\(|Retryable\(|Code: +|fail\()"([A-Z][A-Z_]+)"`)

// What a subscription may ask for are the events that docs/codes.md lists.
func TestCodes_EventTypesAreThoseOfThePage(t *testing.T) {
	_, events, _ := strings.Cut(writeCodesPage(t), "\n## Events\n")
	var listed []string
	for _, line := range strings.Split(events, "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
			listed = append(listed, name)
		}
	}
	slices.Sort(listed)
	if got := lifecycle.EventTypes(); len(got) == 0 || !slices.Equal(got, slices.Compact(listed)) {
		t.Errorf("got %v, want %v", got, listed)
	}
}

// docs/codes.md lists every code of the product with its meaning, as the code has it.
// go test ./tests/architecture -run TestCodesPage -update writes it.
func TestCodesPage_ListsEveryCode(t *testing.T) {
	got := writeCodesPage(t)
	if *update {
		if err := os.WriteFile(filepath.Join(repoRoot, codesPage), []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(readFile(t, codesPage)) {
		t.Errorf("%s is out of date: make generate", codesPage)
	}
}

// Every code that is written where it is reported has a meaning on the page, and every meaning a
// code.
func TestCodesPage_ExplainsLiterals(t *testing.T) {
	used := map[string]bool{}
	for _, file := range goFiles(t, "shared") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range literalRE.FindAllStringSubmatch(string(readFile(t, file)), -1) {
			used[m[1]] = true
			if otherFailures[m[1]] == "" {
				t.Errorf("%s reports %s, which codes_test.go does not explain", file, m[1])
			}
		}
	}
	for code := range otherFailures {
		if !used[code] && code != "RESULT_SCHEMA" && code != "INVALID" && !strings.HasPrefix(code, "HTTP_") {
			t.Errorf("nothing reports %s", code)
		}
	}
}

func writeCodesPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("<!-- Generated from the code by make generate; do not edit. -->\n\n# Codes\n\n" +
		"Programs decide by codes; texts may change. Codes of requests are in lower case, those of executions, steps and jobs in upper case, types of events have a point.\n\n" +
		"## Requests\n\nThe `code` of a [problem](api.md#problems). `limit` says that a request was refused and has changed nothing; `LIMIT` below that an execution, a step or a job has failed at a limit while it ran.\n\n| code | status | meaning |\n| --- | --- | --- |\n")
	for _, c := range constants(t, "shared/workflow/errors.go", "Code") {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", c.value, workflow.Code(c.value).HTTPStatus(), c.meaning)
	}
	b.WriteString("\n## Executions that did not succeed\n\nThe `cause` of an execution.\n\n| cause | meaning |\n| --- | --- |\n")
	for _, c := range constants(t, "shared/workflow/execution.go", "Cause") {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, c.meaning)
	}
	b.WriteString("\n## Failures\n\n`error.code` of executions, steps and jobs. Blocks add codes of their own; a code of a request in upper case means the same. " +
		"Which are retried is in [api.md](api.md#failures-of-jobs).\n\n| code | meaning |\n| --- | --- |\n")
	failures := maps.Clone(otherFailures)
	failures["HTTP_<status>"] = "a server answered with this status"
	for _, c := range constants(t, "shared/workflow/failure.go", "Failure") {
		failures[c.value] = c.meaning
	}
	for _, code := range slices.Sorted(maps.Keys(failures)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", code, failures[code])
	}
	b.WriteString("\n## Events\n\nThe `type` of an event in the history. Those of the first three layers change a state; [the lifecycle](lifecycle/README.md) says from which to which.\n\n" +
		"| type | layer | recorded when |\n| --- | --- | --- |\n")
	for _, m := range statemachines.Machines() {
		switch m.Layer {
		case statemachines.LayerExecution, statemachines.LayerWorkflow, statemachines.LayerStep:
			writeEvents(&b, m)
		}
	}
	for _, file := range goFiles(t, "shared/lifecycle") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, c := range constants(t, file, "Event") {
			fmt.Fprintf(&b, "| `%s` | - | %s |\n", c.value, c.meaning)
		}
	}
	return b.String()
}

// writeEvents writes the events by which the history names the moves of a layer.
func writeEvents(b *strings.Builder, m *statemachines.Machine) {
	var order []statemachines.Event
	reasons := map[statemachines.Event][]string{}
	for _, row := range m.Rows {
		if row.Verdict != statemachines.Move {
			continue
		}
		event := row.On
		if row.RecordedAs != "" {
			event = row.RecordedAs
		}
		if reasons[event] == nil {
			order = append(order, event)
		}
		if !slices.Contains(reasons[event], row.Reason) {
			reasons[event] = append(reasons[event], row.Reason)
		}
	}
	for _, event := range order {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", event, m.Layer, strings.Join(reasons[event], "; or "))
	}
}

// constant is a constant text of the code, with the comment behind it.
type constant struct{ value, meaning string }

// constants lists the exported constant texts of a file whose names have a prefix. Each has to have a comment
// on its line.
func constants(t *testing.T, file, prefix string) []constant {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repoRoot, file), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var all []constant
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
				continue
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(spec.Comment.Text()) == "" {
				t.Errorf("%s: say behind %s what it means", file, spec.Names[0].Name)
			}
			all = append(all, constant{value, strings.TrimSpace(spec.Comment.Text())})
		}
	}
	return all
}
