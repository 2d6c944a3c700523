package mutation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// lawRE finds the names of laws in the sources of the simulation.
var lawRE = regexp.MustCompile(`(?:\b(?:law|inv)[A-Z]\w* *= |Failf\(|Invariant: )"([^"]+)"`)

// unbroken are the laws that no mistake of the table breaks before any other, and why.
var unbroken = map[string]string{
	"no more executions are live than may be at the same time": "the simulation sets no such limits, see invariant.Checker.SlotLimits",
	"what is undone is not undone once more":                   "a rollback that plans it breaks the law about what a rollback undoes before it calls anybody",
}

// TestMutation_EachLawIsBroken: every law of the simulation is broken by a mistake, so that it is known
// to see something, or named with the reason.
func TestMutation_EachLawIsBroken(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/simulation.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## Mistakes that it sees")
	laws := map[string]bool{}
	for _, folder := range []string{"invariant", "oracle", "simulator"} {
		files, err := filepath.Glob(filepath.Join(root, "tests/sim", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files of %s: %v", len(files), folder, err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range lawRE.FindAllSubmatch(source, -1) {
				laws[string(found[1])] = true
			}
		}
	}
	for law := range laws {
		switch broken, why := strings.Contains(table, " | "+law+" | "), unbroken[law]; {
		case !broken && why == "":
			t.Errorf("no mistake in docs/simulation.md breaks the law %q", law)
		case broken && why != "":
			t.Errorf("a mistake breaks the law %q, which is said to be unbroken", law)
		}
	}
	for law := range unbroken {
		if !laws[law] {
			t.Errorf("there is no law %q", law)
		}
	}
	if len(laws) < 70 {
		t.Errorf("only %d laws are found", len(laws))
	}
}
