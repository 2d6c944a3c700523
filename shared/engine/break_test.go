package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// breaking lets blocks answer BREAK: those of a step, or of a step for an entity, in the call with a number.
func breaking(at map[string]int) func(harness.BlockCall) *harness.Outcome {
	calls, jobs := map[string]int{}, map[string]int{}
	return func(c harness.BlockCall) *harness.Outcome {
		if c.Kind != workflow.JobExecute {
			return nil
		}
		name := strings.TrimSpace(c.Step + " " + c.Entity)
		if jobs[c.Job] == 0 {
			calls[name]++
			jobs[c.Job] = calls[name]
		}
		n := jobs[c.Job]
		switch fails := at["fails "+name]; {
		case fails > 0 && n == fails:
			return &harness.Outcome{FailCode: "NO"}
		case at[name] > 0 && n == at[name]:
			return &harness.Outcome{Break: true}
		}
		return nil
	}
}

// calledFor says how often a block was called for a step, or for a step and each entity.
func calledFor(s *harness.Harness, id string) string {
	count, order := map[string]int{}, []string{}
	for _, c := range s.BlockCalls {
		if c.Execution != id || c.Kind != workflow.JobExecute {
			continue
		}
		name := strings.TrimSpace(c.Step + " " + c.Entity)
		if count[name]++; count[name] == 1 {
			order = append(order, name)
		}
	}
	for i, name := range order {
		order[i] = fmt.Sprint(name, ":", count[name])
	}
	return strings.Join(order, ", ")
}

// BREAK of a step without entities ends what repeats it, and no more.
func TestBreak_EndsRepetitions(t *testing.T) {
	for name, test := range map[string]struct {
		definition string
		at         map[string]int
		want       string
	}{
		"of the step":                   {"  - {label: a, functionBlock: p/pure:1, runOn: global, repeat: {count: 5}}\n  - {label: z, functionBlock: p/pure:1, runOn: global}\n", map[string]int{"a": 2}, "a:2, z:1"},
		"of the step, the last time":    {"  - {label: a, functionBlock: p/pure:1, runOn: global, repeat: {count: 2}}\n  - {label: z, functionBlock: p/pure:1, runOn: global}\n", map[string]int{"a": 2}, "a:2, z:1"},
		"of a step around":              {"  - {label: c, repeat: {count: 5}, workflow: {steps: [{label: a, functionBlock: p/pure:1, runOn: global}, {label: b, functionBlock: p/pure:1, runOn: global}]}}\n  - {label: z, functionBlock: p/pure:1, runOn: global}\n", map[string]int{"a": 2}, "a:2, b:1, z:1"},
		"of a step around, further out": {"  - {label: c, repeat: {count: 5}, workflow: {steps: [{label: d, workflow: {steps: [{label: a, functionBlock: p/pure:1, runOn: global}]}}, {label: b, functionBlock: p/pure:1, runOn: global}]}}\n", map[string]int{"a": 3}, "a:3, b:2"},
		"and not the loop around":       {"  - {label: l, loop: {over: \"${[1, 2]}\"}, workflow: {steps: [{label: a, functionBlock: p/pure:1, runOn: global, repeat: {count: 3}}, {label: b, functionBlock: p/pure:1, runOn: global}]}}\n", map[string]int{"a": 1}, "a:4, b:2"},
		"of a loop in what repeats":     {"  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: l, loop: {over: \"${[1, 2, 3]}\"}, workflow: {steps: [{label: a, functionBlock: p/pure:1, runOn: global}]}}]}}\n", map[string]int{"a": 2}, "a:5"},
		"of no branch":                  {"  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: g, parallel: {branches: [{label: x, steps: [{label: a, functionBlock: p/pure:1, runOn: global}, {label: b, functionBlock: p/pure:1, runOn: global}]}]}}]}}\n", map[string]int{"a": 1}, "a:2, b:2"},
	} {
		t.Run(name, func(t *testing.T) {
			s, id, _ := flow(t, "steps:\n"+test.definition, "", breaking(test.at))
			s.ExpectState(id, sm.ExecutionCompletedAck)
			if got := calledFor(s, id); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// BREAK of an entity takes that entity out of further repetitions; where all have left, they end. A block of
// which each job travels by itself has several lanes.
func TestBreak_OfEntities(t *testing.T) {
	d := harness.DeviceIDs(3)
	for name, test := range map[string]struct {
		definition string
		at         map[string]int
		want       string
	}{
		"one leaves": {"  - {label: a, functionBlock: BLOCK, runOn: device, repeat: {count: 3}}\n  - {label: z, functionBlock: BLOCK, runOn: device}\n",
			map[string]int{"a " + d[0]: 1}, "a 0:1, a 1:3, a 2:3, z 0:1, z 1:1, z 2:1"},
		"all leave": {"  - {label: a, functionBlock: BLOCK, runOn: device, repeat: {count: 5}}\n  - {label: z, functionBlock: BLOCK, runOn: device}\n",
			map[string]int{"a " + d[0]: 1, "a " + d[1]: 2, "a " + d[2]: 2}, "a 0:1, a 1:2, a 2:2, z 0:1, z 1:1, z 2:1"},
		"one leaves a step around": {"  - {label: c, repeat: {count: 3}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device}, {label: b, functionBlock: BLOCK, runOn: device}, {label: g, functionBlock: BLOCK, runOn: global}]}}\n  - {label: z, functionBlock: BLOCK, runOn: device}\n",
			map[string]int{"a " + d[0]: 1, "b " + d[1]: 2}, "a 0:1, a 1:2, a 2:3, b 0:1, b 1:2, b 2:3, g:3, z 0:1, z 1:1, z 2:1"},
		"all leave a step around": {"  - {label: c, repeat: {count: 6}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device}, {label: g, functionBlock: BLOCK, runOn: global}]}}\n  - {label: z, functionBlock: BLOCK, runOn: device}\n",
			map[string]int{"a " + d[0]: 1, "a " + d[1]: 2, "a " + d[2]: 2}, "a 0:1, a 1:2, a 2:2, g:2, z 0:1, z 1:1, z 2:1"},
		"of what repeats in what repeats": {"  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device, repeat: {count: 2}}]}}\n",
			map[string]int{"a " + d[0]: 1}, "a 0:3, a 1:4, a 2:4"},
		"those who take part in a step that repeats too go on": {"  - {label: c, repeat: {count: 3}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device, repeat: {count: 2}}, {label: b, functionBlock: BLOCK, runOn: device, condition: 'entity.id == \"d000\"'}]}}\n",
			map[string]int{"b " + d[0]: 1}, "a 0:2, a 1:6, a 2:6, b 0:1"},
		"of no step in it that repeats for nobody": {"  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: i, repeat: {count: 3}, workflow: {steps: [{label: g, functionBlock: BLOCK, runOn: global}]}}, {label: a, functionBlock: BLOCK, runOn: device}]}}\n",
			map[string]int{"a " + d[0]: 1}, "g:6, a 0:1, a 1:2, a 2:2"},
		"those who take part in a loop go on": {"  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: l, loop: {over: \"${[1, 2]}\"}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device}]}}, {label: b, functionBlock: BLOCK, runOn: device, condition: 'entity.id == \"d000\"'}]}}\n",
			map[string]int{"b " + d[0]: 1}, "a 0:2, a 1:4, a 2:4, b 0:1"},
		"not of a loop": {"  - {label: c, loop: {over: \"${[1, 2]}\"}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device}]}}\n",
			map[string]int{"a " + d[0]: 1}, "a 0:2, a 1:2, a 2:2"},
		"a repeated step in a loop begins anew": {"  - {label: l, loop: {over: \"${[1, 2]}\"}, workflow: {steps: [{label: c, repeat: {count: 2}, workflow: {steps: [{label: a, functionBlock: BLOCK, runOn: device}]}}]}}\n",
			map[string]int{"a " + d[0]: 1}, "a 0:3, a 1:4, a 2:4"},
	} {
		for _, block := range []string{"p/pure:1", "p/forever:1"} {
			t.Run(name+" "+block, func(t *testing.T) {
				s, id, _ := flow(t, "steps:\n"+strings.ReplaceAll(test.definition, "BLOCK", block), "", breaking(test.at))
				x := s.ExpectState(id, sm.ExecutionCompletedAck)
				if broke := slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Broke }); broke && x.Needs() != workflow.SchemaVersion {
					t.Errorf("the release before, which knows nothing of it, reads schema %d", x.Needs())
				}
				got := calledFor(s, id)
				for i := range d {
					got = strings.ReplaceAll(got, d[i], fmt.Sprint(i))
				}
				if !sameList(got, test.want) {
					t.Errorf("%s, want %s", got, test.want)
				}
			})
		}
	}
}

func sameList(a, b string) bool {
	count := map[string]int{}
	for _, one := range strings.Split(a, ", ") {
		count[one]++
	}
	for _, one := range strings.Split(b, ", ") {
		count[one]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// A retry of what failed leaves out who has left, and goes on with the others.
func TestBreak_HoldsInARetry(t *testing.T) {
	d := harness.DeviceIDs(3)
	for _, definition := range []string{
		"steps:\n  - {label: a, functionBlock: p/again:1, runOn: device, repeat: {count: 3}}\nconfig: {rollback: never}\n",
		"steps:\n  - {label: c, repeat: {count: 3}, workflow: {steps: [{label: a, functionBlock: p/again:1, runOn: device}]}}\nconfig: {rollback: never}\n",
	} {
		s, id, _ := flow(t, definition, "", breaking(map[string]int{"a " + d[0]: 1, "fails a " + d[1]: 2}))
		s.ExpectState(id, sm.ExecutionFailedUnsafe)
		retry(s, id, views.RetryRequest{Reason: "mended", Entities: views.RetryFailed})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		got := calledFor(s, id)
		for i := range d {
			got = strings.ReplaceAll(got, d[i], fmt.Sprint(i))
		}
		if !sameList(got, "a 0:1, a 1:4, a 2:3") {
			t.Errorf("%s", got)
		}
	}
}

// A retry that begins in an earlier repetition of a step around leaves out who has left there, although later ones
// have begun the repetitions anew.
func TestBreak_HoldsInARetryOfAnEarlierRepetition(t *testing.T) {
	d := harness.DeviceIDs(3)
	breaks := breaking(map[string]int{"a " + d[0]: 1, "a " + d[1]: 1, "fails b " + d[1]: 1, "fails z " + d[0]: 1})
	s, id, _ := flow(t, "steps:\n  - {label: o, repeat: {count: 2}, workflow: {steps: [{label: c, repeat: {count: 2}, workflow: {steps: [{label: a, functionBlock: p/again:1, runOn: device}, {label: b, functionBlock: p/again:1, runOn: device}]}}]}}\n"+
		"  - {label: z, functionBlock: p/again:1, runOn: device}\nconfig: {failureTolerance: 50%}\n", "", func(c harness.BlockCall) *harness.Outcome {
		if c.Kind == workflow.JobRollback && c.Step == "b" && c.Entity == d[1] {
			return &harness.Outcome{FailCode: "NO"}
		}
		return breaks(c)
	})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	retry(s, id, views.RetryRequest{Reason: "mended", Entities: views.RetryFailed})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	got := calledFor(s, id)
	for i := range d {
		got = strings.ReplaceAll(got, d[i], fmt.Sprint(i))
	}
	if !sameList(got, "a 0:5, b 0:6, z 0:2, a 1:3, b 1:4, z 1:1, a 2:7, b 2:8, z 2:1") {
		t.Errorf("%s", got)
	}
}

// Repetitions end in a retry where all whom it is about have left, whoever else took part before and was released.
func TestBreak_EndsRepetitionsOfARetryForSome(t *testing.T) {
	d, calls := harness.DeviceIDs(3), 0
	breaks := breaking(map[string]int{"a " + d[0]: 1})
	s, id, _ := flow(t, "steps:\n  - {label: x, functionBlock: p/forever:1, runOn: device}\n  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: a, functionBlock: p/again:1, runOn: device}, {label: g, functionBlock: p/again:1, runOn: global}]}}\nconfig: {failureTolerance: 50%}\n", "",
		func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "x" && c.Entity == d[0] && c.Kind == workflow.JobExecute {
				if calls++; calls == 1 {
					return &harness.Outcome{FailCode: workflow.FailureTimeout}
				}
			}
			return breaks(c)
		})
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Kept == nil || x.Kept.Len() != 1 {
		t.Fatalf("it keeps %+v", x.Kept)
	}
	retry(s, id, views.RetryRequest{Reason: "mended", Entities: views.RetryFailed})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	got := calledFor(s, id)
	for i := range d {
		got = strings.ReplaceAll(got, d[i], fmt.Sprint(i))
	}
	if !sameList(got, "x 0:2, x 1:1, x 2:1, a 0:1, a 1:2, a 2:2, g:3") {
		t.Errorf("%s", got)
	}
}

// An entity whose job is executed again in a retry, and does not answer BREAK then, goes on with the repetitions.
func TestBreak_IsForgottenWhereARetryExecutesItAgain(t *testing.T) {
	d, calls := harness.DeviceIDs(3), 0
	breaks := breaking(map[string]int{"a " + d[0]: 1})
	s, id, _ := flow(t, "steps:\n  - {label: x, functionBlock: p/forever:1, runOn: device, continueOnError: true}\n  - {label: c, repeat: {count: 2}, workflow: {steps: [{label: a, functionBlock: p/again:1, runOn: device}]}}\n", "",
		func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "x" && c.Entity == d[0] && c.Kind == workflow.JobExecute {
				if calls++; calls == 1 {
					return &harness.Outcome{FailCode: workflow.FailureTimeout}
				}
			}
			return breaks(c)
		})
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	retry(s, id, views.RetryRequest{Reason: "mended", Entities: views.RetryFailed})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	got := calledFor(s, id)
	for i := range d {
		got = strings.ReplaceAll(got, d[i], fmt.Sprint(i))
	}
	if !sameList(got, "x 0:2, x 1:1, x 2:1, a 0:3, a 1:2, a 2:2") {
		t.Errorf("%s", got)
	}
}
