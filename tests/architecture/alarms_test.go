package architecture

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// docs/observability.md names for each alarm of the template the fault that raises it, and tests
// that exist.
func TestAlarms_HaveFaultsAndTests(t *testing.T) {
	_, section, _ := strings.Cut(string(readFile(t, "docs/observability.md")), "### Which fault raises which alarm")
	section, _, _ = strings.Cut(section, "\n## ")
	var patterns []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range nameRE.FindAllStringSubmatch(cells[0], -1) {
			patterns = append(patterns, m[1])
		}
		proofs := proofRE.FindAllStringSubmatch(cells[2], -1)
		if len(proofs) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, p := range proofs {
			if !hasTest(t, p[1], p[2]) {
				t.Errorf("no test %s in %s", p[2], p[1])
			}
		}
	}
	alarms := regexp.MustCompile(`(?m)^  Alarm(\w+): `).FindAllStringSubmatch(string(readFile(t, "infra/testdata/prod.golden")), -1)
	if len(alarms) < 30 {
		t.Fatalf("%d alarms in the template", len(alarms))
	}
	used := map[string]bool{}
	for _, a := range alarms {
		var rows []string
		for _, p := range patterns {
			if ok, err := path.Match(p, a[1]); err != nil || ok {
				rows = append(rows, p)
				used[p] = true
			}
		}
		if len(rows) != 1 {
			t.Errorf("the alarm %s is in the rows %v, want one", a[1], rows)
		}
	}
	for _, p := range patterns {
		if !used[p] {
			t.Errorf("there is no alarm %s", p)
		}
	}
}
