package architecture

import (
	"regexp"
	"strings"
	"testing"
)

var proofRE = regexp.MustCompile("`([a-z0-9/]+):(Test[A-Za-z0-9_]+)`")

// Every row of docs/guarantees.md names tests, and they exist.
func TestGuarantees_NameExistingTests(t *testing.T) {
	rows := 0
	for line := range strings.Lines(string(readFile(t, "docs/guarantees.md"))) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(strings.TrimSpace(line), "| proved by |") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		proofs := proofRE.FindAllStringSubmatch(line, -1)
		if len(proofs) == 0 {
			t.Errorf("no test for: %s", line)
		}
		for _, p := range proofs {
			if testBody(t, p[1], p[2]) == "" {
				t.Errorf("no test %s in %s", p[2], p[1])
			}
		}
	}
	if rows == 0 {
		t.Error("no rows found")
	}
}

// testBody returns the source of a test in a folder or below it; "" if there is none.
func testBody(t *testing.T, dir, name string) string {
	t.Helper()
	for _, file := range goFiles(t, dir) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		if _, from, found := strings.Cut(string(readFile(t, file)), "\nfunc "+name+"("); found {
			text, _, _ := strings.Cut(from, "\n}\n")
			return text
		}
	}
	return ""
}
