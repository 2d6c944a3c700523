package architecture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/cost"
)

// The examples of docs/cost.md, and those in the README, are what the estimate of lockstep plan says of them.
func TestCostPage_ExamplesAreEstimates(t *testing.T) {
	const file, begin, end = "docs/cost.md", "<!-- estimate: written by go test ./tests/architecture -run TestCostPage -update -->\n", "<!-- end of estimate -->"
	var b strings.Builder
	b.WriteString("| execution | write units | read units | SQS requests | invocations | at list prices | for a million jobs |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	readme := string(readFile(t, "README.md"))
	for _, e := range []struct {
		what                   string
		entities, steps, packs int
		readme                 bool // it is in the README too
	}{
		{"1 device, 1 step", 1, 1, 1, true},
		{"100 devices, 3 steps", 100, 3, 300, false},
		{"1,000 devices, 1 step in packs of ten", 1000, 1, 100, false},
		{"10,000 devices, 1 step in packs of ten", 10000, 1, 1000, true},
		{"10,000 devices, 3 steps in packs of ten", 10000, 3, 3000, false},
		{"10,000 devices, 1 step that may not be repeated", 10000, 1, 10000, false},
		{"no device, 3 global steps", 0, 3, 3, false},
	} {
		c := cost.Estimate(cost.Work{Entities: e.entities, Steps: e.steps, Packs: e.packs})
		writes, reads := 0.0, 0.0
		for _, units := range c.WriteUnits {
			writes += units
		}
		for _, units := range c.ReadUnits {
			reads += units
		}
		bill := cost.NewBill(c)
		jobs := max(1, e.entities) * e.steps
		million := fmt.Sprintf("$%.2f", cost.PerMillion(bill.Total, jobs))
		if e.readme && !strings.Contains(readme, "| "+million+" |") {
			t.Errorf("README.md does not say %s for %s", million, e.what)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %s | %s |\n", e.what, writes, reads, c.QueueRequests, c.Invocations, cost.Format(bill.Total), million)
	}
	fmt.Fprintf(&b, "\nPrices of %s.\n", cost.Current.Date)

	page := string(readFile(t, file))
	head, rest, ok := strings.Cut(page, begin)
	written, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks the markers of the table", file)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(repoRoot, file), []byte(head+begin+b.String()+end+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != b.String() {
		t.Errorf("%s has\n%s\nwant\n%s", file, written, b.String())
	}
}

// The tests that docs/cost.md names exist.
func TestCostPage_NamesExistingTests(t *testing.T) {
	_, page, _ := strings.Cut(string(readFile(t, "docs/cost.md")), "## What else costs something")
	named := 0
	for _, m := range nameRE.FindAllStringSubmatch(page, -1) {
		if strings.HasPrefix(m[1], "Test") {
			if named++; !hasTest(t, "shared/engine", m[1]) && !hasTest(t, "shared/engine/query", m[1]) {
				t.Errorf("no test %s in shared/engine and shared/engine/query", m[1])
			}
		}
	}
	if named < 5 {
		t.Errorf("the page names only %d tests", named)
	}
}
