package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/statemachines"
)

var docsDir = filepath.Join("..", "..", "..", "docs", "lifecycle")

// handWritten are the pages of docs/lifecycle that are not generated.
var handWritten = []string{"vocabulary.md"}

// TestPages_MatchTheDocs fails when docs/lifecycle differs from the rows, or has a
// page that is neither generated nor in handWritten.
func TestPages_MatchTheDocs(t *testing.T) {
	for _, d := range findDrift(t, docsDir) {
		t.Errorf("%s: run make generate", d)
	}
}

// TestExecutionScript_MatchesTheMonitor fails when the monitor draws other states or moves
// than the rows have.
func TestExecutionScript_MatchesTheMonitor(t *testing.T) {
	got, err := os.ReadFile(filepath.Join("..", "..", "..", monitorScript))
	if err != nil || string(got) != executionScript() {
		t.Errorf("%s differs from the rows (%v): run make generate", monitorScript, err)
	}
}

// TestFindDrift_ReportsChangedMissingAndExtraPages changes, removes and adds a page in
// a copy.
func TestFindDrift_ReportsChangedMissingAndExtraPages(t *testing.T) {
	folder := t.TempDir()
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	if d := findDrift(t, folder); len(d) != 0 {
		t.Fatalf("freshly written pages differ: %v", d)
	}
	job := filepath.Join(folder, "job.md")
	text, err := os.ReadFile(job)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job, append(text, ' '), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "step.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "command.md"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if d := strings.Join(findDrift(t, folder), "\n"); !strings.Contains(d, "job.md") || !strings.Contains(d, "step.md") || !strings.Contains(d, "command.md") {
		t.Errorf("changed job.md, removed step.md, added command.md; got:\n%s", d)
	}
}

func findDrift(t *testing.T, folder string) []string {
	t.Helper()
	var differences []string
	want := pages()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(folder, name))
		switch {
		case err != nil:
			differences = append(differences, err.Error())
		case string(got) != text:
			differences = append(differences, name+" differs from the rows")
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := want[e.Name()]; !ok && !slices.Contains(handWritten, e.Name()) {
			differences = append(differences, e.Name()+" is not generated")
		}
	}
	return differences
}

// TestPages_NameEveryStateAndReason checks that a page names every state, event, move
// and reason of its layer, and that it says it is generated.
func TestPages_NameEveryStateAndReason(t *testing.T) {
	files := pages()
	for _, m := range statemachines.Machines() {
		text := files[string(m.Layer)+".md"]
		if !strings.HasPrefix(text, "<!-- Generated") {
			t.Errorf("%s.md does not say that it is generated", m.Layer)
		}
		var wanted []string
		wanted = append(wanted, m.States...)
		for _, on := range m.Events {
			wanted = append(wanted, "`"+string(on)+"`")
			for _, from := range m.States {
				for _, r := range m.Cell(from, on) {
					wanted = append(wanted, r.Reason)
				}
			}
		}
		for _, r := range m.Rows {
			if r.Verdict == statemachines.Move {
				wanted = append(wanted, "--> "+r.To)
			}
		}
		for _, w := range wanted {
			if !strings.Contains(text, w) {
				t.Errorf("%s.md does not contain %q", m.Layer, w)
			}
		}
	}
}

func TestStateRange_NamesExactlyItsStates(t *testing.T) {
	m := statemachines.Execution.Machine()
	for want, states := range map[string][]string{
		"(none)":                            {""},
		"NEW to BLOCKED_WAITING":            {"NEW", "VALID", "BLOCKED_WAITING"},
		"NEW, VALID":                        {"VALID", "NEW"},
		"NEW to BLOCKED_WAITING, RUNNING":   {"NEW", "VALID", "BLOCKED_WAITING", "RUNNING"},
		"NEW, BLOCKED_WAITING":              {"NEW", "BLOCKED_WAITING"},
		"FAILED_SAFE_ACK to CANCELLED_ACK":  {"FAILED_SAFE_ACK", "FAILED_UNSAFE_ACK", "CANCELLED_ACK"},
		"RUNNING, WAITING, ERROR, ROLLBACK": {"RUNNING", "WAITING", "ERROR", "ROLLBACK"},
	} {
		if got := stateRange(m, states); got != want {
			t.Errorf("stateRange(%v) = %q, want %q", states, got, want)
		}
	}
}
