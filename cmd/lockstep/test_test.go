package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const playedDefinition = `package: p
name: w
version: 1.0.0
seedEntity: device
steps:
  - {label: read, functionBlock: p/read, runOn: device}
`

const playedTests = `definition: w.yaml
blocks: [{name: p/read, runOn: device, pure: true}]
entities: [{entity: device/d1}]
tests:
  - {name: it is read, start: {ids: [d1]}, expect: {outcome: SUCCEEDED, jobs: [read device/d1]}}
  - {name: it fails, start: {ids: [d1]}, answers: [{step: read, fail: GONE}], expect: {outcome: SUCCEEDED}}
`

func writeTests(t *testing.T, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"w.yaml": playedDefinition, "w.test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "w.test.yaml")
}

// Tests run without a service. A failed test reports the place, what was expected and what
// happened.
func TestTest_PlaysFiles(t *testing.T) {
	file, offline := writeTests(t, playedTests), "--url=http://127.0.0.1:1"
	r := runCommand(t, "test", offline, file)
	if r.code != 1 || r.stderr != "" {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	for _, want := range []string{
		"ok    " + file + ": it is read (1 jobs in 0s)\n", "FAIL  " + file + ": it fails\n", "1 passed, 1 failed\n",
		file + ":6:97 tests[1].expect.outcome: want SUCCEEDED, got FAILED_SAFE; it failed with GONE: as the test says (step read device/d1)\n",
		"  jobs: read device/d1 GONE\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r := runCommand(t, "test", offline, "--run", "is read", file); r.code != 0 || !strings.HasSuffix(r.stdout, "1 passed, 0 failed\n") {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
	var report testReport
	r = runCommand(t, "test", "-o", "json", file)
	if err := json.Unmarshal([]byte(r.stdout), &report); r.code != 1 || err != nil || report.Passed != 1 || report.Failed != 1 || len(report.Tests) != 2 || report.Tests[1].Failures[0].Line != 6 {
		t.Errorf("exit code %d, %v, %s", r.code, err, r.stdout)
	}
	if r := runCommand(t, "test", "--schema"); r.code != 0 || !json.Valid([]byte(r.stdout)) {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
}

// Several files are played one after the other, as the shell gives them for *.test.yaml.
func TestTest_PlaysSeveralFiles(t *testing.T) {
	first, second := writeTests(t, playedTests), writeTests(t, playedTests)
	r := runCommand(t, "test", first, second)
	if r.code != 1 || r.stderr != "" || !strings.HasSuffix(r.stdout, "2 passed, 2 failed\n") {
		t.Errorf("exit code %d, %s%s", r.code, r.stderr, r.stdout)
	}
}

// Test files lie beside the definitions, and *.yaml matches both. Verbs that take definitions leave
// out test files and say so; test files alone are a mistake.
func TestDefinitionVerbs_LeaveTestFilesOut(t *testing.T) {
	tests := writeTests(t, playedTests)
	definition := filepath.Join(filepath.Dir(tests), "w.yaml")
	for _, verb := range [][]string{{"lint"}, {"publish", "--dry-run", "--offline"}} {
		r := runCommand(t, append(verb, definition, tests)...)
		if r.code != 0 || r.stderr != "note: left out: "+tests+" (\"lockstep test\" plays test files)\n" {
			t.Errorf("%v: exit code %d, %s%s", verb, r.code, r.stderr, r.stdout)
		}
		r = runCommand(t, append(verb, tests)...)
		if r.code != 2 || !strings.Contains(r.stderr, tests+" is a test file, not a definition: lockstep test "+tests) {
			t.Errorf("%v: exit code %d, %s%s", verb, r.code, r.stderr, r.stdout)
		}
	}
	if r := runCommand(t, "lint", "-o", "json", definition, tests); r.code != 0 || strings.Contains(r.stdout, "w.test.yaml") {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
}

// A file that is not valid is wrong usage, and nothing is played.
func TestTest_ExplainsWrongFiles(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "FILE is missing: lockstep test FILE..."},
		{[]string{"none.test.yaml"}, "there is no file none.test.yaml"},
		{[]string{"--run", "nothing", writeTests(t, playedTests)}, `no test has a name that contains "nothing"`},
		{[]string{writeTests(t, strings.Replace(playedTests, "w.yaml", "v.yaml", 1))}, "w.test.yaml:1:13 definition: v.yaml cannot be read: no such file or directory"},
		{[]string{writeTests(t, strings.Replace(playedTests, "p/read", "p/other", 1))}, "w.yaml:6:34 steps[0].functionBlock: no registered block matches p/read: describe it in the test file, under blocks"},
	} {
		if r := runCommand(t, append([]string{"test"}, c.args...)...); r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, r.code, r.stderr)
		}
	}
}
