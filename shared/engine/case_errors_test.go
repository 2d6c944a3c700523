package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// stepsOf returns the step runs of an execution as they are shown, by label: the last of each.
func stepsOf(t *testing.T, s *harness.Harness, id string) map[string]views.StepView {
	t.Helper()
	list, err := s.Query.Steps(t.Context(), harness.Caller, id, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]views.StepView{}
	for _, v := range list.Items {
		steps[v.Step] = v
	}
	return steps
}

// caseErrorsOf are the numbers of the cases that the exit of a step names in the history.
func caseErrorsOf(t *testing.T, s *harness.Harness, id, step string) (cases []int) {
	t.Helper()
	for _, e := range s.History(id) {
		if e.Type != string(sm.EventStepExited) || e.Step != step {
			continue
		}
		var data struct {
			CaseErrors []int `json:"caseErrors"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, data.CaseErrors...)
	}
	return cases
}

func expectCaseErrors(t *testing.T, shown []views.CaseError, step, path string, cases ...int) {
	t.Helper()
	var numbers []int
	for _, e := range shown {
		numbers = append(numbers, e.Number)
		if e.Step != step || e.When == nil || !strings.Contains(*e.When, path) || e.Message == nil || !strings.Contains(*e.Message, path) {
			t.Errorf("case %d of %q: %v, %v", e.Number, e.Step, e.When, e.Message)
		}
	}
	if shown == nil || !slices.Equal(numbers, cases) {
		t.Errorf("cases %v, want %v", shown, cases)
	}
}

// A switch names the conditions before the case that was taken that had no value.
func TestSwitch_NamesConditionsWithoutAValue(t *testing.T) {
	s, id, calls := flow(t, `steps:
  - label: route
    switch:
      - {when: parameters.totl > 4, steps: [{label: never, functionBlock: "p/pure:1", runOn: global}]}
      - {when: parameters.n > 9, next: b}
      - {when: parameters.totl.x == 1, next: b}
      - {default: true, steps: [{label: a, functionBlock: "p/pure:1", runOn: global}]}
  - {label: b, functionBlock: "p/pure:1", runOn: global}
  - {label: clear, switch: [{when: parameters.n == 5, next: end}, {when: parameters.totl > 1, next: end}, {default: end}]}
`, `{"n":5}`, nil)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, calls, "a {}", "b {}")
	steps := stepsOf(t, s, id)
	expectCaseErrors(t, steps["route"].CaseErrors, "route", "totl", 1, 3)
	if in := caseErrorsOf(t, s, id, "route"); !slices.Equal(in, []int{1, 3}) {
		t.Errorf("the history names the cases %v", in)
	}
	for _, other := range []string{"a", "clear"} { // clear has taken the case before
		if e := steps[other].CaseErrors; e == nil || len(e) > 0 || caseErrorsOf(t, s, id, other) != nil {
			t.Errorf("%s: %v", other, e)
		}
	}
}

// If no onFailure handles a failure, or only the default does, the conditions without a value are
// named, whichever step has them.
func TestOnFailure_NamesConditionsWithoutAValue(t *testing.T) {
	for name, last := range map[string]string{"handled": "{next: end}", "not handled": `{when: error.code == "OTHER", next: end}`} {
		t.Run(name, func(t *testing.T) {
			s, id, _ := flow(t, `steps:
  - label: outer
    onFailure: [{when: error.detail.x == 1, next: end}, `+last+`]
    workflow:
      steps:
        - label: inner
          functionBlock: p/pure:1
          runOn: global
          onFailure: [{when: error.code == "OTHER", next: end}]
`, "", func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "NO"} })
			want := sm.ExecutionCompletedAck
			if name == "not handled" {
				want = sm.ExecutionFailedSafeAck
			}
			s.ExpectState(id, want)
			expectCaseErrors(t, stepsOf(t, s, id)["inner"].CaseErrors, "outer", "detail", 1)
			if in := caseErrorsOf(t, s, id, "inner"); !slices.Equal(in, []int{1}) {
				t.Errorf("the history names the cases %v", in)
			}
		})
	}
}

// However many conditions have no value, and however long they are, a step run keeps little of them.
func TestSwitch_KeepsLittleOfConditionsWithoutAValue(t *testing.T) {
	var cases []string
	for i := range 40 {
		cases = append(cases, fmt.Sprintf("{when: parameters.%s%d.x == 1, next: end}", strings.Repeat("long", 100), i))
	}
	s, id, _ := flow(t, "steps:\n  - {label: route, switch: ["+strings.Join(cases, ", ")+", {default: end}]}\n", "", nil)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	kept := s.Load(id).StepRuns[0].CaseErrors
	if len(kept) != workflow.MaxCaseErrors {
		t.Errorf("%d are kept", len(kept))
	}
	for _, e := range kept {
		if len(e.Message) == 0 || len(e.Message) > workflow.MaxCaseErrorText {
			t.Errorf("a text of %d bytes", len(e.Message))
		}
	}
}
