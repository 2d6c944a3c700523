package query_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const waysDefinition = `steps:
  - {label: total, set: {order.total: "${parameters.n}", note: plain}}
  - label: route
    switch:
      - {when: "vars.order.total > 100", next: last}
      - when: "vars.order.total > 10"
        next: ship
        steps:
          - label: inner
            onFailure: [{when: 'error.code == "OTHER"', next: end}, {next: note}]
            workflow: {steps: [{label: charge, functionBlock: p/again:1, runOn: device}]}
          - {label: note, functionBlock: p/pure:1, runOn: global}
      - {default: end}
  - {label: skipped, functionBlock: p/forever:1, runOn: global}
  - {label: ship, functionBlock: p/pure:1, runOn: global, next: end}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`

// wayOf returns what a step shows about where the execution went.
func wayOf(s views.StepView) string {
	text := s.Step + " " + string(s.Status)
	if s.Value != nil {
		text += " value " + string(s.Value)
	}
	if s.Route != nil {
		text += fmt.Sprintf(" route %d", s.Route.Number)
		if s.Route.When != nil {
			text += " " + *s.Route.When
		}
	}
	if s.Handled != nil {
		text += fmt.Sprintf(" handled by %s %d", s.Handled.Step, s.Handled.Number)
		if s.Handled.When != nil {
			text += " " + *s.Handled.When
		}
	}
	if s.Error != nil {
		text += " error " + s.Error.Code
	}
	if s.Next != nil {
		text += " next " + *s.Next
	}
	return text
}

func TestSteps_ShowWhereTheExecutionWent(t *testing.T) {
	for _, c := range []struct {
		n, code string
		want    []string
	}{
		{"1000", "", []string{
			`total COMPLETED value {"note":"plain","order.total":1000}`, "route COMPLETED route 1 vars.order.total > 100 next last", "last COMPLETED",
		}},
		{"1", "", []string{`total COMPLETED value {"note":"plain","order.total":1}`, "route COMPLETED route 3 next end"}},
		{"11", "", []string{
			`total COMPLETED value {"note":"plain","order.total":11}`, "route COMPLETED route 2 vars.order.total > 10 next ship",
			"inner COMPLETED", "charge COMPLETED", "note COMPLETED", "ship COMPLETED next end",
		}},
		{"11", "NO", []string{
			`total COMPLETED value {"note":"plain","order.total":11}`, "route COMPLETED route 2 vars.order.total > 10 next ship",
			"inner CASE_HANDLED handled by inner 2 error NO next note", "charge FAILED handled by inner 2 error NO", "note COMPLETED", "ship COMPLETED next end",
		}},
		{"11", "OTHER", []string{
			`total COMPLETED value {"note":"plain","order.total":11}`, "route COMPLETED route 2 vars.order.total > 10",
			`inner CASE_HANDLED handled by inner 1 error.code == "OTHER" error OTHER next end`, `charge FAILED handled by inner 1 error.code == "OTHER" error OTHER`,
		}},
	} {
		s := newHarness(t, 3, waysDefinition)
		s.Script = func(call harness.BlockCall) *harness.Outcome {
			if call.Step == "charge" && call.Kind == workflow.JobExecute && c.code != "" {
				return &harness.Outcome{FailCode: c.code}
			}
			return nil
		}
		req := harness.NewStartRequest("w", harness.DeviceIDs(3)...)
		req.Parameters = []byte(`{"n":` + c.n + `}`)
		id := s.StartWith(req)
		s.RunUntilIdle(time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		var got []string
		for _, v := range readPages(s, 2, func(p workflow.Page) (workflow.List[views.StepView], error) {
			return s.Query.Steps(context.Background(), harness.Caller, id, p)
		}) {
			got = append(got, wayOf(v))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("n = %s, %s: %s", c.n, c.code, diff)
		}
	}
}

// A value that is stored separately is loaded, and a page ends where its values become too large.
func TestSteps_ShowLargeValues(t *testing.T) {
	s := newHarness(t, 1, `steps:
  - {label: one, set: {list: "${[parameters.t, parameters.t, parameters.t, parameters.t, parameters.t, parameters.t]}"}}
  - {label: two, set: {list: "${[parameters.t, parameters.t, parameters.t, parameters.t, parameters.t, parameters.t]}"}}
  - {label: three, set: {list: "${[parameters.t, parameters.t, parameters.t, parameters.t, parameters.t, parameters.t]}"}}
`)
	req := harness.NewStartRequest("w")
	text := strings.Repeat("abcdefghij", 10_000)
	req.Parameters = []byte(`{"t":"` + text + `"}`)
	id := s.StartWith(req)
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	read := func(p workflow.Page) (workflow.List[views.StepView], error) {
		l, err := s.Query.Steps(context.Background(), harness.Caller, id, p)
		if len(l.Items) != 1 {
			t.Errorf("a page has %d values of 600 KB", len(l.Items))
		}
		return l, err
	}
	for _, v := range readPages(s, 50, read) {
		if string(v.Value) != `{"list":["`+strings.Repeat(text+`","`, 5)+text+`"]}` {
			t.Errorf("%s: a value of %d bytes", v.Step, len(v.Value))
		}
	}
}

// The history names the steps that a jump skips, the case that was taken, and the failure that was
// handled.
func TestHistory_TellsWhereTheExecutionWent(t *testing.T) {
	s := newHarness(t, 1, `steps:
  - label: charge
    functionBlock: p/pure:1
    runOn: global
    onFailure: [{when: "false", next: end}, {next: route}]
  - {label: between, set: {x: 1}}
  - {label: route, switch: [{when: "false", next: end}, {default: last}]}
  - {label: outer, workflow: {steps: [{label: inner, set: {x: 2}}]}}
  - {label: last, set: {x: 3}}
`)
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "DECLINED"} }
	id := s.Start("w")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var got []string
	for _, e := range s.History(id) {
		if e.Layer == string(sm.LayerStep) && e.Type != string(sm.EventStepEntered) {
			got = append(got, fmt.Sprint(e.Type, " ", e.Step, " ", e.From, " ", e.To, " ", string(e.Data)))
		}
	}
	want := []string{
		`step.exited charge RUNNING CASE_HANDLED {"code":"DECLINED","failed":1,"handled":2}`,
		`step.passed between PENDING SKIPPED `,
		`step.exited route RUNNING COMPLETED {"case":2}`,
		`step.passed outer PENDING SKIPPED `,
		`step.exited last RUNNING COMPLETED `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// plannedWay returns what a plan says about whether the execution reaches a step, and where it
// goes.
func plannedWay(s views.PlannedStep) string {
	text := s.Label + " " + string(s.Reached)
	if s.DecidedBy != nil {
		text += " by " + *s.DecidedBy
	}
	if s.Route != nil {
		text += fmt.Sprintf(" route %d", s.Route.Number)
	}
	if s.Next != nil {
		text += " next " + *s.Next
	}
	if s.OnFailure != nil {
		text += " fails " + string(*s.OnFailure) + ": " + s.IfFails
	}
	return text
}

const planDefinition = `steps:
  - {label: total, set: {sum: "${parameters.n * 2}"}}
  - label: route
    switch:
      - {when: CONDITION, next: last}
      - when: "true"
        steps:
          - {label: charge, functionBlock: p/again:1, runOn: device, onFailure: [{when: 'error.code == "A"', next: last}, {steps: [{label: note, functionBlock: p/forever:1, runOn: global}]}]}
  - {label: ship, functionBlock: p/pure:1, runOn: device, next: end}
  - {label: last, functionBlock: p/pure:1, runOn: device}
`

// A plan shows which steps are certain, which a choice decides, and what a failure means if
// onFailure handles it.
func TestPlan_TellsWhatAChoiceDecides(t *testing.T) {
	charge := ` fails HANDLED: onFailure of step "charge": goes on with step "last" if error.code == "A"; else goes on with step "note"`
	for condition, want := range map[string][]string{
		"vars.sum > 10": {
			"total ALWAYS", "route ALWAYS", "charge CHOICE by route" + charge,
			`note FAILURE by charge fails UNSAFE: FAILED_UNSAFE: step "note" has no rollback; nothing is rolled back then, and what these steps have changed remains: note, charge`,
			`ship CHOICE by route next end fails UNSAFE: FAILED_UNSAFE: step "note" has no rollback, if step "note" was executed; nothing is rolled back then, and what these steps have changed remains: note, charge, as far as they were executed`,
			"last CHOICE by route fails ROLLED_BACK: rolled back, then FAILED_SAFE: charge, as far as they were executed",
		},
		"parameters.n > 10": {
			"total ALWAYS", "route ALWAYS route 2", "charge ALWAYS" + charge,
			`note FAILURE by charge fails UNSAFE: FAILED_UNSAFE: step "note" has no rollback; nothing is rolled back then, and what these steps have changed remains: note, charge`,
			`ship ALWAYS next end fails UNSAFE: FAILED_UNSAFE: step "note" has no rollback, if step "note" was executed; nothing is rolled back then, and what these steps have changed remains: note, charge, as far as they were executed`,
			"last FAILURE by charge fails ROLLED_BACK: rolled back, then FAILED_SAFE: charge",
		},
		"{path: n, op: lt, value: 10}": {
			"total ALWAYS", "route ALWAYS route 1 next last", "charge NEVER" + charge,
			`note NEVER fails UNSAFE: FAILED_UNSAFE: step "note" has no rollback`,
			"ship NEVER next end fails NOTHING_LEFT: FAILED_SAFE: nothing has been changed",
			"last ALWAYS fails NOTHING_LEFT: FAILED_SAFE: nothing has been changed",
		},
	} {
		s := newPlanHarness(t, 3)
		if !strings.HasPrefix(condition, "{") {
			condition = `"` + condition + `"`
		}
		s.Publish("w", strings.Replace(planDefinition, "CONDITION", condition, 1))
		req := harness.NewStartRequest("w", harness.DeviceIDs(3)...)
		req.Parameters = []byte(`{"n":5}`)
		p, err := planOf(t, s, req)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range p.Steps {
			got = append(got, plannedWay(p.Steps[i]))
		}
		if diff := cmp.Diff(want, got); diff != "" || p.Fails {
			t.Errorf("%s: fails %v %s", condition, p.Fails, diff)
		}
		if step(t, p, "total").Effect != views.EffectSets || step(t, p, "route").Effect != views.EffectChooses {
			t.Errorf("effects %s, %s", step(t, p, "total").Effect, step(t, p, "route").Effect)
		}
	}
}

// A plan shows what happens if a wait times out, or is rejected.
func TestPlan_TellsWhatAWaitLeadsTo(t *testing.T) {
	s := newPlanHarness(t, 3)
	s.Publish("w", `steps:
  - {label: change, functionBlock: p/again:1, runOn: device}
  - {label: nap, wait: {for: 1h}}
  - {label: form, wait: {input: {deadline: 2h, onTimeout: {next: end}}}}
  - {label: vote, wait: {approval: {deadline: 24h}}}
  - {label: veto, wait: {approval: {deadline: 24h, onTimeout: {next: door}}}, continueOnError: true}
  - {label: door, wait: {signal: {name: open}}}
  - {label: ask, functionBlock: p/pure:1, runOn: global, callback: {deadline: 2h}, parameters: {token: "${callback.token}"}}
`)
	p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(3)...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range p.Steps {
		got = append(got, plannedWay(p.Steps[i]))
	}
	undone := ": rolled back, then FAILED_SAFE: change"
	if diff := cmp.Diff([]string{
		"change ALWAYS fails ROLLED_BACK" + undone,
		"nap ALWAYS",
		"form ALWAYS",
		"vote CHOICE by form fails ROLLED_BACK: if nothing has ended it within 24h0m0s, or if it is rejected" + undone,
		`veto CHOICE by form fails CONTINUES: if it is rejected: goes on after step "veto" (continueOnError), with the outcome PARTIAL`,
		"door CHOICE by veto fails ROLLED_BACK: if nothing ends it" + undone,
		"ask CHOICE by veto fails ROLLED_BACK: if its job fails, or if nothing has ended it within 2h0m0s" + undone,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// What is unknown before there are variables is named and not treated as false; what fails already
// is reported.
func TestPlan_VariablesCannotBeTold(t *testing.T) {
	s := newPlanHarness(t, 3)
	s.Publish("w", `steps:
  - {label: first, set: {x: 1}}
  - {label: second, set: {y: "${vars.x + 1}"}, condition: "vars.x > 1"}
  - {label: third, functionBlock: p/pure:1, runOn: device, condition: "context.x > 1", assert: "vars.y == 2", input: {key: x}}
  - {label: fourth, functionBlock: p/pure:1, runOn: device, condition: "context.n > 1", input: {keys: [n]}}
  - {label: fifth, switch: [{when: "parameters.n < 1", next: end}]}
  - {label: sixth, functionBlock: p/pure:1, runOn: device}
`)
	req := harness.NewStartRequest("w", harness.DeviceIDs(3)...)
	req.Parameters = []byte(`{"n":5}`)
	p, err := planOf(t, s, req)
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string][]string{"first": {}, "second": {"condition", "set"}, "third": {"condition", "assert", "parameters"}, "fourth": {}, "fifth": {}} {
		if diff := cmp.Diff(want, step(t, p, label).Unknown); diff != "" {
			t.Errorf("%s: %s", label, diff)
		}
	}
	if got := step(t, p, "third"); got.Jobs != 3 || !got.AtMost || got.Problem != nil {
		t.Errorf("third: %+v", got)
	}
	if got := step(t, p, "fourth"); got.Jobs != 3 || got.AtMost || got.Problem != nil {
		t.Errorf("fourth: %+v", got)
	}
	if got := step(t, p, "fifth"); !got.Fails || got.Problem == nil || got.Problem.Code != workflow.FailureNoRoute || !p.Fails {
		t.Errorf("fifth: %+v, fails %v", got, p.Fails)
	}
	if got := step(t, p, "sixth"); got.Reached != views.ReachedNever {
		t.Errorf("sixth: %+v", got)
	}
}

// All branches of a step are executed, concurrently.
func TestPlan_TellsOfBranches(t *testing.T) {
	s := newPlanHarness(t, 3)
	s.Publish("w", `steps:
  - label: both
    parallel:
      branches:
        - {label: left, steps: [{label: a, functionBlock: p/again:1, runOn: device}, {label: b, functionBlock: p/pure:1, runOn: device}]}
        - {label: right, steps: [{label: c, functionBlock: p/pure:1, runOn: global, next: e}, {label: d, functionBlock: p/pure:1, runOn: global}, {label: e, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`)
	p, err := planOf(t, s, harness.NewStartRequest("w", harness.DeviceIDs(3)...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range p.Steps {
		got = append(got, plannedWay(p.Steps[i]))
	}
	want := []string{
		"both ALWAYS", "a ALWAYS fails ROLLED_BACK: rolled back, then FAILED_SAFE: a", "b ALWAYS fails ROLLED_BACK: rolled back, then FAILED_SAFE: a",
		"c ALWAYS next e fails ROLLED_BACK: rolled back, then FAILED_SAFE: a, as far as they were executed",
		"d NEVER fails ROLLED_BACK: rolled back, then FAILED_SAFE: a, as far as they were executed",
		"e ALWAYS fails ROLLED_BACK: rolled back, then FAILED_SAFE: a, as far as they were executed",
		"last ALWAYS fails ROLLED_BACK: rolled back, then FAILED_SAFE: a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A step whose block has chosen the next one shows it.
func TestSteps_ShowWhatABlockChose(t *testing.T) {
	for _, next := range []string{"last", "end", "around"} {
		s := newHarness(t, 1, `steps:
  - label: around
    workflow: {steps: [{label: triage, functionBlock: p/pure:1, runOn: global}, {label: inner, functionBlock: p/pure:1, runOn: global}]}
  - {label: between, functionBlock: p/pure:1, runOn: global}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`)
		calls := 0
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if calls++; calls == 1 {
				return &harness.Outcome{Next: next}
			}
			return nil
		}
		id := s.Start("w")
		s.RunUntilIdle(time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		list := must[workflow.List[views.StepView]](s)(s.Query.Steps(context.Background(), harness.Caller, id, workflow.Page{}))
		if around, triage := list.Items[0], list.Items[1]; around.Next != nil || triage.Next == nil || *triage.Next != next {
			t.Errorf("%s: around %v, triage %v", next, around.Next, triage.Next)
		}
	}
}
