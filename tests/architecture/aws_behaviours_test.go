package architecture

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ownStackRE are the signs of an end-to-end test that needs a stack of its own, and
// so does not run on one that is deployed.
var ownStackRE = regexp.MustCompile(`\brequireEmbedded\(|\b(env|args|data|config): |serveQueues|serveTables`)

// TestAWSBehaviours_NameExistingTests: docs/aws-behaviours.md says of every behaviour of AWS where it is
// verified, by tests that exist and that run there.
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
			t.Errorf("it is verified in %q: %s", where, line)
		}
		if len(proofs) == 0 && !strings.HasPrefix(where, "not verified") {
			t.Errorf("nothing verifies: %s", line)
		}
		for _, p := range proofs {
			if !hasTest(t, p[1], p[2]) {
				t.Errorf("there is no test %s in %s", p[2], p[1])
			}
		}
		in := func(packages ...string) bool {
			return slices.ContainsFunc(proofs, func(p []string) bool { return slices.Contains(packages, p[1]) })
		}
		if strings.HasPrefix(where, "LocalStack") && !in("tests/localstack") &&
			!slices.ContainsFunc(proofs, func(p []string) bool { return p[1] == "tests/e2e" && !ownStackRE.MatchString(testBody(t, p[1], p[2])) }) {
			t.Errorf("nothing that runs on LocalStack verifies: %s", line)
		}
		if strings.HasPrefix(where, "template") && !in("infra", "infra/cmd/infra", "infra") {
			t.Errorf("nothing that reads the template verifies: %s", line)
		}
	}
	if rows < 40 {
		t.Errorf("%d behaviours can be read", rows)
	}
}
