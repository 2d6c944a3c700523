package mutation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/tests/sim/mutation"
)

const root = "../../.."

// TestMutation_Applies: every mistake can still be made, and their names are unique. `make
// mutations` checks whether they are found.
func TestMutation_Applies(t *testing.T) {
	names := map[string]bool{}
	for _, m := range slices.Concat(mutation.All(), mutation.Adapters()) {
		if names[m.Name] {
			t.Errorf("two mistakes are named %q", m.Name)
		}
		names[m.Name] = true
		if _, err := m.Apply(root); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 30 {
		t.Errorf("there are only %d mistakes", len(names))
	}
}

// TestMutation_NamedTestExists: a mistake that no simulation finds names a test that exists.
func TestMutation_NamedTestExists(t *testing.T) {
	withTest := 0
	for _, m := range mutation.All() {
		if m.Test == "" {
			continue
		}
		if !slices.ContainsFunc(mutation.Borders(), func(b mutation.Mutation) bool { return b.Name == m.Name }) {
			withTest++
		}
		pkg, name, _ := strings.Cut(m.Test, ":")
		files, _ := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if !slices.ContainsFunc(files, func(f string) bool {
			raw, err := os.ReadFile(f)
			return err == nil && strings.Contains(string(raw), "func "+name+"(t *testing.T)")
		}) {
			t.Errorf("%s: there is no test %s", m.Name, m.Test)
		}
	}
	if withTest > (len(mutation.All())-len(mutation.Borders()))/2 {
		t.Errorf("%d mistakes are left to other tests: the simulation finds too few", withTest)
	}
}

// TestMutation_ListedInDocs: docs/simulation.md says what finds each mistake.
func TestMutation_ListedInDocs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/simulation.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## Mistakes that it sees")
	rows := 0
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| mistake ") && !strings.HasPrefix(line, "| --- ") {
			rows++
		}
	}
	for _, m := range mutation.All() {
		row := "\n| " + m.Name + " | "
		if m.Test != "" {
			row += "`" + m.Test + "` |"
		}
		if !strings.Contains(table, row) {
			t.Errorf("docs/simulation.md has no row that begins %q", row)
		}
	}
	if rows != len(mutation.All()) {
		t.Errorf("docs/simulation.md has %d rows for %d mistakes", rows, len(mutation.All()))
	}
	if want := fmt.Sprintf("Of the %d,%03d mistakes", rows/1000, rows%1000); !strings.Contains(table, want) {
		t.Errorf("docs/simulation.md does not say %q", want)
	}
}
