package localstack

import (
	"bytes"
	"cmp"
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

	"github.com/lockstep-run/lockstep/tests/testkit"
)

// runE2E runs tests/e2e against the deployed stack, in a process of its own, as it runs
// against the embedded stack. Tests that need a stack of their own are skipped.
func runE2E(t *testing.T, s *deployedStack) {
	t.Helper()
	began := time.Now()
	pattern := os.Getenv("LOCKSTEP_E2E_RUN") // all of them if empty
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout", "15m", "-run", pattern, "./tests/e2e")
	cmd.Dir = testkit.Root(t)
	cmd.Env = append(os.Environ(), "LOCKSTEP_E2E=localstack", "LOCKSTEP_E2E_URL="+s.output(t, "ApiUrl"),
		"LOCKSTEP_E2E_AT="+strings.TrimPrefix(localStack.URL(), "http://"), "LOCKSTEP_E2E_REACH="+localStack.HostAddress())
	out, err := cmd.CombinedOutput()
	printDuration("tests/e2e", began)
	passed, skipped := strings.Count(string(out), "--- PASS"), strings.Count(string(out), "--- SKIP")
	t.Logf("%d passed, %d skipped; the slowest: %s", passed, skipped, strings.Join(slowest(string(out), 10), ", "))
	report := failedLines(string(out))
	if err != nil || passed == 0 {
		t.Errorf("tests/e2e: %v\n%s", err, report)
	} else {
		t.Log(report) // the reasons of skipped tests
	}
}

// functionLogs are the logs of the functions so far. With Docker there are none.
func functionLogs(t *testing.T) (texts [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(localStack.LogDir(), "*Function*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return texts
}

// checkLogsHoldNoToken checks that no function has logged a resume token.
func checkLogsHoldNoToken(t *testing.T) {
	t.Helper()
	for _, text := range functionLogs(t) {
		if bytes.Contains(text, []byte("lst1.")) {
			t.Error("the log of a function holds a token")
		}
	}
}

// reportColdStarts prints the durations of the functions' cold starts, from the start of the
// process until its first request for an event.
func reportColdStarts(t *testing.T) {
	t.Helper()
	var all []float64
	for _, text := range functionLogs(t) {
		for _, line := range initDurationPattern.FindAllSubmatch(text, -1) {
			ms, err := strconv.ParseFloat(string(line[1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ms)
		}
	}
	if slices.Sort(all); len(all) > 0 { // there is no such log with Docker
		fmt.Printf("%-32s %d, median %.0f ms, %.0f to %.0f ms\n", "cold starts", len(all), all[len(all)/2], all[0], all[len(all)-1])
	}
}

var initDurationPattern = regexp.MustCompile(`(?m)^Init Duration: ([0-9.]+) ms$`)

var passedPattern = regexp.MustCompile(`(?m)^ *--- PASS: (\S+) \(([0-9.]+)s\)$`)

// slowest names the n tests that took longest, with their seconds.
func slowest(out string, n int) (names []string) {
	passed := passedPattern.FindAllStringSubmatch(out, -1)
	seconds := func(m []string) float64 {
		s, _ := strconv.ParseFloat(m[2], 64) // the pattern admits nothing else but "." and "1.2.3"
		return s
	}
	slices.SortFunc(passed, func(a, b []string) int { return cmp.Compare(seconds(b), seconds(a)) })
	for _, m := range passed[:min(n, len(passed))] {
		names = append(names, m[1]+" "+m[2])
	}
	return names
}

// failedLines returns the lines of a test's output that are not about passed tests.
func failedLines(out string) string {
	var kept []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
