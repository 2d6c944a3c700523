package localstack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// runE2E runs tests/e2e against the stack, as a process: it is the same program that
// runs against the embedded one. Tests that need a stack of their own leave themselves
// out, each with its reason.
func runE2E(t *testing.T, s *deployedStack) {
	t.Helper()
	began := time.Now()
	pattern := os.Getenv("LOCKSTEP_E2E_RUN") // all of them if empty
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout", "15m", "-run", pattern, "./tests/e2e")
	cmd.Dir = repoRoot(t)
	cmd.Env = append(os.Environ(), "LOCKSTEP_E2E=localstack", "LOCKSTEP_E2E_URL="+s.output(t, "ApiUrl"),
		"LOCKSTEP_E2E_AT="+strings.TrimPrefix(localStack.URL(), "http://"), "LOCKSTEP_E2E_REACH="+localStack.HostAddress())
	out, err := cmd.CombinedOutput()
	printDuration("tests/e2e on it", began)
	passed, skipped := strings.Count(string(out), "--- PASS"), strings.Count(string(out), "--- SKIP")
	t.Logf("%s passed, %s left out", strconv.Itoa(passed), strconv.Itoa(skipped))
	report := failedLines(string(out))
	if err != nil || passed == 0 {
		t.Errorf("tests/e2e: %v\n%s", err, report)
	} else {
		t.Log(report) // why what was left out
	}
}

// reportColdStarts prints how long the functions' cold starts have taken so far, from the start
// of the process until it asks for work.
func reportColdStarts(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(localStack.LogDir(), "*Function*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range initDurationPattern.FindAllSubmatch(text, -1) {
			ms, err := strconv.ParseFloat(string(line[1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ms)
		}
	}
	if slices.Sort(all); len(all) > 0 { // a container keeps no such log
		fmt.Printf("%-32s %d of them, %.0f ms in the middle, %.0f to %.0f ms\n", "cold starts", len(all), all[len(all)/2], all[0], all[len(all)-1])
	}
}

var initDurationPattern = regexp.MustCompile(`(?m)^Init Duration: ([0-9.]+) ms$`)

// failedLines leaves out what has passed.
func failedLines(out string) string {
	var kept []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
