package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// operatorCases has for each operator of a written condition some that are true and some that are not, of
// the parameters of everyOperator. Without a value at the path, or with one of another type, only neq, nin
// and notExists are true.
var operatorCases = []struct {
	when string
	want bool
}{
	{"path: n, op: eq, value: 5", true},
	{"path: n, op: eq, value: 6", false},
	{"path: o, op: eq, value: {deep: [a, 1.5]}", true},
	{"path: n, op: eq, value: '5'", false},
	{"path: none, op: eq, value: null", false},
	{"path: n, op: neq, value: 6", true},
	{"path: n, op: neq, value: 5", false},
	{"path: n, op: neq, value: '5'", true},
	{"path: none, op: neq, value: 5", true},
	{"path: n, op: gt, value: 4", true},
	{"path: n, op: gt, value: 5", false},
	{"path: s, op: gt, value: 4", false},
	{"path: none, op: gt, value: 4", false},
	{"path: n, op: gte, value: 5", true},
	{"path: n, op: gte, value: 5.5", false},
	{"path: o.none, op: gte, value: 0", false},
	{"path: n, op: lt, value: 5.5", true},
	{"path: n, op: lt, value: 5", false},
	{"path: s, op: lt, value: b", true},
	{"path: n, op: lt, value: b", false},
	{"path: n, op: lte, value: 5", true},
	{"path: n, op: lte, value: 4", false},
	{"path: none, op: lte, value: 4", false},
	{"path: s, op: in, value: [x, abc]", true},
	{"path: s, op: in, value: [x, ab]", false},
	{"path: none, op: in, value: [abc]", false},
	{"path: n, op: in, value: ['5']", false},
	{"path: s, op: nin, value: [x, ab]", true},
	{"path: s, op: nin, value: [x, abc]", false},
	{"path: none, op: nin, value: [abc]", true},
	{"path: s, op: contains, value: bc", true},
	{"path: s, op: contains, value: cb", false},
	{"path: list, op: contains, value: 7", true},
	{"path: list, op: contains, value: 8", false},
	{"path: n, op: contains, value: 5", false},
	{"path: none, op: contains, value: a", false},
	{"path: s, op: startsWith, value: ab", true},
	{"path: s, op: startsWith, value: b", false},
	{"path: n, op: startsWith, value: '5'", false},
	{"path: s, op: endsWith, value: bc", true},
	{"path: s, op: endsWith, value: b", false},
	{"path: list, op: endsWith, value: x", false},
	{"path: o.deep.1, op: exists", true},
	{"path: empty, op: exists", true},
	{"path: o.deep.2, op: exists", false},
	{"path: n.deep, op: exists", false},
	{"path: n.deep, op: notExists", true},
	{"path: o.deep, op: notExists", false},
	{"path: s, op: matches, value: '^a.c$'", true},
	{"path: s, op: matches, value: '^b'", false},
	{"path: n, op: matches, value: '5'", false},
}

// everyOperator: R15. Each operator leads where it says, also where there is nothing to compare. Each switch
// goes on with the next one by its default.
func everyOperator(c *fixture) {
	var steps, want []string
	used := map[string]bool{}
	for i, o := range operatorCases {
		steps = append(steps, fmt.Sprintf("label: at%d, switch: [{when: {%s}, steps: [{label: yes%d, set: {x: %d}}]}, {default: at%d}]", i, o.when, i, i, i+1))
		if want = append(want, fmt.Sprintf("at%d", i)); o.want {
			want = append(want, fmt.Sprintf("yes%d", i))
		}
		_, op, _ := strings.Cut(o.when, "op: ")
		op, _, _ = strings.Cut(op, ",")
		used[op] = true
	}
	if len(used) != 14 {
		c.t.Fatalf("%d operators, want 14", len(used))
	}
	last := fmt.Sprintf("at%d", len(operatorCases))
	c.publishWorkflow("", append(steps, "label: "+last+", set: {done: true}")...)
	id := c.startWorkflow(`{"n":5,"s":"abc","list":["x",7],"o":{"deep":["a",1.5]},"empty":null}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	got := strings.Fields(c.reached(id))
	for i, o := range operatorCases {
		if led := slices.Contains(got, fmt.Sprintf("yes%d", i)); led != o.want {
			c.t.Errorf("{%s} is %t, want %t", o.when, led, o.want)
		}
	}
	if want = append(want, last); !slices.Equal(got, want) {
		c.t.Errorf("steps %v, want %v", got, want)
	}
}

// stepsAreAdded: R10. Once something is found, the steps for that belong to this execution, also when it has
// gone back, and to no other; its history says when they were passed and when not.
func stepsAreAdded(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", "label: begin, set: {tries: 0, review: false}", `label: count, set: {tries: "${vars.tries + 1}"}`,
		`label: risk, block: echo, runOn: global, parameters: {level: "${vars.tries == 2 ? parameters.level : 'low'}"}`,
		`label: rule, set: {review: "${vars.review || risk.result.level == 'high'}"}`,
		`label: review, condition: vars.review, workflow: {steps: [{label: noted, set: {noted: "${vars.tries}"}}, {label: told, block: echo, runOn: global, parameters: {n: "${vars.noted}"}}]}`,
		`label: more, switch: [{when: vars.tries < 3, next: count}, {default: end}]`)
	round := func(review string) string { return "count risk rule review" + review + " more" }
	high, low := c.startWorkflow(`{"level":"high"}`), c.startWorkflow(`{"level":"low"}`)
	c.waitEnded(high, sm.ExecutionCompletedAck)
	c.waitEnded(low, sm.ExecutionCompletedAck)
	c.wantReached(high, "begin "+round(":SKIPPED")+" "+round(" noted told")+" "+round(" noted told"))
	c.wantReached(low, "begin "+strings.Join([]string{round(":SKIPPED"), round(":SKIPPED"), round(":SKIPPED")}, " "))
	if got := c.resultOf(high, "told"); got != `{"n":3}` {
		c.t.Errorf("the step that was added has got %s", got)
	}
	for id, want := range map[string]int{high: 1, low: 3} {
		skipped := 0
		for _, e := range c.history(id) {
			if e.Step == "review" && e.To == string(sm.StepSkipped) {
				skipped++
			}
		}
		if skipped != want {
			c.t.Errorf("the history names %d times that the steps were left out, want %d", skipped, want)
		}
	}
}

// hungBranchIsClosed: R30. A branch that hangs is closed when the time of the step is over, and the step ends
// only when nothing of it is at work: also what its job has changed is undone, where the execution fails.
func hungBranchIsClosed(c *fixture) {
	c.registerEcho()
	released := make(chan struct{})
	c.t.Cleanup(func() { close(released) })
	c.registerBlock("hangs", workflow.Block{Idempotent: true, Reversible: true, UndoHarmless: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Operation == "EXECUTE" {
			<-released
		}
		return nil
	})
	all := func(more string) string {
		return `label: all, stepTimeout: 5s, parallel: {branches: [{label: quick, block: echo, runOn: global, parameters: {q: 1}}, {label: slow, steps: [{label: hung, block: hangs, runOn: global, timeout: 30s}, {label: never, set: {x: 1}}]}]` + more + `}`
	}
	c.publishWorkflow("", all(", allowPartial: true"), `label: read, block: echo, runOn: global, parameters: {merged: "${all.result}", failed: "${all.failed.map(f, f.branch)}"}`)
	partial := c.startWorkflow("{}")
	strict := c.startRef(c.publishExtra("strict", "", all("")), "{}")
	c.waitEnded(partial, sm.ExecutionCompletedAck)
	if got := c.resultOf(partial, "read"); got != `{"failed":["slow"],"merged":{"q":1}}` {
		c.t.Errorf("after the branches: %s", got)
	}
	c.wantFailure(c.waitEnded(strict, sm.ExecutionFailedSafeAck), workflow.CauseTimeout, "TIMEOUT", "all")
	for id, calls := range map[string]string{partial: "EXECUTE , EXECUTE , EXECUTE ", strict: "EXECUTE , EXECUTE , ROLLBACK "} {
		if got := c.callsOf(id); got != calls {
			c.t.Errorf("calls %q, want %q", got, calls)
		}
		if got := c.reached(id); strings.Contains(got, "never") {
			c.t.Errorf("the branch went on: %s", got)
		}
		jobs := c.listJobs(id, views.JobFilter{Step: "hung", Kind: workflow.JobExecute})
		if len(jobs) != 1 || jobs[0].EndedAt == nil {
			c.t.Fatalf("the job of the branch that hung: %+v", jobs)
		}
		for v, err := range c.Steps(c.t.Context(), id) {
			if err != nil || v.Step == "all" && v.EndedAt.Before(*jobs[0].EndedAt) {
				c.t.Errorf("the step ended at %v, its job at %s, %v", v.EndedAt, jobs[0].EndedAt, err)
			}
		}
	}
}

// limitsEnd: R53. Going back without end, a value that is too large and one that is nested too deep end the
// execution, each with the code of its limit.
func limitsEnd(c *fixture) {
	for name, o := range map[string]struct{ steps, code, step string }{
		"endless": {`{label: one, set: {n: "${has(vars.n) ? vars.n + 1 : 1}"}, next: one}`, workflow.FailureLimit, "one"},
		"large":   {`{label: small, set: {t: "${parameters.text}"}}, {label: one, set: {t: "${vars.t + vars.t}"}, next: one}`, workflow.FailureLimitValue, "one"},
		"deep":    {`{label: one, set: {a.b.c: "${[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}"}}`, workflow.FailureLimitDepth, "one"},
	} {
		c.publish(fmt.Sprintf("package: test\nname: %s-%s\nversion: 1.0.0\nsteps: [%s]\n", name, c.name, o.steps))
		id := c.startRef("test/"+name+"-"+c.name, fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 100_000)))
		c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseLimit, o.code, o.step)
	}
}

// waitsUntil: R38. A step waits until the time that an expression gives, and says so; one that has passed is
// not waited for.
func waitsUntil(c *fixture) {
	c.publishWorkflow("", `label: opens, wait: {until: "${parameters.opens}"}`, "label: last, set: {x: 1}")
	opens := time.Now().Add(5 * time.Second).UTC().Truncate(time.Millisecond)
	id := c.startWorkflow(fmt.Sprintf(`{"opens":%q}`, opens.Format(time.RFC3339Nano)))
	x := c.waitForKind(id, workflow.WaitTimer)
	if w := x.Waiting; deref(w.Step) != "opens" || w.Until == nil || !w.Until.Equal(opens) {
		c.t.Errorf("it waits for %+v, want until %s", w, opens)
	}
	past := c.startWorkflow(`{"opens":"2020-01-31T08:00:00Z"}`)
	c.waitEnded(past, sm.ExecutionCompletedAck)
	if y := c.waitEnded(id, sm.ExecutionCompletedAck); y.EndedAt == nil || y.EndedAt.Before(opens) {
		c.t.Errorf("it ended at %v, before %s", y.EndedAt, opens)
	}
	for id, want := range map[string]bool{id: true, past: false} {
		c.wantReached(id, "opens last")
		if paused := slices.ContainsFunc(c.history(id), func(e workflow.Event) bool { return e.Type == string(sm.EventExecutionPaused) }); paused != want {
			c.t.Errorf("%s has waited: %t", id, paused)
		}
	}
	wrong := c.startWorkflow(`{"opens":"at noon"}`)
	c.wantFailure(c.waitEnded(wrong, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, workflow.FailureParameters, "opens")
}

// rolledOutInWaves: a rollout begins with one entity, waits, goes on when it is told to, and stops at the wave in
// which too many fail: what is before that stands, what is in it is undone, and what is behind it never begins.
func rolledOutInWaves(c *fixture) {
	ids := c.importEntities(c.entityType(), 8)
	c.registerBlock("change", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "EXECUTE" && k.Entity.ID == k.Parameters["bad"] {
			return errorAnswer("NO", false)
		}
		return nil
	})
	c.publishWorkflow("", `label: waves, rollout: {batches: [1, 50%, 100%], pause: 9h}, workflow: {steps: [{label: change, block: change, runOn: KIND, parameters: {bad: "${parameters.bad}"}}]}`, "label: after, set: {x: 1}")
	good, bad := c.startWorkflow(`{"bad":""}`, ids[:4]...), c.startWorkflow(fmt.Sprintf(`{"bad":%q}`, ids[5]), ids[4:]...)
	resume := func(id string, waves int) {
		c.t.Helper()
		x := c.waitUntil(id, fmt.Sprintf("pauses after wave %d", waves), func(x views.ExecutionView) bool {
			return x.Waiting != nil && x.Waiting.Kind == workflow.WaitTimer && strings.Count(c.reached(id), "change") == waves
		})
		if deref(x.Waiting.Step) != "waves_pause" {
			c.t.Errorf("it waits for %+v", x.Waiting)
		}
		c.mustRequest(id, "resume", "{}")
	}
	resume(good, 1)
	resume(good, 2)
	resume(bad, 1)
	c.waitEnded(good, sm.ExecutionCompletedAck)
	c.wantReached(good, "waves change waves_pause change waves_pause change after")
	if got := c.wavesOf(good); got != "waves 3/3, change 1/3, waves_pause 1/3, change 2/3, waves_pause 2/3, change 3/3" {
		c.t.Errorf("its waves are %s", got)
	}
	x := c.waitEnded(bad, sm.ExecutionCompletedAck)
	if x.Outcome == nil || *x.Outcome != workflow.OutcomePartial {
		c.t.Errorf("the outcome is %v", deref(x.Outcome))
	}
	if got := c.callsOf(bad); got != "EXECUTE "+ids[4]+", EXECUTE "+ids[5]+", ROLLBACK "+ids[5] {
		c.t.Errorf("it has made the calls %s", got)
	}
	if got, want := x.EntityOutcomes, map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 1, workflow.EntityFailedSafe: 1, workflow.EntitySkipped: 2}; !maps.Equal(got, want) {
		c.t.Errorf("outcomes %v, want %v", got, want)
	}
}

// wavesOf are the steps of a rollout, each with its wave and how many there are.
func (c *fixture) wavesOf(id string) string {
	c.t.Helper()
	var waves []string
	for v, err := range c.Steps(c.t.Context(), id) {
		if err != nil {
			c.t.Fatal(err)
		}
		if v.Rollout != nil {
			waves = append(waves, fmt.Sprintf("%s %d/%d", v.Step, v.Rollout.Number, v.Rollout.Of))
		}
	}
	return strings.Join(waves, ", ")
}

// callsOf are the calls that an execution has made, as "OPERATION ENTITY", in order.
func (c *fixture) callsOf(id string) string {
	var calls []string
	c.blocks.count(func(k call) bool {
		if k.Job.Execution == id {
			calls = append(calls, k.Operation+" "+k.entityID())
		}
		return false
	})
	return strings.Join(calls, ", ")
}
