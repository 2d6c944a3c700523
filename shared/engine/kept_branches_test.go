package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// failing fails the steps that are named, and gives the label of the others.
func failing(fail map[string]bool) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		if fail[c.Step] && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: []byte(`{"` + c.Step + `":1}`)}
	}
}

func mended(t *testing.T, s *harness.Harness, id string, req views.RetryRequest) {
	t.Helper()
	req.Reason = "mended"
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, req); err != nil {
		t.Fatal(err)
	}
	settle(s)
}

// executed counts how often a block was called to execute a step.
func executed(s *harness.Harness, id, step string) int {
	return strings.Count(strings.Join(s.CallsOf(id), "|")+"|", step+" EXECUTE")
}

// A branch that has ended well is not executed again, and what it gave is merged and read.
func TestKeptBranches_AreNotExecutedAgain(t *testing.T) {
	fail := map[string]bool{"bad": true}
	s, id, _ := flow(t, `steps:
  - {label: before, set: {n: 1}}
  - label: gather
    parallel:
      branches:
        - {label: good, steps: [{label: pay, functionBlock: p/forever:1, runOn: global, outputKey: paid}, {label: mark, set: {marked: "${vars.n + 1}"}}, {label: tell, functionBlock: p/pure:1, runOn: global, parameters: {m: "${vars.marked}"}}]}
        - {label: broken, steps: [{label: first, functionBlock: p/pure:1, runOn: global, parameters: {sees: "${has(vars.marked)}"}}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
    outputKey: all
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {all: "${vars.all}", marked: "${vars.marked}", paid: "${vars.paid}", good: "${gather.branches.good}"}}
`, "", failing(fail))
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["bad"] = false
	mended(t, s, id, views.RetryRequest{})
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	for step, want := range map[string]int{"pay": 1, "tell": 1, "first": 2, "bad": 2, "last": 1} {
		if n := executed(s, id, step); n != want {
			t.Errorf("%s was executed %d times, want %d: %v", step, n, want, s.CallsOf(id))
		}
	}
	calls := callsWithParameters(s, id)
	if want := `last {"all":{"bad":1,"tell":1},"good":{"tell":1},"marked":2,"paid":{"pay":1}}`; calls[len(calls)-1] != want {
		t.Errorf("%s, want %s", calls[len(calls)-1], want)
	}
	if !slices.Contains(calls, `first {"sees":false}`) || slices.Contains(calls, `first {"sees":true}`) {
		t.Errorf("a branch sees another: %v", calls)
	}
	kept := ""
	for _, e := range x.Events {
		if e.Type == string(sm.EventExecutionRetried) {
			kept = string(e.Data)
		}
	}
	if !strings.Contains(kept, `"kept":["good"]`) {
		t.Errorf("the history does not say what is kept: %s", kept)
	}
}

// Several tries after each other, each of which keeps what those before it did.
func TestKeptBranches_OfSeveralTries(t *testing.T) {
	fail := map[string]bool{"b": true, "c": true, "last": true}
	s, id, _ := flow(t, `steps:
  - label: gather
    parallel: {allowPartial: true, minimum: 3, branches: [{label: l, functionBlock: p/once:1, runOn: global}, {label: m, steps: [{label: b, functionBlock: p/pure:1, runOn: global}, {label: b2, functionBlock: p/forever:1, runOn: global}]}, {label: r, steps: [{label: c, functionBlock: p/pure:1, runOn: global}]}]}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {r: "${gather.result}"}}
config: {rollback: never}
`, "", failing(fail))
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["b"] = false
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["c"] = false
	mended(t, s, id, views.RetryRequest{From: "gather"})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["last"] = false
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	for step, want := range map[string]int{"l": 1, "b": 3, "b2": 1, "c": 2, "last": 2} {
		if n := executed(s, id, step); n != want {
			t.Errorf("%s was executed %d times, want %d: %v", step, n, want, s.CallsOf(id))
		}
	}
	calls := callsWithParameters(s, id)
	if want := `last {"r":{"b2":1,"c":1,"l":1}}`; calls[len(calls)-1] != want {
		t.Errorf("%s, want %s", calls[len(calls)-1], want)
	}
}

// What a rollback has undone is done again, and what was kept is undone once.
func TestKeptBranches_AndRollback(t *testing.T) {
	fail := map[string]bool{"bad": true}
	definition := `steps:
  - label: gather
    parallel: {branches: [{label: look, functionBlock: p/pure:1, runOn: global}, {label: do, functionBlock: p/once:1, runOn: global}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`
	s, id, _ := flow(t, definition, "", failing(fail))
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	fail["bad"] = false
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if look, do := executed(s, id, "look"), executed(s, id, "do"); look != 1 || do != 2 {
		t.Errorf("look %d, do %d: %v", look, do, s.CallsOf(id))
	}

	// The rollback of a later try undoes what the first has done, once.
	fail = map[string]bool{"bad": true, "last": true}
	s, id, _ = flow(t, definition+"config: {rollback: never}\n", "", failing(fail))
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["bad"] = false
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if do := executed(s, id, "do"); do != 1 {
		t.Errorf("do %d: %v", do, s.CallsOf(id))
	}

	fail = map[string]bool{"bad": true, "last": true}
	s, id, _ = flow(t, strings.Replace(definition, "{label: do, f", "{label: more, functionBlock: p/forever:1, runOn: global}, {label: do, f", 1), "", failing(fail))
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["bad"] = false
	mended(t, s, id, views.RetryRequest{})
	if x = s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Error.Step != "last" {
		t.Errorf("%+v", x.Error)
	}
	if do, more := executed(s, id, "do"), executed(s, id, "more"); do != 1 || more != 1 {
		t.Errorf("do %d, more %d: %v", do, more, s.CallsOf(id))
	}
}

// A rollback undoes the step runs of kept branches with those of the try that keeps them, newest first, and each of them
// once. Here the first try ends without one, because a block asks for a change of an entity that is not held.
func TestKeptBranches_AreUndoneOnce(t *testing.T) {
	strays := true
	s, id, _ := flow(t, `steps:
  - label: gather
    parallel:
      branches:
        - {label: good, steps: [{label: do, functionBlock: p/once:1, runOn: global}, {label: more, functionBlock: p/once:1, runOn: global}]}
        - {label: broken, steps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: global}, {label: bad, functionBlock: p/pure:1, runOn: global}, {label: after, functionBlock: p/once:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
`, "", func(c harness.BlockCall) *harness.Outcome {
		switch {
		case c.Step == "bad" && strays:
			return &harness.Outcome{Updates: []workflow.Update{{Entity: workflow.EntityKey{Type: "device", ID: "nobody"}, Remove: []string{"a"}}}}
		case c.Step == "last":
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	})
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Error.Code != workflow.FailureEntityNotHeld || strings.Contains(strings.Join(s.CallsOf(id), "|"), "ROLLBACK") {
		t.Fatalf("%+v: %v", x.Error, s.CallsOf(id))
	}
	strays = false
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	calls := s.CallsOf(id)
	first := slices.IndexFunc(calls, func(c string) bool { return strings.Contains(c, "ROLLBACK") })
	if got := strings.Join(calls[max(first, 0):], ", "); got != "after ROLLBACK, more ROLLBACK, do ROLLBACK" || executed(s, id, "do") != 1 || executed(s, id, "more") != 1 {
		t.Errorf("undone: %s; %v", got, calls)
	}
}

// Answers and signals of a branch that is kept stay: nobody is asked again.
func TestKeptBranches_KeepAnswersAndSignals(t *testing.T) {
	fail := map[string]bool{"bad": true}
	s, id := waiting(t, `steps:
  - label: gather
    parallel:
      branches:
        - {label: person, steps: [{label: ask, wait: {input: {schema: {type: object, properties: {n: {type: integer}}}}}, outputKey: said}]}
        - {label: paid, steps: [{label: hear, wait: {signal: {name: paid}}}]}
        - {label: broken, steps: [{label: pause, wait: {signal: {name: go}}}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global, parameters: {n: "${vars.said.n}", p: "${gather.branches.person.n}", s: "${gather.branches.paid.x}"}}
`, "", failing(fail))
	if err := answerStep(t, s, id, "ask", `{"n":7}`, ""); err != nil {
		t.Fatal(err)
	}
	sendSignal(t, s, id, "paid", `{"x":3}`, "k")
	sendSignal(t, s, id, "go", `{}`, "g1")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	fail["bad"] = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if open := openInputs(t, s); open != "" {
		t.Errorf("%s is asked again", open)
	}
	sendSignal(t, s, id, "go", `{}`, "g2")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	calls := callsWithParameters(s, id)
	if want := `last {"n":7,"p":7,"s":3}`; calls[len(calls)-1] != want {
		t.Errorf("%s, want %s", calls[len(calls)-1], want)
	}
}

// Where all branches have ended well, or somebody asks for all, all are executed again; a step that is
// repeated so may be asked for only.
func TestKeptBranches_AllAreExecutedAgain(t *testing.T) {
	fail := map[string]bool{"last": true}
	definition := `steps:
  - label: gather
    parallel: {branches: [{label: l, functionBlock: p/again:1, runOn: global}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: global}
config: {rollback: never}
`
	s, id, _ := flow(t, definition, "", failing(fail))
	fail["last"] = false
	mended(t, s, id, views.RetryRequest{From: "gather"})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if l := executed(s, id, "l"); l != 2 {
		t.Errorf("l was executed %d times", l)
	}

	fail = map[string]bool{"bad": true}
	s, id, _ = flow(t, definition, "", failing(fail))
	fail["bad"] = false
	mended(t, s, id, views.RetryRequest{Entities: views.RetryAll})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if l := executed(s, id, "l"); l != 2 {
		t.Errorf("l was executed %d times", l)
	}
}

// In a loop, in branches of branches, and with a switch and jumps in the branch that is kept.
func TestKeptBranches_InLoopsAndBranches(t *testing.T) {
	fail := map[string]bool{}
	s, id, _ := flow(t, `steps:
  - label: each
    loop: {over: "${[1, 2]}", as: n}
    workflow:
      steps:
        - label: gather
          parallel:
            branches:
              - label: good
                steps:
                  - {label: choose, switch: [{when: "n == 2", next: inner}, {default: true, steps: [{label: small, functionBlock: p/forever:1, runOn: global}]}]}
                  - label: inner
                    parallel: {branches: [{label: x, functionBlock: p/forever:1, runOn: global, parameters: {n: "${n}"}}, {label: y, steps: [{label: count, set: {count: "${has(vars.count) ? vars.count + 1 : 1}"}}, {label: twice, switch: [{when: vars.count % 2 == 1, next: count}, {default: true}]}]}]}
                  - {label: done, functionBlock: p/pure:1, runOn: global, parameters: {c: "${vars.count}", x: "${inner.result}"}}
              - {label: bad, functionBlock: p/pure:1, runOn: global, parameters: {n: "${n}"}}
        - {label: after, functionBlock: p/forever:1, runOn: global, parameters: {g: "${gather.result}", c: "${vars.count}"}}
`, "", func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "bad" && strings.Contains(string(c.Parameters), "2") && !fail["mended"] {
			return &harness.Outcome{FailCode: "NO"}
		}
		return &harness.Outcome{Result: []byte(`{"` + c.Step + `":1}`)}
	})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fail["mended"] = true
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	for step, want := range map[string]int{"small": 1, "x": 2, "done": 2, "bad": 3, "after": 2} {
		if n := executed(s, id, step); n != want {
			t.Errorf("%s was executed %d times, want %d: %v", step, n, want, callsWithParameters(s, id))
		}
	}
	calls := callsWithParameters(s, id)
	if want := `after {"c":4,"g":{"bad":1,"done":1}}`; calls[len(calls)-1] != want {
		t.Errorf("%s, want %s", calls[len(calls)-1], want)
	}
}

// Entities of a branch that is kept are not called again, those of one that is not keep what they did, and a
// branch that a retry has kept is left once more when the next one never got its locks.
func TestKeptBranches_OnEntities(t *testing.T) {
	fail := map[string]bool{"bad": true}
	s, id, _ := flow(t, `steps:
  - label: gather
    parallel: {branches: [{label: devices, steps: [{label: first, functionBlock: p/once:1, runOn: device}, {label: second, functionBlock: p/pure:1, runOn: device, parameters: {f: "${first.result}"}}]}, {label: bad, functionBlock: p/pure:1, runOn: global}]}
  - {label: last, functionBlock: p/pure:1, runOn: device, parameters: {f: "${first.result}", s: "${second.result}"}}
config: {rollback: never}
`, "", failing(fail))
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if _, err := s.Engine.Acknowledge(t.Context(), harness.Caller, id, "seen"); err != nil {
		t.Fatal(err)
	}
	fail["bad"] = false
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if first, second, last := executed(s, id, "first"), executed(s, id, "second"), executed(s, id, "last"); first != 3 || second != 3 || last != 3 {
		t.Errorf("first %d, second %d, last %d: %v", first, second, last, s.CallsOf(id))
	}
	if calls := callsWithParameters(s, id); !strings.HasSuffix(calls[len(calls)-1], `{"f":{"first":1},"s":{"second":1}}`) {
		t.Errorf("%v", calls)
	}
}

// Who failed in a branch that a retry executes again is left out of no other branch, neither before nor after
// that has succeeded.
func TestKeptBranches_FailureInABranchLeavesNobodyOutOfAnother(t *testing.T) {
	fail := map[string]bool{"second": true}
	s, id := waiting(t, `steps:
  - label: gather
    parallel:
      branches:
        - {label: l, steps: [{label: first, functionBlock: p/pure:1, runOn: device}, {label: second, functionBlock: p/pure:1, runOn: device}]}
        - {label: r, steps: [{label: pause, wait: {signal: {name: go}}}, {label: other, functionBlock: p/pure:1, runOn: device}]}
`, "", failing(fail))
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	fail["second"] = false
	if _, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	sendSignal(t, s, id, "go", `{}`, "k")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if first, second, other := executed(s, id, "first"), executed(s, id, "second"), executed(s, id, "other"); first != 3 || second != 6 || other != 3 {
		t.Errorf("first %d, second %d, other %d: %v", first, second, other, s.CallsOf(id))
	}
}

// A retry of entities that have failed a branch in a round of a loop begins with that round.
func TestRetry_BeginsInTheRoundOfAFailedBranch(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `steps:
- {label: first, functionBlock: p/forever:1, runOn: device}
- label: rounds
  loop: {over: "${[1, 2]}"}
  workflow:
    steps:
    - label: both
      parallel:
        allowPartial: true
        branches:
        - {label: a, steps: [{label: work, functionBlock: p/pure:1, runOn: device, parameters: {round: "${item}"}}]}
        - {label: b, steps: [{label: other, functionBlock: p/pure:1, runOn: global}]}
`)
	isMended := false
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "work" && c.Entity == "d001" && strings.Contains(string(c.Parameters), "2") && !isMended {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	isMended = true
	before := len(s.CallsOf(id))
	mended(t, s, id, views.RetryRequest{})
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if n := strings.Count(strings.Join(s.CallsOf(id)[before:], "\n"), "EXECUTE"); n != 1 {
		t.Errorf("%d calls: %q", n, s.CallsOf(id)[before:])
	}
}
