package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// An execution times out while the block of its only step runs, and the block then ends OK. A retry
// would call it once more. It does so unasked only if that does no harm, or if the block was to be
// called again anyhow, because it has asked to wait.
func TestRetry_RepeatsNoStepThatWasStoppedAndEndedWell(t *testing.T) {
	for _, test := range []struct {
		block   string
		waits   bool
		refused bool
	}{{"pure", false, false}, {"once", false, false}, {"forever", false, true}, {"forever", true, false}} {
		s := newHarness(t, 1)
		s.Publish("w", "config: {timeout: 30s}\nsteps:\n  - {label: first, functionBlock: p/"+test.block+":1, runOn: global, outputKey: said}\n"+
			"  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {n: \"${first.result.n}\"}}\n")
		stopped := false
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			o := &harness.Outcome{Result: json.RawMessage(`{"n":7}`)}
			if c.Step == "first" && c.Kind == workflow.JobExecute && !stopped {
				stopped = true
				o.During = func() { s.RunFor(31 * time.Second) }
				if test.waits {
					o.Wait = &workflow.AskedWait{Until: s.Now().Add(time.Hour)}
				}
			}
			return o
		}
		id := s.Start("w", "d000")
		settle(s)
		if x := s.Load(id); x.Cause != workflow.CauseTimeout {
			t.Fatalf("%+v: %s, cause %q", test, x.State, x.Cause)
		}
		_, err := s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{})
		if test.refused {
			if !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), `retry from "first"`) {
				t.Errorf("%+v: %v", test, err)
			}
			_, err = s.Engine.Retry(t.Context(), harness.Caller, id, views.RetryRequest{From: "first"})
		}
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := callsWithParameters(s, id); got[len(got)-1] != `after {"n":7}` || strings.Count(strings.Join(got, " "), "first") != 2+strings.Count(strings.Join(s.CallsOf(id), " "), "ROLLBACK") {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// A retry begins with what failed, and would come to a later step which ended OK, and whose block
// can neither be repeated nor undone. It does so only if somebody has named the step to begin with.
func TestRetry_RepeatsNothingUnaskedBehindItsBeginning(t *testing.T) {
	for name, test := range map[string]struct {
		definition string
		fails      string // the step that fails for d001
		begins     string
		anew       bool   // it was acknowledged, and takes its locks anew
		repeats    string // the step for which the retry is refused, empty if it is not
		want       string // what it calls, of the retry that names the step
	}{
		"a step for all of them": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: note, functionBlock: p/forever:1, runOn: global}]\n",
			"push", "push", false, "note", "push d001|note ",
		},
		"one that may be repeated": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: note, functionBlock: p/pure:1, runOn: global}]\n",
			"push", "push", false, "", "push d001|note ",
		},
		"one that can be undone": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: note, functionBlock: p/once:1, runOn: global}]\n",
			"push", "push", false, "", "push d001|note ",
		},
		"results for entities are kept": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: more, functionBlock: p/forever:1, runOn: device}]\n",
			"push", "push", false, "", "push d001|more d001",
		},
		"one that a retry for all would come to": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: choose, switch: [{default: true, steps: [{label: note, functionBlock: p/pure:1, runOn: global}]}]}]\n",
			"push", "push", true, "push", "push d000|push d001|note ",
		},
		"one for entities that were released": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: choose, switch: [{default: true, steps: [{label: note, functionBlock: p/pure:1, runOn: global}]}]}]\n",
			"push", "push", false, "", "push d001|note ",
		},
		"a repetition that ended well": {
			"steps: [{label: push, functionBlock: p/pure:1, runOn: device}, {label: note, functionBlock: p/forever:1, runOn: global, repeat: {count: 2}}]\n",
			"note", "note", false, "note", "note |note ",
		},
		"an execution that has changed something": {
			"config: {failureTolerance: 1}\nsteps: [{label: push, functionBlock: p/forever:1, runOn: device}, {label: start, workflowReference: {workflow: p/child:1, mode: dispatch}}]\n",
			"push", "push", false, "start", "push d001|note ",
		},
		"one before what failed": {
			"steps: [{label: note, functionBlock: p/forever:1, runOn: global}, {label: push, functionBlock: p/forever:1, runOn: device}]\n",
			"push", "push", false, "", "push d001",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 2)
			s.Publish("child", "steps: [{label: note, functionBlock: p/forever:1, runOn: global}]\n")
			s.Publish("w", test.definition)
			mended, seen := false, 0
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Step != test.fails || c.Kind != workflow.JobExecute || mended {
					return nil
				}
				if seen++; c.Entity == "d001" || c.Entity == "" && seen > 1 {
					return &harness.Outcome{FailCode: "REFUSED"}
				}
				return nil
			}
			id := s.Start("w", harness.DeviceIDs(2)...)
			settle(s)
			before := s.ExpectState(id, sm.ExecutionFailedUnsafe)
			if test.anew {
				mustCommand(s, func(ctx context.Context) (*workflow.Execution, error) {
					return s.Engine.Acknowledge(ctx, harness.Caller, id, "seen")
				})
				before = s.Load(id)
			}
			mended, s.BlockCalls = true, nil
			request := views.RetryRequest{}
			if test.repeats != "" {
				err := retryError(s, id, request)
				if want := fmt.Sprintf("would execute step %q once more", test.repeats); !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("retry from %q", test.begins)) {
					t.Errorf("retry: %v", err)
				}
				if x := s.Load(id); x.Version != before.Version {
					t.Error("the retry was refused, and changed the execution")
				}
				request.From = test.begins
			}
			retry(s, id, request)
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			var calls []string
			for _, c := range s.BlockCalls {
				calls = append(calls, c.Step+" "+c.Entity)
			}
			if got := strings.Join(calls, "|"); got != test.want {
				t.Errorf("called %s, want %s", got, test.want)
			}
		})
	}
}

// An entity that failed in each try, and was tolerated, is executed again by each retry, even if
// that begins with the rollout.
func TestRollout_EachRetryExecutesWhatIsKept(t *testing.T) {
	for _, definition := range []string{
		"config: {failureTolerance: 1}\nsteps:\n  - {label: all, rollout: {batches: [1]}, workflow: {steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/once:1, runOn: device}]}}\n",
		"steps:\n  - {label: all, rollout: {batches: [1], failureTolerance: 1}, workflow: {steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/once:1, runOn: device}]}}\n",
		"steps:\n  - {label: first, functionBlock: p/pure:1, runOn: device}\n  - {label: all, rollout: {batches: [1], failureTolerance: 1}, workflow: {steps: [{label: two, functionBlock: p/once:1, runOn: device}, {label: check, functionBlock: p/pure:1, runOn: device}]}}\n",
	} {
		for _, others := range []int{0, 1} {
			try := 1
			s := newHarness(t, 4)
			s.Publish("w", definition)
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				fails := try < 4 && c.Step == "two" && c.Entity == "d001" || try == 1 && c.Step == "two" && c.Entity == "d002" && others == 1
				if fails || c.Entity == "d001" && c.Kind == workflow.JobRollback && try == 1 {
					return &harness.Outcome{FailCode: "NO"}
				}
				return nil
			}
			id := s.Start("w", harness.DeviceIDs(4)...)
			settle(s)
			for s.Load(id).State == sm.ExecutionFailedUnsafe && try < 6 {
				s.BlockCalls = nil
				try++
				retry(s, id, views.RetryRequest{})
				settle(s)
				if calls := s.CallsOf(id); !slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "two EXECUTE") }) {
					t.Errorf("%s: try %d has executed %v", definition, try, calls)
				}
			}
			if x := s.Load(id); x.State != sm.ExecutionCompletedAck || try < 2 {
				t.Errorf("%s: %s after try %d", definition, x.State, try)
			}
		}
	}
}

// An entity is kept because it could not be undone, and another one, in a later wave or round,
// failed, was undone and released. Each retry works on the kept one, even after it has failed once
// more.
func TestRetry_BeginsWithWhatFailedLast(t *testing.T) {
	for _, how := range []string{"rollout: {by: entity.id, failureTolerance: 1}", "rollout: {batches: [1, 2, 3, 4], failureTolerance: 1}"} {
		try := 1
		s := newHarness(t, 4)
		s.Publish("w", "config: {failureTolerance: 2}\nsteps:\n  - {label: read, functionBlock: p/pure:1, runOn: device}\n  - {label: all, "+how+
			", workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]}}\n")
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" && (c.Entity == "d002" && try < 4 || c.Entity == "d003" && try == 1 && c.Kind == workflow.JobExecute) {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		id := s.Start("w", harness.DeviceIDs(4)...)
		settle(s)
		for want := "one EXECUTE d002"; try < 4; {
			s.ExpectState(id, sm.ExecutionFailedUnsafe)
			s.BlockCalls = nil
			if try++; try == 4 {
				want = "one EXECUTE d002|two EXECUTE d002"
			}
			retry(s, id, views.RetryRequest{})
			settle(s)
			if got := strings.Join(s.CallsOf(id), "|"); got != want {
				t.Errorf("%s: try %d has executed %q, want %q", how, try, got, want)
			}
		}
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
}

// Entities have failed, which was tolerated, after a step that can neither be repeated nor undone.
// A retry continues with the step in which they failed, in a rollout and in a loop as well as
// outside of both.
func TestRetry_RepeatsNothingOfWhoWasTolerated(t *testing.T) {
	const steps = "workflow: {steps: [{label: one, functionBlock: p/forever:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]}}\n"
	for definition, test := range map[string]struct {
		failing []string
		want    string
	}{
		"":                               {[]string{"d001", "d002"}, "two d001|two d002"},
		"rollout: {batches: [1]}, ":      {[]string{"d001", "d002"}, "two d001|two d002"},
		"rollout: {batches: [1, 2]}, ":   {[]string{"d001", "d002"}, "two d001|two d002"},
		"rollout: {batches: [1, 2]},  ":  {[]string{"d002"}, "two d002"},
		`loop: {over: "${[1, 2]}"}, `:    {[]string{"d001"}, "two d001|one d001|two d001"},
		`loop: {over: "${[1, 2, 3]}"}, `: {[]string{"d002", "2 d001"}, "two d002|one d002|two d001|two d002|one d001|one d002|two d001|two d002"},
		`loop: {over: "${[1, 2]}"},  `:   {[]string{"d000", "d002"}, "two d000|two d002|one d000|one d002|two d000|two d002"},
	} {
		s := newHarness(t, 3)
		s.Publish("w", "config: {failureTolerance: 2}\nsteps:\n  - {label: all, "+definition+steps)
		failing, times := true, map[string]int{}
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" {
				times[c.Entity]++
			}
			at := strconv.Itoa(times[c.Entity]) + " " + c.Entity
			if failing && c.Step == "two" && (slices.Contains(test.failing, c.Entity) || slices.Contains(test.failing, at)) {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		}
		id := s.Start("w", harness.DeviceIDs(3)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedUnsafe)
		failing, s.BlockCalls = false, nil
		retry(s, id, views.RetryRequest{})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		var calls []string
		for _, c := range s.BlockCalls {
			calls = append(calls, c.Step+" "+c.Entity)
		}
		if got := strings.Join(calls, "|"); got != test.want {
			t.Errorf("%s: executed %s, want %s", definition, got, test.want)
		}
	}
}

// What stands of later rounds of a loop is not read in a round that is executed again: there it is
// still to come.
func TestRetry_InALoopReadsNothingOfLaterTimes(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", "config: {failureTolerance: 2}\nsteps:\n  - label: all\n    loop: {over: \"${[1, 2, 3]}\"}\n    workflow:\n      steps:\n"+
		"        - {label: one, functionBlock: p/forever:1, runOn: device}\n"+
		"        - {label: two, functionBlock: p/once:1, runOn: device, parameters: {n: \"${one.results['d001']}\"}}\n")
	failing, times := true, map[string]int{}
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" {
			times[c.Entity]++
			return &harness.Outcome{Result: json.RawMessage(strconv.Itoa(times[c.Entity]))}
		}
		if at := strconv.Itoa(times[c.Entity]) + " " + c.Entity; failing && (at == "1 d002" || at == "2 d001") {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	failing, s.BlockCalls = false, nil
	retry(s, id, views.RetryRequest{})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	var got []string
	for _, c := range s.BlockCalls {
		if c.Step == "two" && c.Kind == workflow.JobExecute {
			got = append(got, c.Entity+" "+string(c.Parameters))
		}
	}
	if want := `d002 {"n":1}|d001 {"n":2}|d002 {"n":2}|d001 {"n":3}|d002 {"n":3}`; strings.Join(got, "|") != want {
		t.Errorf("executed %v, want %s", got, want)
	}
}

// An entity has failed within the tolerance, and could not be undone. The retry for it executes an
// earlier step again, in which it fails this time. It counts as one failed entity: the retry
// continues to its end, where a person has to look at it, because of the earlier failed rollback.
func TestRetry_CountsAnEntityThatFailsEarlierOnce(t *testing.T) {
	s := newHarness(t, 2)
	fails, undoFails := "two", true
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d000" && (c.Kind == workflow.JobExecute && c.Step == fails || c.Kind == workflow.JobRollback && c.Step == "one" && undoFails) {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	s.Publish("w", "config: {failureTolerance: 1}\n"+stepsYAML("one again device", "two again device", "three pure device"))
	id := s.Start("w", "d000", "d001")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	fails, undoFails = "one", false
	retry(s, id, views.RetryRequest{})
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedUnsafe)
	if last := x.LastStepRun(); last.Label != "three" || last.Try != 2 {
		t.Errorf("it has come to %s in try %d", last.Label, last.Try)
	}
}
