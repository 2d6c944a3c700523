package program_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

const head = "package: p\nname: w\nversion: 1.0.0\n"

func compile(t *testing.T, source string) (*spec.Definition, *program.Compiled) {
	t.Helper()
	d, c, err := definition.ParseAndCompile([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

// everything is the definition that has every field.
func everything(t *testing.T) (*spec.Definition, *program.Compiled) {
	t.Helper()
	source, err := os.ReadFile("../testdata/valid/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, string(source))
}

func index(t *testing.T, d *spec.Definition, label string) int {
	t.Helper()
	for i, s := range d.FlatSteps() {
		if s.Label == label {
			return i
		}
	}
	t.Fatalf("no step %s", label)
	return -1
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// TestPaths_LocateStepsAndAcquires: each step and each acquire entry has its path in the document.
func TestPaths_LocateStepsAndAcquires(t *testing.T) {
	d, _ := everything(t)
	paths := program.Paths(d)
	for label, want := range map[string]string{
		"inventory": "steps[0]", "rounds": "steps[1]", "check": "steps[1].workflow.steps[1]",
		"deepest": "steps[1].workflow.steps[2].workflow.steps[0]", "inner": "steps[2]", "aside": "steps[4]",
	} {
		if got := paths[index(t, d, label)]; got != want {
			t.Errorf("%s is at %s, want %s", label, got, want)
		}
	}
	if all := program.AcquirePaths(d); len(all) != len(d.Acquisitions()) || all[0] != "acquire[0]" || all[5] != "steps[0].acquire[0]" {
		t.Errorf("acquire entries are at %v", all)
	}
}

// TestCompiled_ReferencesIncludeAllExpressions: references include what repeat.while, parameters and
// executeOnParameters read.
func TestCompiled_ReferencesIncludeAllExpressions(t *testing.T) {
	d, c := everything(t)
	for label, want := range map[string]string{
		"inventory": "[] []", "rounds": "[check inventory] []", "upgrade": "[inventory] []", "check": "[check] []",
		"inner": "[] []", "child": "[upgrade] []", "aside": "[child] [rounds]",
	} {
		r := c.References(index(t, d, label))
		if got := fmt.Sprint(r.Labels, r.Steps); got != want {
			t.Errorf("%s reads %s, want %s", label, got, want)
		}
	}
}

// TestCompiled_WaitsForStepThatIsReadAsWhole: a step that reads all results of another step, or its
// status, waits until that step has ended for every entity.
func TestCompiled_WaitsForStepThatIsReadAsWhole(t *testing.T) {
	_, c := compile(t, head+`steps:
  - {label: a, functionBlock: p/b, runOn: d}
  - {label: b, functionBlock: p/b, runOn: d, condition: a.result.ok, repeat: {while: "b.results.all(k, true)"}}
  - {label: c, functionBlock: p/b, runOn: d, parameters: {n: "${size(a.results)}"}}
  - {label: d, functionBlock: p/b, runOn: d, assert: steps.b.status == "COMPLETED"}
  - {label: e, functionBlock: p/b, runOn: d, condition: 'steps[entity.x].status == ""'}
`)
	for _, test := range []struct {
		step  int
		among []int
		want  bool
	}{
		{1, []int{0}, false}, {1, []int{0, 1}, false}, {2, []int{0, 1}, true}, {2, []int{1}, false},
		{3, []int{1}, true}, {3, []int{0}, false}, {4, []int{0}, true}, {4, []int{4}, false}, {0, []int{1, 2, 3, 4}, false},
	} {
		if got := c.WaitsForStep(test.step, test.among); got != test.want {
			t.Errorf("step %d among %v: %v", test.step, test.among, got)
		}
	}
}

// TestCompiled_RepeatWhileSeesStepRun: repeat.while sees the results of the step run.
func TestCompiled_RepeatWhileSeesStepRun(t *testing.T) {
	d, c := everything(t)
	results := expr.Results{"check": {"a": raw(`{"ok":true}`), "b": raw(`{"ok":false}`)}}
	s := expr.Scope{Context: expr.NewStepContext(nil, results, nil, nil), Entity: &expr.Entity{Type: "device", ID: "a"}}
	check, rounds, upgrade := index(t, d, "check"), index(t, d, "rounds"), index(t, d, "upgrade")
	if again, err := c.RepeatWhile(check, s); err != nil || again {
		t.Errorf("check on a: %v, %v", again, err)
	}
	s.Entity.ID = "b"
	if again, err := c.RepeatWhile(check, s); err != nil || !again {
		t.Errorf("check on b: %v, %v", again, err)
	}
	s.Entity.ID = "c"
	if _, err := c.RepeatWhile(check, s); err == nil {
		t.Error("a missing result has a value")
	}
	s.Entity = nil
	if again, err := c.RepeatWhile(rounds, s); err != nil || !again {
		t.Errorf("rounds: %v, %v", again, err)
	}
	if again, err := c.RepeatWhile(upgrade, s); err != nil || !again {
		t.Errorf("without a condition: %v, %v", again, err)
	}
}

// TestCompiled_RetryWhen: retry.when decides, or without one, whether the failure is retryable.
func TestCompiled_RetryWhen(t *testing.T) {
	_, c := compile(t, head+`steps:
  - {label: a, functionBlock: p/b, runOn: d, retry: {maxRetries: 1, when: "error.code == 'BUSY' && attempt < 3 || error.message.contains('again') || error.details.busy == 1"}}
  - {label: b, functionBlock: p/b, runOn: d, retry: {maxRetries: 1}}
  - {label: c, functionBlock: p/b, runOn: d, retry: {maxRetries: 1, when: error.retryable && attempt > 1}}
  - {label: e, functionBlock: p/b, runOn: d, retry: {maxRetries: 1, when: error.details.code > 5}}
`)
	if !c.HasRetryWhen(0) || c.HasRetryWhen(1) {
		t.Error("HasRetryWhen is wrong")
	}
	for _, test := range []struct {
		step, attempt int
		failure       *workflow.Failure
		want          string
	}{
		{0, 1, &workflow.Failure{Code: "BUSY"}, "true"},
		{0, 3, &workflow.Failure{Code: "BUSY", Details: raw(`{"busy":0}`)}, "false"},
		{0, 9, &workflow.Failure{Message: "try again"}, "true"},
		{0, 9, &workflow.Failure{Details: raw(`{"busy":1}`)}, "true"},
		{1, 1, &workflow.Failure{Retryable: true}, "true"},
		{1, 1, &workflow.Failure{}, "false"},
		{1, 1, nil, "false"},
		{2, 1, &workflow.Failure{Retryable: true}, "false"},
		{2, 2, &workflow.Failure{Retryable: true}, "true"},
		{3, 1, &workflow.Failure{Details: raw(`{"code":6}`)}, "true"},
		{3, 1, &workflow.Failure{Details: raw(`7`)}, "error"},
		{3, 1, nil, "error"},
	} {
		got, err := c.RetryWhen(test.step, test.attempt, test.failure)
		text := fmt.Sprint(got)
		if err != nil {
			text = "error"
		}
		if text != test.want {
			t.Errorf("step %d, attempt %d, %+v: %s, %v", test.step, test.attempt, test.failure, text, err)
		}
	}
}

// TestCompiled_SelectorIsFilled: the tokens of executeOnParameters are filled, and the result must be a
// selector that says which entities of the type, by ids that are ids.
func TestCompiled_SelectorIsFilled(t *testing.T) {
	d, c := everything(t)
	s := expr.Scope{Context: expr.NewStepContext(nil, expr.Results{"upgrade": {"b": raw("1"), "a": raw("2")}}, nil, nil)}
	got, err := c.Selector(index(t, d, "child"), s)
	if want := `{"groups":["core"],"ids":["a","b"],"query":"entity.site == \"zrh\"","type":"device"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := c.Selector(index(t, d, "aside"), s); err != nil || got != nil {
		t.Errorf("without executeOnParameters: %s, %v", got, err)
	}
	_, c = compile(t, head+`steps: [{label: a, workflowReference: {workflow: p/x, mode: dispatch, executeOnParameters: {type: d, ids: "${parameters.x}"}}}]`)
	for parameters, ok := range map[string]bool{`{"x":["a"]}`: true, `{"x":[]}`: true, `{"x":"a"}`: false, `{"x":[1]}`: false, `{}`: false,
		`{"x":null}`: false, `{"x":[null]}`: false, `{"x":[""]}`: false, `{"x":["a b"]}`: false} {
		if got, err := c.Selector(0, expr.ParameterScope(raw(parameters))); (err == nil) != ok {
			t.Errorf("%s: %s, %v", parameters, got, err)
		}
	}
}

// TestCompiled_SelectorOfACall: the filled executeOnParameters of a trigger is checked in the same way.
func TestCompiled_SelectorOfACall(t *testing.T) {
	_, c := compile(t, head+`
triggers:
  http: [{name: push, verify: {scheme: hmac, secret: hooks/push}, parameters: {}, executeOnParameters: {type: d, ids: "${body.ids}"}}]
steps: [{label: a, set: {x: 1}}]`)
	for body, want := range map[string]string{
		`{"ids":["a"]}`: "", `{"ids":[]}`: "", `{"ids":""}`: "lists of texts", `{"ids":[1]}`: "lists of texts",
		`{"ids":null}`: "say which entities", `{"ids":[null]}`: `ids[0] is not an id: ""`, `{"ids":["a","b c"]}`: `ids[1] is not an id: "b c"`,
	} {
		_, err := c.Triggered("push", program.Call{Body: raw(body)})
		var e *workflow.Error
		text := ""
		if errors.As(err, &e) {
			text = fmt.Sprint(e.Issues)
		}
		if (err == nil) != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s: %v %s, want %q", body, err, text, want)
		}
	}
}

// TestCompiled_AcquireIDs: ids are listed, or come from the parameters or from other entities.
func TestCompiled_AcquireIDs(t *testing.T) {
	d, c := everything(t)
	parameters := raw(`{"sites":["zrh","gva"],"target":"p9"}`)
	for i, want := range []string{"[a b]", "[zrh gva]", "[]", "[]", "[]", "[]"} {
		if got, err := c.AcquireIDs(i, parameters); err != nil || fmt.Sprint(got) != want {
			t.Errorf("entry %d names %v, %v; want %s", i, got, err, want)
		}
	}
	from := expr.Entity{Type: "device", ID: "sw-1", Attributes: raw(`{"ports":["p1","p2"]}`)}
	for i, want := range []string{"[]", "[]", "[sw-1:p1 sw-1:p2]", "[p9]"} {
		if got, err := c.ExpandIDs(i, parameters, from, nil); err != nil || fmt.Sprint(got) != want {
			t.Errorf("entry %d expands to %v, %v; want %s", i, got, err, want)
		}
	}
	if got, err := c.AcquireParameters(4, parameters); err != nil || string(got) != `{"near":["zrh","gva"],"t":"{{ ${x} }}"}` {
		t.Errorf("parameters of the block: %s, %v", got, err)
	}
	if got, err := c.AcquireParameters(0, parameters); err != nil || string(got) != `{}` {
		t.Errorf("parameters of an entry without a block: %s, %v", got, err)
	}
	for _, bad := range []string{`{}`, `{"sites":"zrh"}`, `{"sites":[1]}`, `{"sites":["a/b"]}`, `{"sites":[""]}`} {
		if got, err := c.AcquireIDs(1, raw(bad)); err == nil || !strings.Contains(err.Error(), "parameters.sites") {
			t.Errorf("%s: %v, %v, want an error that names the expression", bad, got, err)
		}
	}
	from.Attributes = nil
	if got, err := c.ExpandIDs(2, parameters, from, nil); err == nil {
		t.Errorf("a missing attribute gives %v", got)
	}
	if d.Acquisitions()[5].StepIndex != 0 {
		t.Error("the last entry does not belong to the step")
	}
}

// TestCompiled_StartWhen: the condition sees parameters, the time and the inventory.
func TestCompiled_StartWhen(t *testing.T) {
	_, c := everything(t)
	lookups := 0
	open := `{"open":true}`
	lookup := func(entityType, id string) (json.RawMessage, bool) {
		lookups++
		return raw(open), entityType == "site" && id == "zrh"
	}
	late, early := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	if ok, err := c.StartWhen(nil, late, lookup); err != nil || !ok || lookups != 1 {
		t.Errorf("%v, %v, %d lookups", ok, err, lookups)
	}
	if ok, err := c.StartWhen(nil, early, lookup); err != nil || ok {
		t.Errorf("too early: %v, %v", ok, err)
	}
	open = `{"open":false}`
	if ok, err := c.StartWhen(nil, late, lookup); err != nil || ok {
		t.Errorf("closed: %v, %v", ok, err)
	}
	_, c = compile(t, head+"config: {startWhen: \"entity('site', parameters.site).id == 'zrh' && entity('site', parameters.site).x == 1\"}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]")
	lookups, open = 0, `{"x":1}`
	if ok, err := c.StartWhen(raw(`{"site":"zrh"}`), late, lookup); err != nil || !ok || lookups != 1 {
		t.Errorf("%v, %v, %d lookups", ok, err, lookups)
	}
	if _, err := c.StartWhen(raw(`{"site":"gva"}`), late, lookup); err == nil || !strings.Contains(err.Error(), "site/gva") {
		t.Errorf("an unknown entity: %v", err)
	}
	if _, err := c.StartWhen(raw(`{"site":1}`), late, lookup); err == nil {
		t.Error("a number is accepted as an id")
	}
	if _, err := c.StartWhen(raw(`{"site":"zrh"}`), late, nil); err == nil {
		t.Error("the condition has a value without an inventory")
	}
	_, c = compile(t, head+"config: {startWhen: \"parameters.ids.all(i, entity('d', i).type == 'd')\"}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]")
	all := func(string, string) (json.RawMessage, bool) { return nil, true }
	ids, err := json.Marshal(map[string][]string{"ids": strings.Split(strings.Repeat("a ", 100)+"b", " ")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := c.StartWhen(ids, late, all); err != nil || !ok {
		t.Errorf("one entity many times: %v, %v", ok, err)
	}
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprint("x", i))
	}
	if ids, err = json.Marshal(map[string][]string{"ids": many}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartWhen(ids, late, all); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many entities: %v", err)
	}
	_, c = compile(t, head+"steps: [{label: a, functionBlock: p/b, runOn: global}]")
	if ok, err := c.StartWhen(nil, late, nil); err != nil || !ok {
		t.Errorf("without a condition: %v, %v", ok, err)
	}
}

// TestCompiled_NotBefore: the time is written out, or comes from the parameters.
func TestCompiled_NotBefore(t *testing.T) {
	for _, test := range []struct{ notBefore, parameters, want string }{
		{`"2030-01-31T08:00:00+01:00"`, `{}`, "2030-01-31T07:00:00Z"},
		{`"${parameters.at}"`, `{"at":"2030-01-31T08:00:00Z"}`, "2030-01-31T08:00:00Z"},
		{`"${parameters.day}T08:00:00Z"`, `{"day":"2030-01-31"}`, "2030-01-31T08:00:00Z"},
		{`"${timestamp(parameters.at) + duration('1h')}"`, `{"at":"2030-01-31T08:00:00Z"}`, "2030-01-31T09:00:00Z"},
		{`"${parameters.at}"`, `{"at":"tomorrow"}`, "error"},
		{`"${parameters.at}"`, `{"at":5}`, "error"},
		{`"${parameters.at}"`, `{}`, "error"},
	} {
		_, c := compile(t, head+"config: {notBefore: "+test.notBefore+"}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]")
		at, err := c.NotBefore(raw(test.parameters))
		got := at.Format(time.RFC3339)
		if err != nil {
			got = "error"
		}
		if got != test.want {
			t.Errorf("%s with %s: %s, %v", test.notBefore, test.parameters, got, err)
		}
	}
	_, c := compile(t, head+"steps: [{label: a, functionBlock: p/b, runOn: global}]")
	if at, err := c.NotBefore(nil); err != nil || !at.IsZero() {
		t.Errorf("without notBefore: %s, %v", at, err)
	}
}

// Secrets are filled in where the definition has them, and nowhere else. A label or an item of the
// name hides them.
func TestCompiled_FillsSecretsByPlace(t *testing.T) {
	d, c := compile(t, head+`steps:
  - {label: call, functionBlock: a/b, runOn: global, parameters: {n: 12345678901234567890, a: ["x", "$${y} ${secret.k}${secret.team/k-2}"], same: "${parameters.same}", text: "$${secret.k}"}, rawParameters: {raw: "${secret.k}"}}
  - {label: other, functionBlock: a/b, runOn: global, parameters: {a: "$${secret.k}"}}
  - {label: template, functionBlock: a/b, runOn: global, input: {template: {a: "${secret.k}"}}}
`)
	at := index(t, d, "call")
	planned, err := c.Parameters(at, expr.Scope{Context: expr.NewStepContext(raw(`{"same":"${secret.k}"}`), nil, nil, nil)})
	const want = `{"a":["x","${y} ${secret.k}${secret.team/k-2}"],"n":12345678901234567890,"raw":"${secret.k}","same":"${secret.k}","text":"${secret.k}"}`
	if err != nil || string(planned) != want {
		t.Errorf("planned %s, %v", planned, err)
	}
	filled, err := workflow.FillSecrets(planned, c.Secrets(at), func(name string) string { return `<"` + name + `>` })
	if err != nil || string(filled) != `{"a":["x","${y} <\"k><\"team/k-2>"],"n":12345678901234567890,"raw":"${secret.k}","same":"${secret.k}","text":"${secret.k}"}` {
		t.Errorf("filled %s, %v", filled, err)
	}
	if c.Secrets(index(t, d, "other")) != nil || len(c.Secrets(index(t, d, "template"))) != 1 {
		t.Errorf("secrets %v, %v", c.Secrets(index(t, d, "other")), c.Secrets(index(t, d, "template")))
	}
	if d, _ := compile(t, head+`steps: [{label: one, functionBlock: a/b, runOn: global, parameters: {a: "${secret.k}"}}]`); d.Schema() != 2 {
		t.Error("an older release would call the block with the reference")
	}
	if got := fmt.Sprint(program.SecretNames(d)); got != "[k team/k-2]" {
		t.Errorf("names %s", got)
	}
	d, c = compile(t, head+`steps: [{label: items, functionBlock: a/b, runOn: item, foreach: {items: "${[{'k': 1}]}", as: secret}, parameters: {a: "${secret.k}"}}]`)
	if c.Secrets(0) != nil || program.SecretNames(d) != nil {
		t.Errorf("an item is a secret: %v", c.Secrets(0))
	}
}

// The token of a callback is filled in where the definition has it, and nowhere else: not where a
// value happens to be the same text. Numbers keep their digits.
func TestCompiled_FillsCallbackTokenByPlace(t *testing.T) {
	d, c := compile(t, head+`steps:
  - label: ask
    functionBlock: a/b
    runOn: global
    parameters: {n: 12345678901234567890, a: "${callback.token}", "b.c": [1, {"0": "${callback.token}"}], link: {to: "${callback.url}"}, same: "${parameters.same}", sameLink: "$${callback.url}", text: "$${callback.token}"}
    rawParameters: {raw: "${callback.token}"}
    callback: {}
  - {label: other, functionBlock: a/b, runOn: global, parameters: {a: "$${callback.token}"}}
  - {label: token, functionBlock: a/b, runOn: global, parameters: {a: "${callback.token}"}, callback: {}}
  - {label: link, functionBlock: a/b, runOn: global, parameters: {a: ["${callback.url}"]}, callback: {}}
  - {label: none, functionBlock: a/b, runOn: global, parameters: {a: "$${callback.url}"}, callback: {}}
`)
	at := index(t, d, "ask")
	s := expr.Scope{Context: expr.NewStepContext(raw(`{"same":"${callback.token}"}`), nil, nil, nil)}
	planned, err := c.Parameters(at, s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":"${callback.token}","b.c":[1,{"0":"${callback.token}"}],"link":{"to":"${callback.url}"},"n":12345678901234567890,"raw":"${callback.token}","same":"${callback.token}","sameLink":"${callback.url}","text":"${callback.token}"}`
	if string(planned) != want {
		t.Errorf("planned %s", planned)
	}
	filled, err := c.FillCallbackToken(at, planned, `to"ken`, `https://a#to"ken`)
	if err != nil || string(filled) != `{"a":"to\"ken","b.c":[1,{"0":"to\"ken"}],"link":{"to":"https://a#to\"ken"},"n":12345678901234567890,"raw":"${callback.token}","same":"${callback.token}","sameLink":"${callback.url}","text":"${callback.token}"}` {
		t.Errorf("filled %s, %v", filled, err)
	}
	for _, other := range []string{`{}`, `{"a":"x"}`, `[]`, `{"a":"${callback.token}","b.c":[1]}`, `{"a":"${callback.token}","b.c":{"1":2}}`, `{"a":{}}`} {
		if filled, err := c.FillCallbackToken(at, raw(other), "token", "link"); err == nil {
			t.Errorf("%s: filled %s", other, filled)
		}
	}
	if !c.HasCallbackToken(at) || c.HasCallbackToken(index(t, d, "other")) || c.HasCallbackToken(index(t, d, "none")) {
		t.Error("the wrong step has a token")
	}
	if link := index(t, d, "link"); !c.HasCallbackToken(link) || !c.HasCallbackURL(link) || !c.HasCallbackURL(at) || c.HasCallbackURL(index(t, d, "token")) || c.HasCallbackURL(index(t, d, "none")) {
		t.Error("the wrong step has a link")
	}
}
