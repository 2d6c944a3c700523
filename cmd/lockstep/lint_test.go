package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const lintedBlocks = `[
  {"package": "p", "name": "read", "version": "1.0.0", "runOn": "device", "pure": true, "resultSchema": {"type": "object", "properties": {"version": {}}}},
  {"package": "p", "name": "look", "version": "1.0.0", "pure": true}
]`

const lintedDefinition = `package: p
name: w
version: 1.0.0
seedEntity: device
steps:
  - {label: read, functionBlock: "p/read:1", runOn: device}
  - {label: look, functionBlock: "p/look:1", runOn: device, delay: 2h}
  - {label: third, functionBlock: "p/look:1", runOn: site}
  - {label: fourth, functionBlock: "p/look:1", runOn: device, condition: "read.result.vrsion == look.result.version"}
  - {label: never, functionBlock: "p/look:1", runOn: device, condition: "false"}
  - {label: night, wait: {for: 8h}}
  - {label: asked, wait: {input: {title: x}}}
  - {label: inner, workflowReference: {workflow: "p/inner:1"}, next: end}
  - {label: behind, functionBlock: "p/other:1", runOn: global}
`

const innerDefinition = `package: p
name: inner
version: 1.0.0
config: {timeout: 1h}
steps:
  - {label: a, set: {x: 1}}
`

// Each warning has its line and its code. What only a service knows is left out without --blocks.
func TestLint_Warns(t *testing.T) {
	blocks, file, inner := writeFile(t, "blocks.json", lintedBlocks), writeFile(t, "w.yaml", lintedDefinition), writeFile(t, "inner.yaml", innerDefinition)
	r := runCommand(t, "lint", "--url=http://127.0.0.1:1", "--blocks", blocks, file, inner)
	if r.code != 0 || r.stderr != "" {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	want := []string{
		`:7:68 steps[1].delay: this waits up to 2h0m0s under the locks of the execution: nobody else can change its entities in that time (long_wait)`,
		`:8:54 steps[2].runOn: step "third" has no jobs unless whoever starts it selects entities of type site: it is neither the seedEntity nor acquired (no_entities)`,
		`:9:74 steps[3].condition: the result of step "read" has no "vrsion" by the schema of block p/read:1.0.0; did you mean "version"? (unknown_result)`,
		`:9:74 steps[3].condition: this reads "version" of the result of step "look", and block p/look:1.0.0 has no result schema that declares it (undeclared_result)`,
		`:10:73 steps[4].condition: step "never" never runs: its condition is false (never_true)`,
		`:11:32 steps[5].wait.for: this waits up to 8h0m0s under the locks of the execution: nobody else can change its entities in that time (long_wait)`,
		`:12:34 steps[6].wait.input: this asks people for as long as a step may wait, under the locks of the execution: give it a deadline; a workflow without entities can ask before it dispatches this one (long_wait)`,
		`:13:50 steps[7].workflowReference.workflow: of the config of p/inner:1.0.0, only maxInFlight and failureTolerance hold where it is embedded, not timeout (embedded_config)`,
		`:14:5 steps[8]: no step goes on with step "behind": only a block that names it as the next step can (unreachable)`,
		`:14:36 steps[8].functionBlock: no registered block matches p/other:1; executions fail until one is registered (unknown_block)`,
	}
	got := strings.Split(strings.TrimSpace(r.stdout), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || got[i] != file+want[i] {
			t.Errorf("line %d: got\n%s\nwant\n%s", i, strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""), strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
		}
	}
	if r := runCommand(t, "lint", "--longest-wait", "9h", file, inner); strings.Contains(r.stdout, "unknown_block") || strings.Contains(r.stdout, "8h0m0s") || !strings.Contains(r.stdout, "never_true") {
		t.Errorf("without blocks: %s", r.stdout)
	}
	if r := runCommand(t, "lint", "--strict", file); r.code != 1 {
		t.Errorf("strict: exit code %d", r.code)
	}
	if r := runCommand(t, "lint", "--strict", inner); r.code != 0 || r.stdout != "" {
		t.Errorf("strict: exit code %d, %s", r.code, r.stdout)
	}
}

// What cannot be published is an error, with all that is wrong.
func TestLint_ReportsErrors(t *testing.T) {
	broken, inner := writeFile(t, "broken.yaml", "package: p\nname: w\nversion: 1.0.0\nsteps:\n  - {label: a, st: {x: 1}}\n"), writeFile(t, "inner.yaml", innerDefinition)
	r := runCommand(t, "lint", broken, inner)
	if r.code != 2 || !strings.Contains(r.stderr, broken+":5:16 steps[0].st: there is no field \"st\" here") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	r = runCommand(t, "lint", "-o", "json", inner, broken)
	var report lintReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != 2 || len(report.Files) != 2 || !report.Files[0].Valid || report.Files[1].Valid || report.Files[1].Errors[0].Line != 5 {
		t.Errorf("exit code %d, %v, %s", r.code, err, r.stdout)
	}
}

// A dry run needs no service with --offline.
func TestPublish_DryRunWorksOffline(t *testing.T) {
	blocks, file, inner := writeFile(t, "blocks.json", lintedBlocks), writeFile(t, "w.yaml", lintedDefinition), writeFile(t, "inner.yaml", innerDefinition)
	nowhere := "--url=http://127.0.0.1:1"
	r := runCommand(t, "publish", nowhere, "--dry-run", "--offline", "--blocks", blocks, inner, file)
	if r.code != 0 || r.stdout != "valid p/inner:1.0.0\nvalid p/w:1.0.0\n" || !strings.Contains(r.stderr, ":14:36 steps[8].functionBlock: no registered block matches p/other:1") || !strings.Contains(r.stderr, ":12:34 steps[6].wait.input: this asks people") || strings.Contains(r.stderr, "this waits") {
		t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if r := runCommand(t, "publish", nowhere, "--dry-run", "--offline", "--strict", "--blocks", blocks, file); r.code == 0 {
		t.Errorf("strict: %s", r.stdout)
	}
	if r := runCommand(t, "publish", nowhere, "--dry-run", "--offline", writeFile(t, "e.yaml", "package: p\nname: e\nversion: 1.0.0\nsteps: [{label: a, http: {endpoint: inventory, path: /x}, runOn: global}]\n")); r.code != 0 {
		t.Errorf("an endpoint: %s", r.stderr)
	}
	for _, args := range [][]string{{"--offline"}, {"--dry-run", "--blocks", blocks}} {
		if r := runCommand(t, append(append([]string{"publish", nowhere}, args...), file)...); r.code != 2 || !strings.Contains(r.stderr, "--offline is for --dry-run") {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}
