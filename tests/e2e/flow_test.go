package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The acceptance scenarios of definitions that choose, repeat, branch and wait run in parallel
// on one stack, over HTTP.
func TestFlow_ReachesExpectedState(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*fixture){
		"R01_hold_and_release":       holdAndRelease,
		"R02_R03_refused":            flowRefused,
		"R05_version_is_kept":        versionIsKept,
		"R06_R11_R12_values":         valuesReachSteps,
		"R08_R15_first_case":         firstCaseIsTaken,
		"R09_block_names_next":       blockNamesNext,
		"R10_steps_are_added":        stepsAreAdded,
		"R13_failure_is_handled":     failureIsHandled,
		"R14_block_without_worker":   blockWithoutWorker,
		"R15_every_operator":         everyOperator,
		"R16_retried_codes":          codesAreRetried,
		"R18_stored_before_called":   storedBeforeCalled,
		"R29_R30_branches":           branchesAreMerged,
		"R30_hung_branch":            hungBranchIsClosed,
		"R32_loops":                  loopsAreCapped,
		"R35_R36_R54_input":          inputIsAnswered,
		"R37_answers_count_once":     answersCountOnce,
		"R38_R52_times":              timesPass,
		"R38_until":                  waitsUntil,
		"R38_block_asks":             blockAsksToWait,
		"R39_signals":                signalsAreKept,
		"R39_business_keys":          oneOfAKeyIsLive,
		"R40_tokens":                 bearerAnswers,
		"R41_deadline_is_stored":     deadlineIsStoredFirst,
		"R49_callback":               callbackIsAnswered,
		"F34_rates":                  startsArePaced,
		"F34_pace":                   jobsArePaced,
		"F79_concurrency":            liveExecutionsAreLimited,
		"R42_output_of_a_child":      childGivesItsOutput,
		"R43_child_asks":             childAsks,
		"R44_child_fails":            childFails,
		"R34_R42_R43_R44_set":        childrenOfAList,
		"R46_saga":                   sagaIsUndone,
		"R47_saga_of_workflows":      sagaOfWorkflows,
		"R48_cancel_while_waiting":   cancelWhileWaiting,
		"R48_cancelled_anywhere":     cancelledAnywhere,
		"R48_tokens":                 cancelRevokesTokens,
		"R50_ended_takes_nothing":    endedTakesNothing,
		"R53_limits":                 limitsEnd,
		"R57_other_tenant":           flowOfOtherTenant,
		"F18_approved_by_two":        approvedByTwo,
		"F18_escalated":              escalated,
		"F69_inbox":                  inboxOf,
		"rollout_in_waves":           rolledOutInWaves,
		"rollout_is_approved":        rolloutIsApproved,
		"F02_F17_steps_and_back":     stepByStepAndBack,
		"branches_wait_side_by_side": branchesWait,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stack := *s
			stack.t = t
			scenario(&fixture{localStack: &stack, blocks: b, name: strings.ToLower(name)})
		})
	}
}

// registerEcho registers a pure block whose result is its parameters.
func (c *fixture) registerEcho() {
	c.t.Helper()
	c.registerBlock("echo", workflow.Block{Pure: true}, func(k call) blockAnswer { return okAnswer(k.Parameters) })
}

// resultOf is the result of a step without entities.
func (c *fixture) resultOf(id, step string) string {
	c.t.Helper()
	r, err := c.Result(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(r.Steps[step].Result)
}

// reached are the labels of the steps that an execution has entered, with their status if that
// is not COMPLETED.
func (c *fixture) reached(id string) string {
	c.t.Helper()
	var labels []string
	for v, err := range c.Steps(c.t.Context(), id) {
		if err != nil {
			c.t.Fatal(err)
		}
		label := v.Step
		if v.Status != sm.StepCompleted {
			label += ":" + string(v.Status)
		}
		labels = append(labels, label)
	}
	return strings.Join(labels, " ")
}

func (c *fixture) wantReached(id, want string) {
	c.t.Helper()
	if got := c.reached(id); got != want {
		c.t.Errorf("steps %q, want %q", got, want)
	}
}

// post sends a command, and returns the status, and the issue codes of a refusal.
func (c *fixture) post(id, verb, body string) (int, string) {
	c.t.Helper()
	status, text := c.sendRaw("POST", "/workflow-execution/"+id+"/"+verb, "application/json", body)
	var problem struct{ Errors []workflow.Issue }
	_ = json.Unmarshal([]byte(text), &problem)
	var codes []string
	for _, i := range problem.Errors {
		codes = append(codes, i.Code)
	}
	return status, strings.Join(codes, " ")
}

func (c *fixture) wantRefused(id, verb, body string, status int, code string) {
	c.t.Helper()
	if got, codes := c.post(id, verb, body); got != status || !strings.Contains(codes, code) {
		c.t.Errorf("%s %s: %d %q, want %d %q", verb, body, got, codes, status, code)
	}
}

func holdAndRelease(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("", "label: one, block: work, runOn: KIND")
	x, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, ExecuteOnParameters: &workflow.Selector{IDs: ids}, Hold: true})
	if err != nil {
		c.t.Fatal(err)
	}
	id := x.ID
	held := c.waitForKind(id, workflow.WaitHold)
	if held.State != sm.ExecutionBlockedWaiting || held.Workflow.Version != "1.0.0" {
		c.t.Errorf("%s of %s", held.State, held.Workflow)
	}
	c.wantNoLocks(id)
	if n := c.countCalls("work", "EXECUTE"); n > 0 {
		c.t.Errorf("%d calls of a held execution", n)
	}
	c.mustRequest(id, "resume", `{"reason":"go"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantAudit(id, sm.EventExecutionResumed, "go")
}

// versionIsKept: an execution that waits goes on in the version that it began in, although a newer one has
// not the step in which it waits; those that are started since use the newer one.
func versionIsKept(c *fixture) {
	c.publishWorkflow("", "label: ask, wait: {approval: {}}", "label: old, set: {x: 1}")
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	c.publish("package: test\nname: w-" + c.name + "\nversion: 1.1.0\nsteps: [{label: new, set: {x: 2}}]\n")
	x := c.waitEnded(c.startWorkflow("{}"), sm.ExecutionCompletedAck)
	c.wantReached(x.ID, "new")
	c.mustRequest(id, "resume", `{"input":{"approved":true}}`)
	y := c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantReached(id, "ask old")
	if x.Workflow.Version != "1.1.0" || y.Workflow.Version != "1.0.0" {
		c.t.Errorf("versions %s and %s", x.Workflow.Version, y.Workflow.Version)
	}
}

// blockWithoutWorker: a block that the worker of its pool does not have fails its step, and nothing was
// called.
func blockWithoutWorker(c *fixture) {
	if _, err := c.RegisterBlock(c.t.Context(), workflow.Block{Package: "test", Name: c.name + "-nobody", Version: "1.0.0"}); err != nil {
		c.t.Fatal(err)
	}
	c.publishWorkflow("", "label: one, block: nobody, runOn: global", "label: two, set: {x: 1}")
	id := c.startWorkflow("{}")
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "HANDLER_NOT_FOUND", "one")
	c.wantReached(id, "one:FAILED")
}

// storedBeforeCalled: when a block is called, the step, its job and who has claimed that are stored: all can
// be read while the block is at work.
func storedBeforeCalled(c *fixture) {
	seen := make(chan string, 1)
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		x, err := c.Execution(c.t.Context(), k.Job.Execution)
		if err != nil {
			seen <- err.Error()
			return okAnswer(1)
		}
		text := fmt.Sprintf("%s in %s", x.State, deref(x.CurrentStep))
		for j, err := range c.Jobs(c.t.Context(), k.Job.Execution, views.JobFilter{Step: "one"}) {
			text += fmt.Sprintf(", this job: %v, claimed: %v, %v", j.ID == k.Job.ID, j.ClaimedAt != nil, err)
		}
		seen <- text
		return okAnswer(1)
	})
	c.publishWorkflow("", "label: one, block: work, runOn: global")
	id := c.startWorkflow("{}")
	if got, want := <-seen, "RUNNING in one, this job: true, claimed: true, <nil>"; got != want {
		c.t.Errorf("while the block is at work: %s, want %s", got, want)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
}

func flowRefused(c *fixture) {
	if status, _ := c.sendRaw("POST", "/workflow-execution", "application/json", `{"workflow":"test/none-`+c.name+`"}`); status != http.StatusNotFound {
		c.t.Errorf("an unknown workflow: %d", status)
	}
	for steps, code := range map[string]string{
		"{label: a, functionBlock: p/b:1, runOn: global, next: nowhere}":                                  "reference",
		"{label: a, switch: [{when: 'true', next: nowhere}]}":                                             "reference",
		"{label: a, wait: {for: 1h, until: now}}":                                                         "conflict",
		"{label: a, loop: {over: '${[1]}'}}":                                                              "required",
		"{label: a, parallel: {branches: []}}":                                                            "required",
		"{label: a, functionBlock: p/b:1, runOn: global, set: {x: 1}}":                                    "",
		"{label: a, functionBlock: p/b:1, runOn: global, parameters: {x: 1}, input: {key: x}}":            "",
		"{label: a, wait: {input: {schema: {type: object}}, approval: {need: 1}}}":                        "conflict",
		"{label: a, switch: [{when: {path: x, op: like, value: 1}, next: end}]}":                          "",
		"{label: a, wait: {approval: {need: 0}}}":                                                         "",
		"{label: a, onFailure: nowhere, functionBlock: p/b:1, runOn: global}":                             "reference",
		"{label: a, requires: [later], functionBlock: p/b:1, runOn: global}, {label: later, set: {x: 1}}": "",
		"{label: a, foreach: {over: '${[1]}'}, workflow: {steps: [{label: b, set: {x: 1}}]}}":             "",
		"{label: a, wait: {signal: {name: 'not a name!'}}}":                                               "",
		"{label: a, outputKey: 'a..b', functionBlock: p/b:1, runOn: global}":                              "",
	} {
		source := fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\nsteps: [%s]\n", c.name, steps)
		status, text := c.sendRaw("POST", "/workflow-definition/publish", "application/yaml", source)
		if status != http.StatusBadRequest || !strings.Contains(text, `"errors":[{`) || !strings.Contains(text, `"code":"`+code) || !strings.Contains(text, "steps[0]") {
			c.t.Errorf("%s: %d %s", steps, status, text)
		}
	}
}

func valuesReachSteps(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("output: {sum: '${vars.order.sum}', n: '${context.n}'}\n",
		`label: first, set: {order.lines: [{sku: a}, {sku: b}], order.total: "${parameters.n * 2}"}`,
		`label: sum, block: echo, runOn: global, parameters: {x: 7}, outputKey: order.sum`,
		`label: path, block: echo, runOn: global, input: {path: order}`,
		`label: keys, block: echo, runOn: global, input: {keys: [n]}`,
		`label: template, block: echo, runOn: global, input: {template: {is: "${vars.order.total}"}}`,
		`label: missing, block: echo, runOn: global, input: {path: order.nothing}`)
	id := c.startWorkflow(`{"n":5}`)
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "INPUT_RESOLUTION_ERROR", "missing")
	for step, want := range map[string]string{
		"path": `{"lines":[{"sku":"a"},{"sku":"b"}],"sum":{"x":7},"total":10}`, "keys": `{"n":5}`, "template": `{"is":10}`,
	} {
		if got := c.resultOf(id, step); got != want {
			c.t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	ref := c.publishExtra("ok", "output: {sum: '${vars.order.sum}', n: '${context.n}'}\n", `label: sum, block: echo, runOn: global, parameters: {x: 7}, outputKey: order.sum`)
	id = c.startRef(ref, `{"n":5}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if r, err := c.Result(c.t.Context(), id); err != nil || string(r.Output) != `{"n":5,"sum":{"x":7}}` {
		c.t.Errorf("output %s, %v", r.Output, err)
	}
}

// R42: what a dispatched workflow gives, small or large, is in the result of the step that started
// it, and the step goes on once.
func childGivesItsOutput(c *fixture) {
	c.registerEcho()
	leaf := c.publishExtra("leaf", "output: {n: '${parameters.n + 1}', text: '${parameters.text}'}\n", `label: go, set: {x: 1}`)
	c.publishWorkflow("output: {n: '${two.result.output.n}', size: '${size(vars.one.output.text)}', first: '${one.result.id}'}\n",
		fmt.Sprintf(`label: one, workflowReference: {workflow: %q, mode: dispatch}, parameters: {n: 1, text: "${parameters.text}"}, outputKey: one`, leaf),
		fmt.Sprintf(`label: two, workflowReference: {workflow: %q, mode: dispatch}, parameters: {n: "${one.result.output.n}", text: ""}`, leaf),
		`label: tell, block: echo, runOn: global, parameters: {n: "${two.result.output.n}"}`)
	id := c.startWorkflow(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 3000)))
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if want := fmt.Sprintf(`{"first":%q,"n":3,"size":3000}`, x.Children[0]); err != nil || string(r.Output) != want || len(x.Children) != 2 {
		c.t.Errorf("output %s, %v, want %s; children %v", r.Output, err, want, x.Children)
	}
	if got := c.resultOf(id, "tell"); got != `{"n":3}` {
		c.t.Errorf("tell got %s", got)
	}
}

func firstCaseIsTaken(c *fixture) {
	c.publishWorkflow("", `label: way, switch: [{when: parameters.n > 10, next: big}, {when: {path: n, op: gt, value: 5}, next: middle}, {when: {path: s, op: in, value: [a, b]}, next: end}`+
		`, {when: {path: s, op: exists}, steps: [{label: inside, set: {x: 1}}], next: last}]`,
		"label: big, set: {x: 1}, next: end", "label: middle, set: {x: 2}, next: end", "label: last, set: {x: 3}")
	for parameters, want := range map[string]string{
		`{"n":11}`:         "way big",
		`{"n":6}`:          "way middle",
		`{"n":0,"s":"a"}`:  "way",
		`{"n":0,"s":"zz"}`: "way inside last",
	} {
		id := c.startWorkflow(parameters)
		c.waitEnded(id, sm.ExecutionCompletedAck)
		c.wantReached(id, want)
	}
	x := c.waitEnded(c.startWorkflow(`{"n":0}`), sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "NO_ROUTE", "way")
}

func blockNamesNext(c *fixture) {
	c.registerBlock("choose", workflow.Block{Pure: true}, func(k call) blockAnswer {
		return blockAnswer{"outcome": "OK", "result": nil, "next": k.Parameters["to"]}
	})
	c.publishWorkflow("", `label: choose, block: choose, runOn: global, parameters: {to: "${parameters.to}"}`, "label: passed, set: {x: 1}", "label: last, set: {x: 2}")
	id := c.startWorkflow(`{"to":"last"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantReached(id, "choose last")
	if !slices.ContainsFunc(c.history(id), func(e workflow.Event) bool { return e.Type == "step.passed" && e.Step == "passed" }) {
		c.t.Error("the history does not name the step that was passed")
	}
	x := c.waitEnded(c.startWorkflow(`{"to":"nowhere"}`), sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "UNKNOWN_STEP", "choose")
}

func failureIsHandled(c *fixture) {
	c.registerEcho()
	c.registerBlock("fails", workflow.Block{Pure: true}, func(k call) blockAnswer { return errorAnswer(k.Parameters["code"].(string), false) })
	c.publishWorkflow("", `label: fails, block: fails, runOn: global, parameters: {code: "${parameters.code}"}, `+
		`onFailure: [{when: error.code == "BUSY", steps: [{label: note, block: echo, runOn: global, parameters: {why: "${error.code}", step: "${error.step}"}}]}]`,
		"label: last, set: {x: 1}")
	id := c.startWorkflow(`{"code":"BUSY"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "note"); got != `{"step":"fails","why":"BUSY"}` {
		c.t.Errorf("the handler has read %s", got)
	}
	x := c.waitEnded(c.startWorkflow(`{"code":"OTHER"}`), sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "OTHER", "fails")
}

func branchesAreMerged(c *fixture) {
	c.registerEcho()
	c.registerBlock("fails", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	branches := func(last string) string {
		return `label: all, parallel: {branches: [{label: a, block: echo, runOn: global, parameters: {k: {x: 1}, only: a}}, {label: b, steps: [{label: bb, block: echo, runOn: global, parameters: {k: {y: 2}}}]}, ` + last + `}`
	}
	for merge, want := range map[string]string{
		"strategy: shallow": `{"k":{"z":3},"only":"a"}`,
		"strategy: deep":    `{"k":{"x":1,"y":2,"z":3},"only":"a"}`,
		"strategy: shallow, onConflict: preferExisting": `{"k":{"x":1},"only":"a"}`,
		"strategy: replace":                             `{"k":{"z":3}}`,
	} {
		ref := c.publishExtra(strings.NewReplacer(": ", "-", ", ", "-").Replace(strings.ToLower(merge)), "",
			branches(`{label: cc, block: echo, runOn: global, parameters: {k: {z: 3}}}], merge: {`+merge+`}`), `label: read, block: echo, runOn: global, parameters: {r: "${all.result}"}`)
		id := c.startRef(ref, "{}")
		c.waitEnded(id, sm.ExecutionCompletedAck)
		if got := c.resultOf(id, "read"); got != `{"r":`+want+`}` {
			c.t.Errorf("%s: %s, want %s", merge, got, want)
		}
	}
	ref := c.publishExtra("conflict", "", branches(`{label: cc, block: echo, runOn: global, parameters: {k: {z: 3}}}], merge: {onConflict: fail}`))
	c.wantFailure(c.waitEnded(c.startRef(ref, "{}"), sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "MERGE_CONFLICT", "all")
	ref = c.publishExtra("partial", "", branches(`{label: cc, block: fails, runOn: global}], allowPartial: true`), `label: read, block: echo, runOn: global, parameters: {f: "${all.failed[0].branch}"}`)
	id := c.startRef(ref, "{}")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "read"); got != `{"f":"cc"}` {
		c.t.Errorf("failed branches: %s", got)
	}
}

func loopsAreCapped(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", `label: each, loop: {over: "${parameters.list}", as: it, max: 3, onMax: fail}, workflow: {steps: [{label: one, block: echo, runOn: global, parameters: {i: "${it}", n: "${index}"}}]}`,
		"label: zero, set: {n: 0}",
		`label: times, loop: {while: vars.n < 2, max: 9}, workflow: {steps: [{label: count, set: {n: "${vars.n + 1}"}}]}`)
	id := c.startWorkflow(`{"list":["a","b"]}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "one"); got != `{"i":"b","n":1}` {
		c.t.Errorf("the last time has read %s", got)
	}
	c.wantReached(id, "each one one zero times count count")
	c.wantFailure(c.waitEnded(c.startWorkflow(`{"list":[1,2,3,4]}`), sm.ExecutionFailedSafeAck), workflow.CauseLimit, "LIMIT", "each")
}

func inputIsAnswered(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerEcho()
	c.publishWorkflow("", `label: ask, wait: {input: {title: How many?, schema: {type: object, required: [n], properties: {n: {type: integer, maximum: 9}}}}}`,
		`label: use, block: echo, runOn: KIND, parameters: {n: "${ask.result.n}"}`)
	id := c.startWorkflow("{}", ids...)
	x := c.waitForKind(id, workflow.WaitInput)
	if deref(x.Waiting.Step) != "ask" || deref(x.Waiting.Reason) != "How many?" {
		c.t.Errorf("waits for %+v", x.Waiting)
	}
	status, text := c.sendPlain(c.t, "GET", "/workflow-execution/id/"+id+"/inputs")
	if status != http.StatusOK || !strings.Contains(text, `"maximum":9`) {
		c.t.Errorf("inputs: %d %s", status, text)
	}
	c.wantRefused(id, "resume", `{"input":{"n":"many"}}`, http.StatusBadRequest, "type")
	c.wantRefused(id, "resume", `{"input":{"n":10}}`, http.StatusBadRequest, "maximum")
	c.wantRefused(id, "resume", `{"input":{"n":1},"step":"use"}`, http.StatusConflict, "")
	c.waitForKind(id, workflow.WaitInput)
	c.mustRequest(id, "resume", `{"input":{"n":3},"step":"ask"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantRefused(id, "resume", `{"input":{"n":4},"step":"ask"}`, http.StatusConflict, "closed")
	if jobs := c.listJobs(id, views.JobFilter{Step: "use"}); len(jobs) != 1 || string(jobs[0].Result) != `{"n":3}` {
		c.t.Errorf("jobs %+v", jobs)
	}
}

func timesPass(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", "label: pause, wait: {for: 1s}", "label: gate, wait: {when: 'false', deadline: 1s, onTimeout: {next: late}}", "label: never, set: {x: 1}", "label: late, set: {x: 2}")
	id := c.startWorkflow("{}")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantReached(id, "pause gate:CASE_HANDLED late")
	ref := c.publishExtra("fails", "", "label: gate, wait: {when: 'false', deadline: 1s}")
	c.wantFailure(c.waitEnded(c.startRef(ref, "{}"), sm.ExecutionFailedSafeAck), workflow.CauseTimeout, "TIMEOUT", "gate")
	ref = c.publishExtra("whole", "config: {timeout: 2s}\n", "label: gate, wait: {for: 9000h}")
	x := c.waitEnded(c.startRef(ref, "{}"), sm.ExecutionFailedSafeAck)
	if x.Cancellation == nil || x.Cancellation.Source != "timeout" {
		c.t.Errorf("cancellation %+v", x.Cancellation)
	}
}

func signalsAreKept(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", "label: ask, wait: {input: {schema: {type: object}}}", `label: paid, wait: {signal: {name: paid, when: data.amount > 5}}`,
		`label: use, block: echo, runOn: global, parameters: {a: "${paid.result.amount}"}`)
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	for range 2 { // a repeated request sends nothing more
		if _, err := c.Signal(c.t.Context(), id, "paid", views.SignalRequest{Data: json.RawMessage(`{"amount":12}`), IdempotencyKey: "k1"}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.mustRequest(id, "resume", `{"input":{}}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "use"); got != `{"a":12}` {
		c.t.Errorf("the signal that came early gave %s", got)
	}
	if _, err := c.Signal(c.t.Context(), id, "paid", views.SignalRequest{Data: json.RawMessage(`{}`), IdempotencyKey: "k2"}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("a signal after the end: %v", err)
	}
}

// blockAsksToWait: a block asks for a time, a signal and input, and is called again each time.
func blockAsksToWait(c *fixture) {
	ctx := c.t.Context()
	c.registerBlock("ask", workflow.Block{Pure: true}, func(k call) blockAnswer {
		wait := map[string]any{"until": time.Now().Add(time.Second), "reason": "a second"}
		if k.Resume != nil {
			switch k.Resume.Kind {
			case workflow.WaitTimer:
				wait = map[string]any{"signal": "paid"}
			case workflow.WaitSignal:
				wait = map[string]any{"input": map[string]any{"schema": map[string]any{"type": "integer"}}, "reason": "How many?"}
			case workflow.WaitInput:
				return okAnswer(k.Resume)
			}
		}
		a := okAnswer(nil)
		a["wait"] = wait
		return a
	})
	c.publishWorkflow("", "label: ask, block: ask, runOn: global")
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitSignal)
	if _, err := c.Signal(ctx, id, "paid", views.SignalRequest{}); err != nil {
		c.t.Fatal(err)
	}
	if x := c.waitForKind(id, workflow.WaitInput); x.Waiting.Reason == nil || *x.Waiting.Reason != "How many?" {
		c.t.Errorf("%+v", x.Waiting)
	}
	c.wantRefused(id, "resume", `{"input":"many"}`, 400, "type")
	if status, codes := c.post(id, "resume", `{"input":3}`); status != 202 {
		c.t.Errorf("the answer: %d %s", status, codes)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "ask"); got != `{"kind":"INPUT","value":3}` {
		c.t.Errorf("the result is %s", got)
	}
	c.wantReached(id, "ask ask ask ask")
}

// wantNoTokenInLog checks the log of the stack; tests/localstack checks those of one that is deployed.
func (c *fixture) wantNoTokenInLog() {
	c.t.Helper()
	if c.log != nil && strings.Contains(c.log.String(), "lst1.") {
		c.t.Error("the log holds a token")
	}
}

// callbackIsAnswered: a block gets a token, and its bearer answers the step: one before the block
// has returned, and one after that. A job that fails ends the step.
func callbackIsAnswered(c *fixture) {
	ctx := c.t.Context()
	tokens := make(chan string, 10)
	answer := func(token, input string) error {
		_, err := c.AnswerByToken(ctx, token, views.TokenAnswer{Input: json.RawMessage(input)})
		return err
	}
	c.registerEcho()
	c.registerBlock("send", workflow.Block{}, func(k call) blockAnswer {
		token, _ := k.Parameters["token"].(string)
		if !strings.HasPrefix(token, "lst1.") {
			return errorAnswer("NO_TOKEN", false)
		}
		if k.Parameters["when"] != "later" {
			if err := answer(token, `{"n":1}`); err != nil {
				return errorAnswer("NOT_TAKEN", false)
			}
		}
		if k.Parameters["when"] == "failing" {
			return errorAnswer("NO_MAIL", false)
		}
		tokens <- token
		return okAnswer(map[string]any{"sent": true})
	})
	c.publishWorkflow("", "label: ask, block: send, runOn: global, parameters: {token: \"${callback.token}\", when: \"${parameters.when}\"}, "+
		"callback: {title: How many?, schema: {type: object, required: [n]}, deadline: 1h}, outputKey: said",
		`label: use, block: echo, runOn: global, parameters: {n: "${vars.said.n}"}`)
	id := c.startWorkflow(`{"when":"early"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "use"); got != `{"n":1}` {
		c.t.Errorf("the answer gave %s", got)
	}
	used := <-tokens
	id = c.startWorkflow(`{"when":"later"}`)
	c.waitForKind(id, workflow.WaitInput)
	token := <-tokens
	if err := answer(token, `{}`); !workflow.Is(err, workflow.CodeInvalid) {
		c.t.Errorf("an answer that does not match: %v", err)
	}
	if q, err := c.QuestionOfToken(ctx, token); err != nil || q.Title == nil || *q.Title != "How many?" {
		c.t.Errorf("%+v, %v", q, err)
	}
	if err := answer(used, `{"n":9}`); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("the token of another execution: %v", err)
	}
	if err := answer(token, `{"n":2}`); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "ask") + c.resultOf(id, "use"); got != `{"n":2}{"n":2}` {
		c.t.Errorf("the answer gave %s", got)
	}
	for job, err := range c.Jobs(ctx, id, views.JobFilter{}) {
		if raw, _ := workflow.EncodeJSON(job); err != nil || strings.Contains(string(raw), "lst1.") {
			c.t.Errorf("a job shows the token: %s, %v", raw, err)
		}
	}
	for _, e := range c.history(id) {
		if strings.Contains(string(e.Data), "lst1.") {
			c.t.Errorf("%s holds a token", e.Type)
		}
	}
	c.wantNoTokenInLog()
	id = c.startWorkflow(`{"when":"failing"}`)
	x := c.waitEnded(id, sm.ExecutionFailedUnsafe)
	if x.Error == nil || x.Error.Code != "NO_MAIL" {
		c.t.Errorf("%+v", x.Error)
	}
}

// oneOfAKeyIsLive: starts with one key at the same time leave one execution, which gets the
// signals of all, and the key is free after its end.
func oneOfAKeyIsLive(c *fixture) {
	ctx := c.t.Context()
	c.registerEcho()
	c.publishWorkflow("", "label: first, wait: {signal: {name: paid}}", "label: second, wait: {signal: {name: paid}}", "label: third, wait: {signal: {name: paid}}",
		`label: last, wait: {signal: {name: done}}`, `label: use, block: echo, runOn: global, parameters: {sum: "${first.result.n + second.result.n + third.result.n}"}`)
	name := "test/w-" + c.name
	request := func(n int) views.StartRequest {
		return views.StartRequest{
			Workflow: name, Key: "order-7", IdempotencyKey: fmt.Sprintf("%s-%d", c.name, n),
			Signal: &views.StartSignal{Name: "paid", Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))},
		}
	}
	var starts sync.WaitGroup
	for _, n := range []int{1, 10, 100} {
		starts.Go(func() {
			if _, _, err := c.Start(ctx, request(n)); err != nil {
				c.t.Errorf("start: %v", err)
			}
		})
	}
	starts.Wait()
	var owner string
	eventually(c.t, "one execution waits and the others gave way", func() bool {
		owner = ""
		gaveWay, all := 0, 0
		for x, err := range c.Executions(ctx, views.ExecutionFilter{Workflow: workflow.Ref{Package: "test", Name: "w-" + c.name}, Key: "order-7"}) {
			if err != nil {
				c.t.Fatal(err)
			}
			all++
			if x.Key == nil || *x.Key != "order-7" {
				c.t.Fatalf("listed %+v", x)
			}
			switch {
			case x.State == sm.ExecutionCancelledAck && x.KeyOwner != nil && x.Cancellation.Source == "key":
				gaveWay++
			case x.Waiting != nil && x.CurrentStep != nil && *x.CurrentStep == "last":
				owner = x.ID
			}
		}
		return owner != "" && gaveWay == all-1
	})
	_, _, err := c.Start(ctx, views.StartRequest{Workflow: name, Key: "order-7"})
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != workflow.CodeConflict || len(e.Issues) != 1 || e.Issues[0].Message != owner {
		c.t.Errorf("a start while the key is held: %v", err)
	}
	again, existed, err := c.Start(ctx, request(1))
	if err != nil || !existed {
		c.t.Errorf("the same request again: %+v %v %v", again, existed, err)
	}
	if x, err := c.SignalKey(ctx, name, "order-7", "done", views.SignalRequest{IdempotencyKey: "k"}); err != nil || x.ID != owner {
		c.t.Errorf("a signal by the key: %s, %v", x.ID, err)
	}
	c.waitEnded(owner, sm.ExecutionCompletedAck)
	if got := c.resultOf(owner, "use"); got != `{"sum":111}` {
		c.t.Errorf("its signals gave %s", got)
	}
	if _, err := c.SignalKey(ctx, name, "order-7", "done", views.SignalRequest{IdempotencyKey: "k2"}); !workflow.Is(err, workflow.CodeNotFound) {
		c.t.Errorf("a signal to a key that nobody holds: %v", err)
	}
	x, _, err := c.Start(ctx, views.StartRequest{Workflow: name, Key: "order-7"})
	if err != nil || x.ID == owner {
		c.t.Errorf("a start after the end: %v", err)
	}
}

// bearerAnswers: a token is the only credential of its bearer, counts once, and is refused when it
// is forged, revoked, too old or used.
func bearerAnswers(c *fixture) {
	ctx := c.t.Context()
	c.registerEcho()
	c.publishWorkflow("", "label: ask, wait: {input: {title: How many?, schema: {type: object, required: [n]}}}, outputKey: answer",
		`label: use, block: echo, runOn: global, parameters: {n: "${vars.answer.n}"}`)
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	issue := func(to string, expires *time.Time) string {
		c.t.Helper()
		made, err := c.CreateToken(ctx, id, views.TokenRequest{For: to, ExpiresAt: expires})
		if err != nil {
			c.t.Fatal(err)
		}
		return made.Token
	}
	refused := func(token, input string, code workflow.Code, issue string) {
		c.t.Helper()
		_, err := c.AnswerByToken(ctx, token, views.TokenAnswer{Input: json.RawMessage(input)})
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != code || issue != "" && (len(e.Issues) == 0 || e.Issues[0].Code != issue) {
			c.t.Errorf("%v, want %s %s", err, code, issue)
		}
	}
	revoked := issue("ann@example.com", nil)
	if _, err := c.RevokeTokens(ctx, id, views.RevokeRequest{Reason: "wrong address"}); err != nil {
		c.t.Fatal(err)
	}
	refused(revoked, `{"n":1}`, workflow.CodeIllegalTransition, "revoked")
	soon := time.Now().Add(time.Second)
	expired := issue("ann@example.com", &soon)
	c.waitUntil(id, "a token that expires", func(views.ExecutionView) bool {
		_, err := c.QuestionOfToken(ctx, expired)
		return workflow.Is(err, workflow.CodeIllegalTransition)
	})
	refused(expired, `{"n":1}`, workflow.CodeIllegalTransition, "expired")
	token := issue("bob@example.com", nil)
	refused(token[:len(token)-1], `{"n":1}`, workflow.CodeUnauthorized, "")
	refused(token, `{}`, workflow.CodeInvalid, "required")
	if q, err := c.QuestionOfToken(ctx, token); err != nil || q.Title == nil || *q.Title != "How many?" || q.For != "bob@example.com" {
		c.t.Errorf("%+v, %v", q, err)
	}
	for range 2 { // the same answer again is the same
		if _, err := c.AnswerByToken(ctx, token, views.TokenAnswer{Input: json.RawMessage(`{"n":3}`)}); err != nil {
			c.t.Fatal(err)
		}
	}
	refused(token, `{"n":4}`, workflow.CodeIllegalTransition, "closed")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "use"); got != `{"n":3}` {
		c.t.Errorf("the answer gave %s", got)
	}
	for _, e := range c.history(id) {
		if strings.Contains(string(e.Data), "lst1.") {
			c.t.Errorf("%s holds a token", e.Type)
		}
	}
	c.wantNoTokenInLog()
}

func cancelWhileWaiting(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.publishWorkflow("", "label: ask, wait: {approval: {}}")
	id := c.startWorkflow("{}", ids...)
	c.waitForKind(id, workflow.WaitInput)
	c.mustRequest(id, "cancel", `{"reason":"wrong one"}`)
	x := c.waitEnded(id, sm.ExecutionCancelledAck)
	if x.Cancellation == nil || x.Cancellation.Source != "user" || x.Cancellation.Reason != "wrong one" {
		c.t.Errorf("cancellation %+v", x.Cancellation)
	}
	c.wantRefused(id, "resume", `{"input":{"approved":true},"step":"ask"}`, http.StatusConflict, "closed")
}

func endedTakesNothing(c *fixture) {
	c.publishWorkflow("", "label: one, set: {x: 1}")
	id := c.startWorkflow("{}")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	before := len(c.history(id))
	for verb, body := range map[string]string{"resume": "{}", "cancel": "{}", "next": "{}", "rewind": `{"to":"one"}`, "retry": "{}", "acknowledge": "{}", "signal/go": "{}"} {
		if status, _ := c.post(id, verb, body); status != http.StatusConflict {
			c.t.Errorf("%s: %d", verb, status)
		}
	}
	if n := len(c.history(id)); n != before {
		c.t.Errorf("%d events, %d before", n, before)
	}
}

func flowOfOtherTenant(c *fixture) {
	c.publishWorkflow("", "label: ask, wait: {approval: {}}")
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	other := c.clientFor("other-" + strings.ReplaceAll(c.name, "_", "-"))
	_, err1 := other.Answer(c.t.Context(), id, views.AnswerRequest{Input: json.RawMessage(`{"approved":true}`), Step: "ask"})
	_, err2 := other.Signal(c.t.Context(), id, "go", views.SignalRequest{})
	_, err3 := other.NextStep(c.t.Context(), id, views.NextRequest{})
	_, err4 := other.Rewind(c.t.Context(), id, views.RewindRequest{To: "ask"})
	for i, err := range []error{err1, err2, err3, err4} {
		if !workflow.Is(err, workflow.CodeNotFound) {
			c.t.Errorf("%d: %v", i, err)
		}
	}
	c.mustRequest(id, "resume", `{"input":{"approved":true}}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
}

func stepByStepAndBack(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("look", workflow.Block{Pure: true}, nil)
	c.registerBlock("change", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.publishWorkflow("", "label: look, block: look, runOn: KIND", "label: change, block: change, runOn: KIND", "label: last, set: {x: 1}")
	x, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, ExecuteOnParameters: &workflow.Selector{IDs: ids}, Mode: views.ModeStep})
	if err != nil {
		c.t.Fatal(err)
	}
	id := x.ID
	next := func(step string) views.ExecutionView {
		c.t.Helper()
		x := c.waitUntil(id, "waits in front of "+step, func(x views.ExecutionView) bool {
			return x.Waiting != nil && x.Waiting.Kind == workflow.WaitStep && deref(x.Waiting.Step) == step
		})
		return x
	}
	enter := func(x views.ExecutionView, all bool) {
		c.t.Helper()
		for range 2 { // a repeated request enters no further step
			if _, err := c.NextStep(c.t.Context(), id, views.NextRequest{Sequence: *x.Waiting.Sequence, All: all}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	enter(next("look"), false)
	next("change")
	c.mustRequest(id, "rewind", `{"to":"look","reason":"again"}`)
	enter(next("look"), false)
	enter(next("change"), false)
	waiting := next("last")
	c.wantRefused(id, "rewind", `{"to":"look"}`, http.StatusConflict, "")
	c.wantRefused(id, "rewind", `{"to":"nowhere"}`, http.StatusBadRequest, "invalid")
	enter(waiting, true)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if looks, changes := c.countCalls("look", "EXECUTE"), c.countCalls("change", "EXECUTE"); looks != 4 || changes != 2 {
		c.t.Errorf("%d looks and %d changes, want 4 and 2", looks, changes)
	}
}

func branchesWait(c *fixture) {
	c.registerEcho()
	c.publishWorkflow("", `label: all, parallel: {branches: [{label: net, steps: [{label: asknet, wait: {approval: {}}}]}, {label: sec, steps: [{label: asksec, wait: {input: {schema: {type: object}}}}, {label: noted, block: echo, runOn: global, parameters: {a: "${asksec.result.a}"}}]}, {label: time, steps: [{label: pause, wait: {for: 1s}}]}]}`,
		`label: read, block: echo, runOn: global, parameters: {r: "${all.branches.sec}"}`)
	id := c.startWorkflow("{}")
	c.waitForKind(id, workflow.WaitInput)
	c.wantRefused(id, "resume", `{"input":{"approved":true}}`, http.StatusBadRequest, "required")
	c.mustRequest(id, "resume", `{"input":{"a":1},"step":"asksec"}`)
	c.mustRequest(id, "resume", `{"input":{"approved":true},"step":"asknet"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.resultOf(id, "read"); got != `{"r":{"a":1}}` {
		c.t.Errorf("the branch gave %s", got)
	}
}

// F79: with a limit of two by a key, the third execution waits, says for whom, and begins when one of
// the others ends; one with another key does not wait.
func liveExecutionsAreLimited(c *fixture) {
	c.publishWorkflow("parameters: {type: object}\nconfig: {concurrency: {limit: 2, key: \"${parameters.customer}\"}}\n", "label: work, wait: {signal: {name: done}}")
	var ids []string
	for range 3 {
		ids = append(ids, c.startWorkflow(`{"customer":"a"}`))
		if len(ids) < 3 {
			c.waitForKind(ids[len(ids)-1], workflow.WaitSignal)
		}
	}
	x := c.waitForKind(ids[2], workflow.WaitLock)
	if w := x.Waiting; len(w.Blockers) != 2 || w.Blockers[0].Entity == nil || *w.Blockers[0].Entity != "~run/test.w-"+c.name+".a" || *w.Blockers[1].HeldBy == *w.Blockers[0].HeldBy || w.Reason == nil {
		c.t.Errorf("it waits for %+v", w)
	}
	other := c.startWorkflow(`{"customer":"b"}`)
	c.waitForKind(other, workflow.WaitSignal)
	for _, id := range append([]string{ids[1], ids[0], ids[2]}, other) {
		c.waitForKind(id, workflow.WaitSignal)
		if _, err := c.Signal(c.t.Context(), id, "done", views.SignalRequest{}); err != nil {
			c.t.Fatal(err)
		}
		c.waitEnded(id, sm.ExecutionCompletedAck)
	}
}

// F34: with a rate of one in ten seconds by a key, the second execution begins ten seconds after the
// first, and says until then for what it waits; one with another key does not wait. Where the definition
// says so, a start is refused and says when to come again.
func startsArePaced(c *fixture) {
	c.publishWorkflow("parameters: {type: object}\nconfig: {rate: {limit: 1/10s, key: \"${parameters.customer}\"}}\n", "label: work, set: {a: 1}")
	first, second, other := c.startWorkflow(`{"customer":"a"}`), c.startWorkflow(`{"customer":"a"}`), c.startWorkflow(`{"customer":"b"}`)
	if w := c.waitForKind(second, workflow.WaitTimer).Waiting; w.Until == nil || deref(w.Reason) != "executions of the workflow may begin 1/10s" {
		c.t.Errorf("it waits for %+v", w)
	}
	c.waitEnded(other, sm.ExecutionCompletedAck)
	a, b := c.waitEnded(first, sm.ExecutionCompletedAck), c.waitEnded(second, sm.ExecutionCompletedAck)
	if gap := b.StartedAt.Sub(*a.StartedAt); gap < time.Second {
		c.t.Errorf("the second began %s after the first", gap)
	}
	for _, id := range []string{first, other} {
		if slices.ContainsFunc(c.history(id), func(e workflow.Event) bool { return e.Type == string(sm.EventExecutionBlocked) }) {
			c.t.Errorf("%s has waited while the rate was free", id)
		}
	}
	c.publish(fmt.Sprintf("package: test\nname: refusing-%s\nversion: 1.0.0\nconfig: {rate: {limit: 1/1h, onLimit: fail}}\nsteps: [{label: work, set: {a: 1}}]\n", c.name))
	req := views.StartRequest{Workflow: "test/refusing-" + c.name}
	if _, _, err := c.Start(c.t.Context(), req); err != nil {
		c.t.Fatal(err)
	}
	var problem *workflow.Error
	if _, _, err := c.Start(c.t.Context(), req); !errors.As(err, &problem) || problem.Code != workflow.CodeRateLimited || !strings.Contains(problem.Message, "the next one in 1h") && !strings.Contains(problem.Message, "the next one in 59m") {
		c.t.Errorf("the second start: %v", err)
	}
}

// F34: the jobs of a step with a pace begin ten seconds after each other, and the execution says between
// them for what it waits. A slow machine sees that only if the pace is slow, too.
func jobsArePaced(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("work", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("", "label: one, block: work, runOn: KIND, pace: 1/10s")
	id := c.startWorkflow("{}", ids...)
	if w := c.waitForKind(id, workflow.WaitTimer).Waiting; deref(w.Step) != "one" || w.Until == nil || deref(w.Reason) != "jobs of the step begin 1/10s" {
		c.t.Errorf("it waits for %+v", w)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	var began []time.Time
	for j, err := range c.Jobs(c.t.Context(), id, views.JobFilter{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		began = append(began, *j.StartedAt)
	}
	slices.SortFunc(began, time.Time.Compare)
	if len(began) != 3 || began[2].Sub(began[0]) < 5*time.Second { // twenty, less what the first took to begin
		c.t.Errorf("the jobs began at %v", began)
	}
}
