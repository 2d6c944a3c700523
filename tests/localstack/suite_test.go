package localstack

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// chosen are the tests of tests/e2e that are run on the deployed stack: what one
// run does, what its definition may say, and what callers are told. Those that kill
// or hold a part of an embedded stack leave themselves out, each with its reason.
const chosen = "^Test(Global|Scenarios|Lifecycle|Timed|Command|InterruptedFollower|Verbs|BadInput|Refusals|NeverSent|Doctor|Redrive|NothingIsLeft|StackKilled)$"

// suite runs tests/e2e against the stack, as a process: it is the same program that
// runs against the embedded one.
func suite(t *testing.T, s *stage) {
	t.Helper()
	began := time.Now()
	run := chosen
	if only := os.Getenv("LOCKSTEP_E2E_RUN"); only != "" {
		run = only
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout", "10m", "-run", run, "./tests/e2e")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "LOCKSTEP_E2E=localstack", "LOCKSTEP_E2E_URL="+s.output(t, "ApiUrl"),
		"LOCKSTEP_E2E_AT="+strings.TrimPrefix(emulator.URL(), "http://"), "LOCKSTEP_E2E_REACH="+emulator.Reach())
	out, err := cmd.CombinedOutput()
	figure("tests/e2e on it", began)
	passed, skipped := strings.Count(string(out), "--- PASS"), strings.Count(string(out), "--- SKIP")
	t.Logf("%s passed, %s left out", strconv.Itoa(passed), strconv.Itoa(skipped))
	if err != nil || passed == 0 {
		t.Errorf("tests/e2e: %v\n%s", err, failures(string(out)))
	}
}

// failures leaves out what has passed.
func failures(out string) string {
	var kept []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
