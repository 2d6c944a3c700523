package architecture

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ownStackRE matches end-to-end tests that need a stack of their own, and so do not run
// against a deployed stack.
var ownStackRE = regexp.MustCompile(`\brequireEmbedded\(|\b(env|args|data|config): |serveQueues|serveTables`)

// docs/aws-behaviours.md says where every behaviour of AWS is verified, by tests that exist
// and run there.
func TestAWSBehaviours_NameExistingTests(t *testing.T) {
	rows := 0
	for line := range strings.Lines(string(readFile(t, "docs/aws-behaviours.md"))) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || strings.HasPrefix(line, "| behaviour |") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		where, proofs := cells[1], proofRE.FindAllStringSubmatch(cells[2], -1)
		if !regexp.MustCompile(`^(embedded|LocalStack|template|not verified)\b`).MatchString(where) {
			t.Errorf("unknown place %q: %s", where, line)
		}
		if len(proofs) == 0 && !strings.HasPrefix(where, "not verified") {
			t.Errorf("no test for: %s", line)
		}
		for _, p := range proofs {
			if !hasTest(t, p[1], p[2]) {
				t.Errorf("no test %s in %s", p[2], p[1])
			}
		}
		in := func(packages ...string) bool {
			return slices.ContainsFunc(proofs, func(p []string) bool { return slices.Contains(packages, p[1]) })
		}
		if strings.HasPrefix(where, "LocalStack") && !in("tests/localstack") &&
			!slices.ContainsFunc(proofs, func(p []string) bool { return p[1] == "tests/e2e" && !ownStackRE.MatchString(testBody(t, p[1], p[2])) }) {
			t.Errorf("no test on LocalStack for: %s", line)
		}
		if strings.HasPrefix(where, "template") && !in("infra", "infra/cmd/infra") {
			t.Errorf("no test of the template for: %s", line)
		}
	}
	if rows < 40 {
		t.Errorf("found only %d behaviours", rows)
	}
}
