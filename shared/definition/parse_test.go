package definition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// fullDefinition has a bit of everything. testdata/valid/everything.yaml has every field.
const fullDefinition = `
package: fleet
name: upgrade_firmware
version: 1.0.0
description: all of it
labels: {team: network}
seedEntity: device
parameters:
  type: object
  required: [target]
  properties: {target: {type: string, pattern: "^[0-9.]+$"}}
acquire:
  - {type: device, ids: [a, b], groups: [core], query: entity.site == "zrh"}
assertNotEmpty: true
config: {maxInFlight: 50, failureTolerance: 10%, rollback: {mode: never, onFailure: stop}, onLocked: fail}
steps:
  - label: inventory
    functionBlock: fleet/show_version:1
    runOn: device
  - label: upgrade
    functionBlock: fleet/upgrade:1.2
    runOn: device
    condition: inventory.result.version != parameters.target
    assert: [entity.site != "", "true"]
    parameters: {target: "${parameters.target}"}
    rawParameters: {template: "{{ ${x} }}"}
    retry: {maxRetries: 2, delay: 2s, backoff: 2, maxDelay: 1m, jitter: 0.5}
    timeout: 90
  - label: report
    functionBlock: fleet/report
    runOn: global
    parameters: {upgraded: "${size(upgrade.results)}"}
`

// TestCanonical_ParsesToSameDefinition: the canonical form of a definition parses to the same
// definition, for every field.
func TestCanonical_ParsesToSameDefinition(t *testing.T) {
	for name, source := range validSources(t) {
		d := parse(t, source)
		again, err := definition.Parse(definition.Canonical(d))
		if err != nil {
			t.Fatalf("%s: its canonical form does not parse: %v\n%s", name, err, definition.Canonical(d))
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("%s: the canonical form means something else:\n%s", name, diff)
		}
		if definition.Digest(d) != definition.Digest(again) {
			t.Errorf("%s: the digests differ", name)
		}
	}
	d := parse(t, fullDefinition)
	if d.Config.FailureTolerance.Percent != 10 || d.Config.Rollback != workflow.RollbackNever || d.Steps[1].Timeout.Std().Seconds() != 90 {
		t.Errorf("parsed wrong values: %+v", d)
	}
}

// validSources are valid definitions by name.
func validSources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"full": fullDefinition}
	files, err := filepath.Glob("testdata/valid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range append(files, "../../examples/fleet/upgrade_firmware.yaml") {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(source)
	}
	return all
}

// TestDigest_IgnoresLayoutAndKeyOrder: the digest depends on the meaning, not on layout and the order
// of keys.
func TestDigest_IgnoresLayoutAndKeyOrder(t *testing.T) {
	a := parse(t, head+"steps: [{label: a, functionBlock: p/b, runOn: global, parameters: {x: 1, y: 2}}]")
	b := parse(t, "# the same\nname: w\npackage: p\nversion: '1.0.0'\nsteps:\n- runOn: global\n  functionBlock: p/b\n  label: a\n  parameters:\n    y: 2\n    x: 1\n")
	c := parse(t, head+"steps: [{label: a, functionBlock: p/b, runOn: global, parameters: {x: 1, y: 3}}]")
	if definition.Digest(a) != definition.Digest(b) || definition.Digest(a) == definition.Digest(c) {
		t.Error("digests do not follow the meaning")
	}
}

func parse(t *testing.T, source string) *spec.Definition {
	t.Helper()
	d, err := definition.Parse([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const head = "package: p\nname: w\nversion: 1.0.0\n"

// TestParse_IssuesHaveLineAndPath: everything that is wrong is reported with its line and its path.
func TestParse_IssuesHaveLineAndPath(t *testing.T) {
	for source, want := range map[string]string{
		"":                      "0 required",
		"- a\n":                 "1 type",
		"package: p\n":          "1 name required|1 version required|1 steps required",
		head + "steps: []\n":    "4 steps required", // N3
		head + "steps: {}\n":    "4 steps type",
		head + "stepps: []\n":   "4 stepps unknown_field|4 steps required",
		head + "version: 2.0.0": "4 version duplicate|1 steps required",
		"package: 1p\nname: [x]\nversion: 1.0\nsteps: [{label: a, functionBlock: p/b, runOn: global}]": "1 package format|2 name type|3 version type",
		step(`label: A, functionBlock: p/b, runOn: global`):                                            "5 steps[0].label format",
		step(`label: entity, functionBlock: p/b, runOn: global`):                                       "5 steps[0].label reserved", // N3
		step(`label: a, functionBlock: b, runOn: global`):                                              "5 steps[0].functionBlock format",
		step(`label: a`): "5 steps[0].functionBlock required",
		step(`label: a, functionBlock: p/b, runOn: global, loop: {while: "true"}`):                                                                  "5 steps[0].loop conflict",
		step(`label: a, functionBlock: p/b, runOn: global, retry: {delay: x}`):                                                                      "5 steps[0].retry.delay duration|5 steps[0].retry.maxRetries required",
		step(`label: a, functionBlock: p/b, runOn: global, retry: {maxRetries: 99}`):                                                                "5 steps[0].retry.maxRetries range",
		step(`label: a, functionBlock: p/b, runOn: global, timeout: 15m`):                                                                           "5 steps[0].timeout range",
		step(`label: a, functionBlock: p/b, runOn: global, condition: "1 +"`):                                                                       "5 steps[0].condition expression",
		step(`label: a, functionBlock: p/b, runOn: global, condition: entity.x`):                                                                    "5 steps[0].condition reference",
		step(`label: a, functionBlock: p/b, runOn: device, condition: a.result`):                                                                    "5 steps[0].condition reference",
		step(`label: a, functionBlock: p/b, runOn: device, condition: b.result == 1`) + "  - {label: b, functionBlock: p/b, runOn: device}\n":       "5 steps[0].condition reference",
		step(`label: a, functionBlock: p/b, runOn: device`) + "  - {label: a, functionBlock: p/b, runOn: device}\n":                                 "6 steps[1].label duplicate", // N3
		step(`label: a, functionBlock: p/b, runOn: device`) + "  - {label: b, functionBlock: p/b, runOn: global, parameters: {x: '${a.result}'}}\n": "6 steps[1].parameters.x reference",
		step(`label: a, functionBlock: p/b, runOn: device, parameters: {x: "${"}`):                                                                  "5 steps[0].parameters.x expression",
		step(`label: a, functionBlock: p/b, runOn: device, parameters: {x: 1}, rawParameters: {x: 1}`):                                              "5 steps[0].rawParameters.x duplicate",
		head + "config: {failureTolerance: 101%, onLocked: maybe, lockMode: some}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]":          "4 config.failureTolerance range|4 config.onLocked enum|4 config.lockMode enum",
		head + "parameters: {type: wrong}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]":                                                  "4 parameters schema",
		head + "parameters: {$ref: 'http://example.com/x'}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]":                                 "4 parameters schema",
		head + "labels: &x {a: b}\nsteps: []":                                                                                                       "4 anchor",
		head + "cron: '* * * * *'\nsteps: [{label: a, functionBlock: p/b, runOn: global}]":                                                          "4 cron type",
		"a: [":                    "1 syntax",
		strings.Repeat("[", 5000): "1 depth",
		head + "steps: [{label: a, functionBlock: p/b, runOn: global}]\n---\nx: 1\n": "6 syntax",
	} {
		_, err := definition.Parse([]byte(source))
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != workflow.CodeInvalid {
			t.Errorf("%s\ngot %v", source, err)
			continue
		}
		var got []string
		for _, i := range e.Issues {
			got = append(got, strings.Join(strings.Fields(fmt.Sprintf("%d %s %s", i.Line, i.Path, i.Code)), " "))
		}
		for _, w := range strings.Split(want, "|") {
			if !slices.Contains(got, w) {
				t.Errorf("%s\ngot  %q\nwant %q; %v", source, got, want, e.Issues)
				break
			}
		}
	}
}

func step(fields string) string { return head + "steps:\n  - {" + fields + "}\n" }

// A trigger of events is listed under a name, but nobody calls it by that.
func TestParse_EventTriggerHasTheNameOfItsWorkflow(t *testing.T) {
	const source = "package: p\nname: w\nversion: 1.0.0\ntriggers: {event: [%s]}\nsteps: [{label: a, set: {b: 1}}]\n"
	d, err := definition.Parse(fmt.Appendf(nil, source, "{pattern: {source: [shop]}}, {name: x, pattern: {source: [stock]}}"))
	if err != nil {
		t.Fatal(err)
	}
	if all := d.Triggers.All(); all[0].Name != "w" || all[1].Name != "x" {
		t.Errorf("named %q and %q", all[0].Name, all[1].Name)
	}
	if _, err := definition.Parse(fmt.Appendf(nil, source, "{pattern: {source: [shop]}}, {pattern: {source: [stock]}}")); err == nil {
		t.Error("two have the same name")
	}
}

func TestParse_RejectsTooLargeSource(t *testing.T) {
	_, err := definition.Parse([]byte(strings.Repeat("#", definition.MaxSource+1)))
	if !workflow.Is(err, workflow.CodeTooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestCompile_EvaluatesExpressions is N12, N13, N15 and N16 for expressions.
func TestCompile_EvaluatesExpressions(t *testing.T) {
	_, c, err := definition.ParseAndCompile([]byte(fullDefinition))
	if err != nil {
		t.Fatal(err)
	}
	if r := c.References(1); fmt.Sprint(r.Labels) != "[inventory]" {
		t.Errorf("step 1 refers to %v", r.Labels)
	}
	ctx := expr.NewStepContext(json.RawMessage(`{"target":"2.0.0"}`), expr.Results{"inventory": {"a": json.RawMessage(`{"version":"1.0.0"}`)}}, nil, nil)
	s := expr.Scope{Context: ctx, Entity: &expr.Entity{ID: "a", Attributes: json.RawMessage(`{"site":""}`)}}
	if ok, err := c.Condition(1, s); err != nil || !ok {
		t.Errorf("condition: %v, %v", ok, err)
	}
	if failed, err := c.FailedAssertion(1, s); err != nil || failed == nil || failed.Source() != `entity.site != ""` {
		t.Errorf("assertion: %v, %v", failed, err)
	}
	got, err := c.Parameters(1, s)
	if want := `{"target":"2.0.0","template":"{{ ${x} }}"}`; err != nil || string(got) != want {
		t.Errorf("parameters: %s, %v", got, err)
	}
	s.Entity.ID = "b" // the earlier step has no result for b
	if _, err := c.Condition(1, s); err == nil {
		t.Error("a missing result has a value")
	}
}

func TestValidateParameters_ReportsField(t *testing.T) {
	d := parse(t, fullDefinition)
	for raw, want := range map[string]string{
		`{"target":"1.2"}`: "",
		`{}`:               "parameters.target required",
		`{"target":1}`:     "parameters.target type",
		`{"target":"x"}`:   "parameters.target pattern",
		`[]`:               "parameters type",
		`null`:             "parameters type",
	} {
		err := definition.ValidateParameters(d, json.RawMessage(raw))
		var e *workflow.Error
		got := ""
		if errors.As(err, &e) {
			got = e.Issues[0].Path + " " + e.Issues[0].Code
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}

// A message about the value of a sealed parameter would quote it. A missing one has none.
func TestValidateParameters_SealedValueIsNotQuoted(t *testing.T) {
	d := parse(t, "package: p\nname: w\nversion: 1.0.0\nparameters: {type: object, required: [password], properties: {password: {type: string, pattern: '^[a-z]{12,}$', x-sealed: true}}}\nsteps: [{label: one, set: {a: 1}}]\n")
	for raw, want := range map[string]workflow.Issue{
		`{}`:                     {Path: "parameters.password", Code: "required", Message: "the field is required"},
		`{"password":"hunter2"}`: {Path: "parameters.password", Code: "pattern", Message: "the value, which is sealed, does not fit"},
	} {
		var e *workflow.Error
		if err := definition.ValidateParameters(d, json.RawMessage(raw)); !errors.As(err, &e) || len(e.Issues) != 1 || e.Issues[0].Path != want.Path || e.Issues[0].Code != want.Code || e.Issues[0].Message != want.Message {
			t.Errorf("%s: %+v", raw, err)
		}
	}
}

func TestValidateBlock_ReportsField(t *testing.T) {
	good := workflow.Block{Package: "p", Name: "b", Version: "1.0.0", Pool: "default", Idempotent: true, Reversible: true}
	if err := definition.ValidateBlock(&good); err != nil {
		t.Error(err)
	}
	for path, change := range map[string]func(*workflow.Block){
		"name":            func(b *workflow.Block) { b.Name = "" },
		"version":         func(b *workflow.Block) { b.Version = "1" },
		"pool":            func(b *workflow.Block) { b.Pool = "a/b" },
		"reversible":      func(b *workflow.Block) { b.Pure = true },
		"undoHarmless":    func(b *workflow.Block) { b.Reversible, b.UndoHarmless = false, true },
		"timeout":         func(b *workflow.Block) { b.Timeout = workflow.Duration(15 * 60e9) },
		"parameterSchema": func(b *workflow.Block) { b.ParameterSchema = json.RawMessage(`{"type":1}`) },
		"http.url":        func(b *workflow.Block) { b.HTTP = &workflow.Endpoint{URL: "http://user:secret@host/"} },
		"http.headers.a": func(b *workflow.Block) {
			b.HTTP = &workflow.Endpoint{URL: "http://h", Headers: map[string]string{"a": "b\r\nc"}}
		},
		"http.headers.Content-Length": func(b *workflow.Block) {
			b.HTTP = &workflow.Endpoint{URL: "http://h", Headers: map[string]string{"Content-Length": "1", "X-Fine": "a b"}}
		},
		"http.headers.HOST": func(b *workflow.Block) {
			b.HTTP = &workflow.Endpoint{URL: "http://h", Headers: map[string]string{"HOST": "other"}}
		},
		"http.headers.a(b": func(b *workflow.Block) {
			b.HTTP = &workflow.Endpoint{URL: "http://h", Headers: map[string]string{"a(b": "c"}}
		},
		"resultSchema": func(b *workflow.Block) {
			large := json.RawMessage(`{"description":"` + strings.Repeat("x", definition.MaxSource-100) + `"}`)
			b.ParameterSchema, b.ResultSchema = large, large
		},
	} {
		b := good
		change(&b)
		err := definition.ValidateBlock(&b)
		var e *workflow.Error
		if !errors.As(err, &e) || e.Issues[0].Path != path {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// A block can name the pools that can be deployed, and no others: not the dead letters of another
// pool, which its worker would receive.
func TestValidateBlock_PoolIsOneThatCanBeDeployed(t *testing.T) {
	for pool, want := range map[string]bool{
		"": true, "print": true, "print-dlq-2": true, "dlq": true, strings.Repeat("p", 40): true,
		"print-dlq": false, "-dlq": false, "_print": false, "print--eu": false, "print@eu": false, "1st": false, strings.Repeat("p", 41): false,
	} {
		err := definition.ValidateBlock(&workflow.Block{Package: "p", Name: "b", Version: "1.0.0", Pool: pool})
		if (err == nil) != want {
			t.Errorf("pool %q: %v", pool, err)
		}
		var e *workflow.Error
		if !want && (!errors.As(err, &e) || len(e.Issues) != 1 || e.Issues[0].Path != "pool" || !strings.Contains(e.Issues[0].Message, "dead letters of another pool")) {
			t.Errorf("pool %q: %v", pool, err)
		}
	}
}

// TestParse_RejectsGlobalAsEntityType: no entity can have the type global, so it is neither a seed entity
// nor acquired.
func TestParse_RejectsGlobalAsEntityType(t *testing.T) {
	const step = "steps: [{label: a, functionBlock: p/b, runOn: global}]"
	for source, want := range map[string]string{
		head + "seedEntity: global\n" + step:                  "seedEntity reserved",
		head + "acquire: [{type: global, ids: [a]}]\n" + step: "acquire[0].type reserved",
		head + "acquire: [{type: device, ids: [a]}]\n" + step: "",
		head + "seedEntity: global-device\n" + step:           "",
	} {
		_, err := definition.Parse([]byte(source))
		if got := issueList(nil, err); err == nil && want != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// Nothing ends a workflow that is executed within its execution, so none is published with a time for
// that; one that is stored parses.
func TestParseStrict_RefusesATimeThatNothingKeeps(t *testing.T) {
	const nested = "workflow: {steps: [{label: inner, functionBlock: a/b, runOn: device}]}"
	for step, refused := range map[string]bool{
		nested:                                   true,
		"workflowReference: {workflow: p/other}": true,
		"workflowReference: {workflow: p/other, mode: dispatch}":                false,
		"loop: {over: \"${[1]}\"}, " + nested:                                   true,
		"rollout: {batches: [1]}, " + nested:                                    true,
		"functionBlock: a/b, runOn: device":                                     false,
		"parallel: {branches: [{label: x, functionBlock: a/b, runOn: device}]}": false,
	} {
		source := []byte("package: p\nname: w\nversion: 1.0.0\nsteps:\n  - {label: around, stepTimeout: 1m, " + step + "}\n")
		if _, err := definition.Parse(source); err != nil {
			t.Errorf("%s is not read: %s", step, err)
		}
		_, _, err := definition.ParseStrict(source)
		if got := issueList(nil, err); (err != nil) != refused || refused && !strings.Contains(got, "5:34 steps[0].stepTimeout") {
			t.Errorf("%s: %v %s", step, err, got)
		}
	}
}

// FuzzParse: any text gives a definition or a list of issues. The canonical form of a
// definition, which is stored, parses to the same definition.
func FuzzParse(f *testing.F) {
	f.Add([]byte(fullDefinition))
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	f.Add([]byte(`{"package":"p","name":"w","version":"1.0.0","steps":[{"label":"a","functionBlock":"p/b","runOn":"global","rawParameters":{"x":[1e3,"\u00e9\ud83d\ude00 <>&",12345678901234567890123,-0.5,null]}}]}`))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? a\n: - - b\n  - |\n    c\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		d, err := definition.Parse(source)
		if err != nil {
			if code := workflow.CodeOf(err); code != workflow.CodeInvalid && code != workflow.CodeTooLarge {
				t.Errorf("%q: %v", source, err)
			}
			return
		}
		if _, err := definition.Parse(definition.Canonical(d)); err != nil {
			t.Errorf("%q parses, and its canonical form does not: %v", source, err)
		}
		if issues := schema.Validate(definition.Schema(), definition.Canonical(d), ""); len(issues) > 0 {
			t.Errorf("%q parses and does not fit the schema: %v", source, issues)
		}
		again, err := definition.Parse(definition.Canonical(d))
		if err != nil {
			t.Errorf("%q parses, its canonical form does not: %v\n%s", source, err, definition.Canonical(d))
		} else if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("%q: the canonical form means something else:\n%s", source, diff)
		}
	})
}

// TestDigest_IsStable: the digest of a published definition does not change. If this fails, every
// published definition would count as changed.
func TestDigest_IsStable(t *testing.T) {
	sources := validSources(t)
	for name, want := range map[string]string{
		"full":            "7a4d4688d2679fd51923dc7ed5c779c864bfad8e9e9638ff35c9fbf0ae658bd8",
		"everything.yaml": "917c6dde3e189fee937696f23ab53ee9927da4a1dfd77051933322f3a92f31b0",
	} {
		if got := definition.Digest(parse(t, sources[name])); got != want {
			t.Errorf("%s has the digest %s, want %s", name, got, want)
		}
	}
}
