package workflowtest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

var update = flag.Bool("update", false, "rewrite docs/test.schema.json")

const schemaFile = "../../docs/test.schema.json"

// docs/test.schema.json is what the reader of test files accepts.
func TestSchema_IsUpToDate(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := schema.Check(got); err != nil {
		t.Error(err)
	}
	if file, err := os.ReadFile(schemaFile); err != nil || string(file) != string(got) {
		t.Errorf("docs/test.schema.json is out of date: make generate (%v)", err)
	}
}

const upgrade = `package: p
name: upgrade
version: 1.0.0
seedEntity: device
parameters: {type: object, properties: {target: {type: string}}}
triggers: {cron: {schedule: "* * * * *", executeOnParameters: {type: device, ids: [d1]}}}
output: {done: true}
steps:
  - {label: read, functionBlock: p/read, runOn: device}
  - {label: change, functionBlock: p/change, runOn: device, timeout: 12m, parameters: {to: "${parameters.target}"}}
`

const head = `definition: upgrade.yaml
blocks:
  - {name: p/read, runOn: device, pure: true, result: {version: "1"}, resultSchema: {type: object, required: [version]}}
  - {name: "p/change:2.1.0", runOn: device, reversible: true}
entities: [{entity: device/d1, attributes: {site: a}}, {entity: device/d2, groups: [all]}]
tests:
`

// played plays a test file with definition upgrade.yaml, and returns its failures, one text each.
func played(t *testing.T, tests string) (failures []string, all []Result) {
	t.Helper()
	all, err := Run(t.Context(), write(t, upgrade, head+tests), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Passed != (len(r.Failures) == 0) {
			t.Errorf("%s passed: %v, with %v", r.Name, r.Passed, r.Failures)
		}
		for _, f := range r.Failures {
			failures = append(failures, f.String())
		}
	}
	return failures, all
}

func write(t *testing.T, definition, test string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"upgrade.yaml": definition, "upgrade.test.yaml": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "upgrade.test.yaml")
}

// Each way in which a call can end has the consequences that it has in the service.
func TestRun_CallsEndAsScripted(t *testing.T) {
	for name, test := range map[string]struct{ answer, expect string }{
		"success":        {`{step: read, result: {version: "2"}}`, `{outcome: SUCCEEDED, results: {read: {d1: {version: "2"}}}, output: {done: true}, attributes: {device/d1: {site: a}}}`},
		"update":         {`{step: change, set: {site: b}}`, `{outcome: SUCCEEDED, attributes: {device/d1: {site: b}}}`},
		"terminal":       {`{step: read, fail: GONE}`, `{outcome: FAILED_SAFE, error: GONE, entities: {device/d1: FAILED_SAFE}, jobs: [read device/d1 GONE]}`},
		"panic":          {`{step: read, panic: oops}`, `{outcome: FAILED_SAFE, error: PANIC, jobs: [read device/d1 PANIC]}`},
		"timeout":        {`{step: change, timeout: true}`, `{error: TIMEOUT, jobs: [read device/d1, change device/d1 TIMEOUT], rollbacks: [change device/d1]}`},
		"lost worker":    {`{step: change, crash: true}`, `{error: WORKER_CRASH, jobs: [read device/d1, change device/d1 WORKER_CRASH]}`},
		"schema":         {`{step: read, result: {other: 1}}`, `{outcome: FAILED_SAFE, error: RESULT_SCHEMA}`},
		"other entity":   {`{step: read, result: {version: "2"}, parameters: {}}`, `{outcome: SUCCEEDED}`},
		"its parameters": {`{step: change, parameters: {to: "9"}, fail: NINE}`, `{error: NINE}`},
	} {
		t.Run(name, func(t *testing.T) {
			failures, all := played(t, fmt.Sprintf("  - {name: a, parameters: {target: \"9\"}, start: {ids: [d1]}, answers: [%s], expect: %s}\n", test.answer, test.expect))
			if len(failures) > 0 {
				t.Errorf("%v\n%+v", failures, all)
			}
		})
	}
}

// Where only some entities have failed, it is told which, and why.
func TestRun_TellsWhyAnEntityFailed(t *testing.T) {
	tolerant := strings.Replace(upgrade, "steps:", "config: {failureTolerance: 50%}\nsteps:", 1)
	file := write(t, tolerant, head+"  - {name: a, parameters: {target: \"1\"}, start: {ids: [d1, d2]}, answers: [{step: read, entity: device/d2, fail: GONE, message: it is away}], expect: {outcome: SUCCEEDED}}\n")
	all, err := Run(t.Context(), file, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(all[0].Failures); !strings.Contains(got, "want SUCCEEDED, got PARTIAL; device/d2 ended FAILED_SAFE in step read with GONE: it is away") {
		t.Errorf("%s", got)
	}
}

// Each expectation that is not met is told with its line, and what came.
func TestRun_TellsWhatCame(t *testing.T) {
	failures, _ := played(t, `  - name: a
    start: {groups: [all]}
    parameters: {target: "1"}
    answers:
      - {step: read, fail: GONE, message: it is away}
      - {step: raed, fail: GONE}
    events:
      - {step: read, answer: {}}
    expect:
      status: COMPLETED
      outcome: SUCCEEDED
      error: AWAY
      steps: [read, change]
      jobs: [read device/d2]
      rollbacks: [read device/d2]
      entities: {device/d2: SUCCEEDED, device/d9: SUCCEEDED}
      attributes: {device/d2: {site: b}}
      output: {done: true}
      locked: [device/d2]
      waiting: INPUT
      results: {read: {}}
  - {name: b, parameters: {target: 1}, expect: {outcome: SUCCEEDED}}
  - {name: c, start: {ids: [d1]}, parameters: {target: "1"}, expect: {jobs: []}}
  - {name: d, start: {ids: [d1]}, parameters: {target: "1"}, expect: {refused: invalid}}
`)
	why := "; it failed with GONE: it is away (step read device/d2)"
	want := []string{
		`12:9 tests[0].answers[1]: no call of a block has had this answer`,
		`14:16 tests[0].events[0].step: step "read" never asks for an answer`,
		`16:15 tests[0].expect.status: want COMPLETED, got FAILED` + why,
		`17:16 tests[0].expect.outcome: want SUCCEEDED, got FAILED_SAFE` + why,
		`18:14 tests[0].expect.error: want AWAY, got GONE` + why,
		`19:21 tests[0].expect.steps[1]: want "change", got nothing more`,
		`20:14 tests[0].expect.jobs[0]: want "read device/d2", got "read device/d2 GONE"`,
		`21:19 tests[0].expect.rollbacks[0]: want "read device/d2", got nothing more`,
		`22:29 tests[0].expect.entities.device/d2: want SUCCEEDED, got FAILED_SAFE`,
		`22:51 tests[0].expect.entities.device/d9: the inventory has no entity device/d9 (not_found)`,
		`23:38 tests[0].expect.attributes.device/d2.site: want "b", got null`,
		`24:15 tests[0].expect.output: want {"done":true}, got null`,
		`25:16 tests[0].expect.locked[0]: want "device/d2", got nothing more`,
		`26:16 tests[0].expect.waiting: want INPUT, got none` + why,
		`28:48 tests[1].expect: the start was refused: the parameters are not valid (invalid); parameters.target: got number, want string`,
		`29:77 tests[2].expect.jobs: want 0, got 2: after the last also "read device/d1"`,
		`30:80 tests[3].expect.refused: want the start to be refused with invalid, and it was accepted`,
	}
	for i := range max(len(want), len(failures)) {
		switch {
		case i >= len(want):
			t.Errorf("also %s", failures[i])
		case i >= len(failures):
			t.Errorf("not %s", want[i])
		case failures[i] != want[i]:
			t.Errorf("got  %s\nwant %s", failures[i], want[i])
		}
	}
}

// What is wrong with a file is told with its line, and nothing is played.
func TestRun_RefusesWrongFiles(t *testing.T) {
	for name, c := range map[string]struct{ definition, test, want string }{
		"unknown field": {upgrade, head + "  - {name: a, expct: {}}\n", `7:15 tests[0].expct: there is no field "expct" here; did you mean "expect"?`},
		"two ends":      {upgrade, head + "  - {name: a, expect: {}, answers: [{step: read, fail: X, crash: true}]}\n", "tests[0].answers[0]: a call has one end"},
		"no kind":       {upgrade, head + "  - {name: a, expect: {}, events: [{by: ann}]}\n", "tests[0].events[0]: an event is exactly one of"},
		"entity":        {upgrade, strings.Replace(head, "device/d1", "d1", 1) + "  - {name: a, expect: {}}\n", "5:21 entities[0].entity: want TYPE/ID"},
		"no definition": {upgrade, "definition: other.yaml\ntests: [{name: a, expect: {}}]\n", "1:13 definition: other.yaml cannot be read: no such file or directory"},
		"block":         {upgrade, "definition: upgrade.yaml\nblocks: [{name: p/read}]\ntests: [{name: a, expect: {}}]\n", "10:36 steps[1].functionBlock: no registered block matches p/change: describe it in the test file, under blocks"},
		"definition":    {"package: p\n", head + "  - {name: a, expect: {}}\n", "upgrade.yaml: invalid: the definition is not valid"},
		"refused":       {upgrade, head + "  - {name: a, expect: {refused: invalid, status: COMPLETED}}\n", "tests[0].expect.refused: a start that is refused makes no execution: no other expectation, answer or event goes with it"},
		"no events":     {upgrade, head + "  - {name: a, events: [{cancel: true}], expect: {refused: invalid}}\n", "tests[0].expect.refused: a start that is refused makes no execution"},
		"year":          {upgrade, head + "  - {name: a, at: \"2500-01-01T00:00:00Z\", expect: {}}\n", "tests[0].at: want a time from 2000 to 2200"},
		"wait":          {upgrade, head + "  - {name: a, expect: {}, answers: [{wait: {unti: x}}]}\n", `7:44 tests[0].answers[0].wait: unknown field "unti"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), write(t, c.definition, c.test), func(string) bool { return true })
			var file *FileError
			var e *workflow.Error
			if !errors.As(err, &file) || !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			text := err.Error()
			for _, i := range e.Issues {
				text += "\n" + i.String()
			}
			if !strings.Contains(text, c.want) {
				t.Errorf("got %s\nwant %s", text, c.want)
			}
		})
	}
}

// A message whose worker is lost again and again becomes a dead letter, as in the service.
func TestRun_LostWorkersEndAsDeadLetters(t *testing.T) {
	files := "definition: upgrade.yaml\nblocks: [{name: p/read, runOn: device, %s}, {name: p/change, runOn: device}]\nentities: [{entity: device/d1}]\ntests:\n" +
		"  - {name: a, parameters: {target: \"1\"}, start: {ids: [d1]}, answers: [{step: read, crash: true}], expect: {outcome: %s, error: %s}}\n"
	for _, c := range []struct {
		property, outcome, code string
		atMost, letters         int
	}{
		{"pure: true", "FAILED_SAFE", "UNCLAIMED", 15 * topology.MaxReceiveJobs, 2}, // the engine sends it again for an hour, at growing distances
		{"idempotent: true", "FAILED_UNSAFE", "WORKER_CRASH", 5, 0},
	} {
		path := write(t, upgrade, fmt.Sprintf(files, c.property, c.outcome, c.code))
		source, err := readFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parse(source)
		if err != nil {
			t.Fatal(err)
		}
		s, err := load(path, f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPlay(t.Context(), s, 0)
		if err != nil {
			t.Fatal(err)
		}
		if r := p.run(t.Context()); len(r.Failures) > 0 || len(r.Jobs) < 2 || len(r.Jobs) > c.atMost {
			t.Errorf("%s: %d calls, %v", c.property, len(r.Jobs), r.Failures)
		}
		store := p.Open().Store
		x, err := store.Load(t.Context(), author.Tenant, p.id)
		if err != nil {
			t.Fatal(err)
		}
		if letters, err := engine.DeadLetterNotices(t.Context(), store, x); err != nil || len(letters) < c.letters || c.letters == 0 && len(letters) > 0 {
			t.Errorf("%s: %v, the history has the dead letters %v", c.property, err, letters)
		}
	}
}

const waiting = `package: p
name: upgrade
version: 1.0.0
seedEntity: device
steps:
  - {label: asked, wait: {input: {title: x}}}
  - {label: again, wait: {input: {title: y}}}
`

// A test stops when it says so, also while its events are played.
func TestRun_StopsWhenItSaysSo(t *testing.T) {
	all, err := Run(t.Context(), write(t, waiting, `definition: upgrade.yaml
entities: [{entity: device/d1}]
tests:
  - name: a
    start: {ids: [d1]}
    stopAfter: 1h
    events:
      - {step: asked, answer: {}, after: 20m}
      - {step: again, answer: {}, after: 5h}
    expect: {waiting: INPUT}
  - {name: b, start: {ids: [d1]}, stopAfter: 1h, events: [{step: asked, answer: {}, after: 1h}, {step: again, answer: {}}], expect: {outcome: SUCCEEDED, within: 1h}}
  - {name: c, start: {ids: [d1]}, stopAfter: 1h, events: [{step: other, answer: {}}], expect: {waiting: INPUT}}
`), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if r := all[0]; r.Took.Std() != time.Hour || len(r.Failures) != 1 || r.Failures[0].String() != "9:9 tests[0].events[1]: the test stops before this, 1h0m0s after its start" {
		t.Errorf("took %v, %v", r.Took.Std(), r.Failures)
	}
	if r := all[1]; !r.Passed || r.Took.Std() != time.Hour {
		t.Errorf("took %v, %v", r.Took.Std(), r.Failures)
	}
	if r := all[2]; r.Took.Std() != time.Hour || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].String(), `step "other" never asks for an answer`) {
		t.Errorf("took %v, %v", r.Took.Std(), r.Failures)
	}
}

// Numbers are compared by their value, however large and however written.
func TestRun_ComparesNumbersByValue(t *testing.T) {
	for want, passes := range map[string]bool{"9007199254740993": true, "9007199254740992": false, `"9007199254740993"`: false} {
		failures, _ := played(t, `  - name: a
    start: {ids: [d1]}
    parameters: {target: "1"}
    answers: [{step: read, result: {version: 9007199254740993}}]
    expect: {outcome: SUCCEEDED, results: {read: {d1: {version: `+want+`}}}}
`)
		if passes != (len(failures) == 0) {
			t.Errorf("%s: %v", want, failures)
		}
	}
	for text, same := range map[string]string{"10": "1.0e1", `{"a":[0.5]}`: `{"a":[5e-1]}`, "1e999999999": "1e999999999"} {
		if got, want := decode(json.RawMessage(text)), decode(json.RawMessage(same)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s and %s: %v and %v", text, same, got, want)
		}
	}
}

// A failure that no test expects is one of the test, whatever it checks otherwise.
func TestRun_FailuresAreExpected(t *testing.T) {
	failures, _ := played(t, `  - {name: a, start: {ids: [d1]}, parameters: {target: "1"}, answers: [{step: read, fail: GONE}], expect: {}}
  - {name: b, start: {ids: [d1]}, parameters: {target: "1"}, answers: [{step: read, fail: GONE}], expect: {jobs: [read device/d1 GONE]}}
  - {name: c, start: {ids: [d1]}, parameters: {target: "1"}, answers: [{step: read, fail: GONE}], expect: {error: GONE}}
  - {name: d, start: {ids: [d1]}, parameters: {target: "1"}, answers: [{step: read, fail: GONE}], expect: {status: FAILED}}
  - {name: e, start: {ids: [d1]}, parameters: {target: "1"}, expect: {}}
`)
	want := []string{
		"7:107 tests[0].expect: nothing says that it fails; it failed with GONE: as the test says (step read device/d1)",
		"8:107 tests[1].expect: nothing says that it fails; it failed with GONE: as the test says (step read device/d1)",
	}
	if !slices.Equal(failures, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(failures, "\n"), strings.Join(want, "\n"))
	}
}

// Files are read up to a bound. An error names the file.
func TestRun_RefusesLargeFiles(t *testing.T) {
	large := strings.Repeat("# nothing\n", maxFile/10+1)
	for name, c := range map[string]struct{ definition, test, want string }{
		"upgrade.test.yaml": {upgrade, large, "upgrade.test.yaml: a file holds at most 4194304 bytes"},
		"blocks":            {large, "definition: upgrade.yaml\nblockFiles: [upgrade.yaml]\ntests: [{name: a, expect: {}}]\n", "definition: upgrade.yaml cannot be read: a file holds at most 4194304 bytes"},
	} {
		_, err := Run(t.Context(), write(t, c.definition, c.test), func(string) bool { return true })
		text := fmt.Sprint(err)
		var e *workflow.Error
		if errors.As(err, &e) {
			text += fmt.Sprint(e.Issues)
		}
		if err == nil || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// What an end starts is compared in order. What cannot be started is told, if the test asks for it.
func TestRun_FollowUps(t *testing.T) {
	const mail = "package: p\nname: mail\nversion: 1.2.0\nparameters: {type: object, required: [to], properties: {to: {type: string}}}\nsteps: [{label: note, set: {x: 1}}]\n"
	definition := strings.Replace(upgrade, "steps:", "onEnd:\n  completed: {workflow: p/mail, parameters: {to: \"${parameters.target}\"}}\n  failed: {workflow: \"p/mail:1\", parameters: {at: 7}}\nsteps:", 1)
	for name, c := range map[string]struct{ answer, expect, want string }{
		"as expected":      {"", `{followUps: [{workflow: "p/mail:1", parameters: {to: "9"}}]}`, ""},
		"any parameters":   {"", `{followUps: [{workflow: p/mail}]}`, ""},
		"not asked for":    {"{step: read, fail: GONE}", `{error: GONE}`, ""},
		"another input":    {"", `{followUps: [{workflow: p/mail, parameters: {to: "8"}}]}`, `expect.followUps[0].parameters: want {"to":"8"}, got {"to":"9"}`},
		"another version":  {"", `{followUps: [{workflow: "p/mail:2"}]}`, `expect.followUps[0].workflow: want p/mail:2, got p/mail:1.2.0 {"to":"9"}`},
		"another workflow": {"", `{followUps: [{workflow: p/mails}]}`, `expect.followUps[0].workflow: want p/mails, got p/mail:1.2.0 {"to":"9"}`},
		"one more":         {"", `{followUps: []}`, `expect.followUps: want 0, got 1: after the last also p/mail:1.2.0 {"to":"9"}`},
		"one less":         {"", `{followUps: [{workflow: p/mail}, {workflow: p/mail}]}`, "expect.followUps[1]: want p/mail, got nothing more"},
		"not possible":     {"{step: read, fail: GONE}", `{error: GONE, followUps: []}`, "expect.followUps: what begins at the end cannot be started: the parameters are not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, definition, "definitions: [mail.yaml]\n"+head+fmt.Sprintf("  - {name: a, parameters: {target: \"9\"}, start: {ids: [d1]}, answers: [%s], expect: %s}\n", c.answer, c.expect))
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), "mail.yaml"), []byte(mail), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := Run(t.Context(), file, func(string) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range all[0].Failures {
				got = append(got, f.String())
			}
			if text := strings.Join(got, "\n"); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}
