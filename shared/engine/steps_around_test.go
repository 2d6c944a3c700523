package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// aroundOf returns what distinguishes the step runs of an execution, in order: STEP within branch
// index item.
func aroundOf(t *testing.T, s *harness.Harness, id string) (lines []string) {
	t.Helper()
	list, err := s.Query.Steps(t.Context(), harness.Caller, id, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[int]string{}
	for _, v := range list.Items {
		labels[v.Sequence] = v.Step
		line := v.Step
		if v.Kind != nil && *v.Kind == workflow.JobRollback {
			line = "undo " + line
		}
		if v.Within != nil {
			line += " in " + labels[*v.Within]
		}
		if v.Branch != nil {
			line += " branch " + *v.Branch
		}
		if v.Index != nil {
			line += fmt.Sprintf(" index %d", *v.Index)
		}
		if v.Item != nil {
			line += " item " + *v.Item
		}
		lines = append(lines, line)
	}
	return lines
}

// The step runs of loops and branches, in each other, with a list that is stored apart.
func TestSteps_TellWhereTheyWereEntered(t *testing.T) {
	const pure = `functionBlock: "p/pure:1", runOn: global`
	s, id, _ := flow(t, `steps:
  - label: sites
    loop: {over: "${parameters.sites}", as: site}
    workflow:
      steps:
        - label: both
          parallel:
            branches:
              - {label: left, steps: [{label: tries, loop: {while: "index < 2", max: 5}, workflow: {steps: [{label: a, `+pure+`}]}}]}
              - {label: right, steps: [{label: choose, switch: [{default: true, steps: [{label: b, `+pure+`}]}]}]}
        - {label: last, functionBlock: "p/once:1", runOn: global}
  - {label: behind, `+pure+`}
  - {label: fails, functionBlock: "p/once:1", runOn: global}
`, `{"sites":[{"id":"zrh","note":"`+strings.Repeat("x", 2000)+`"},"ber"]}`, func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "fails" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Step != "fails" {
		t.Fatalf("%+v", x.Error)
	}
	if list := s.Load(id).StepRuns[0].List; list == nil || list.Stored == nil {
		t.Error("the list is not stored apart")
	}
	got := map[string]int{}
	for _, line := range aroundOf(t, s, id) {
		got[line]++
	}
	for line, n := range map[string]int{
		"sites":                                        1,
		"both in sites index 0 item zrh":               1,
		"both in sites index 1 item ber":               1,
		"tries in both branch left index 0 item zrh":   1,
		"a in tries branch left index 0":               2, // of the loop around it, once for each site
		"a in tries branch left index 1":               2,
		"choose in both branch right index 1 item ber": 1,
		"b in both branch right index 1 item ber":      1,
		"last in sites index 1 item ber":               1,
		"undo last in sites index 0 item zrh":          1,
		"undo last in sites index 1 item ber":          1,
		"behind":                                       1,
	} {
		if got[line] != n {
			t.Errorf("%q: %d times, want %d in %v", line, got[line], n, got)
		}
	}
}

// The list of a loop is read once for a page, however many of its step runs are on it.
func TestCost_OfStepsInALoop(t *testing.T) {
	reads := func(items int) (units float64) {
		s, id, _ := flow(t, `steps:
  - {label: l, loop: {over: "${parameters.items}", as: site}, workflow: {steps: [{label: a, set: {x: 1}}]}}
`, `{"items":["`+strings.Repeat("x", 2000)+strings.Repeat(`","b`, items-1)+`"]}`, nil)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		before := s.Consumed()
		if lines := aroundOf(t, s, id); len(lines) != items+1 || !strings.HasSuffix(lines[2], "index 1 item b") {
			t.Errorf("%v", lines)
		}
		for table, n := range s.Consumed().ReadUnits {
			units += n - before.ReadUnits[table]
		}
		return units
	}
	if few, many := reads(2), reads(12); many > few+1 {
		t.Errorf("%.1f units for a loop of 12, %.1f for one of 2", many, few)
	}
}

// A step shows what it has waited for, who has answered, and whether its deadline came first.
func TestSteps_TellForWhatTheyWaited(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `steps:
  - {label: pause, wait: {for: 1h}}
  - {label: late, wait: {signal: {name: paid, deadline: 1h, onTimeout: {answer: {paid: false}}}}}
  - {label: never, wait: {input: {title: Really?, deadline: 1h, onTimeout: {next: ask}}}}
  - {label: ask, wait: {input: {title: Go on?, deadline: 24h}}}
  - {label: plain, set: {x: 1}}
`)
	id := s.StartWith(harness.NewStartRequest("w"))
	s.RunFor(3*time.Hour + time.Minute)
	w := stepsOf(t, s, id)["ask"].Wait
	if w == nil || w.Kind != workflow.WaitInput || !w.Open || w.Lapsed || w.Need != 1 || *w.Reason != "Go on?" || len(w.Answers) != 0 || w.Until.Sub(w.Since) != 24*time.Hour {
		t.Errorf("%+v", w)
	}
	if _, err := s.Engine.Answer(t.Context(), harness.Caller, id, views.AnswerRequest{Input: []byte(`{"ok":true}`)}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	steps := stepsOf(t, s, id)
	for label, want := range map[string]string{"pause": "TIMER false ", "late": "SIGNAL true paid", "never": "INPUT true Really?", "ask": "INPUT false Go on?"} {
		w := steps[label].Wait
		if w == nil {
			t.Errorf("%s has not waited", label)
			continue
		}
		reason := ""
		if w.Reason != nil {
			reason = *w.Reason
		}
		if got := fmt.Sprintf("%s %v %s", w.Kind, w.Lapsed, reason); got != want || w.Open {
			t.Errorf("%s: %s, open %v, want %s", label, got, w.Open, want)
		}
	}
	if a := steps["ask"].Wait.Answers; len(a) != 1 || a[0].By != harness.Caller.Actor {
		t.Errorf("%+v", a)
	}
	if steps["plain"].Wait != nil {
		t.Errorf("%+v", steps["plain"].Wait)
	}
}
