package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// executionLimits try the limits of executions: at the limit, and one more.
var executionLimits = map[string]func(t *testing.T, l limit){
	"entities of an execution":                                    limitEntities,
	"step runs of an execution":                                   limitStepRuns,
	"step runs that its definition or its start allows it":        limitOwnStepRuns,
	"time since its creation that these allow it":                 limitWall,
	"steps, embedded definitions included":                        limitEmbeddedSteps,
	"generations of executions that start executions":             limitChildDepth,
	"executions that an execution and those that it starts start": limitDescendants,
	"entity types of an execution":                                limitEntityTypes,
	"tries of an execution":                                       limitTries,
	"events of an execution":                                      limitEvents,
	"result of a job":                                             limitResult,
	"cost of an expression":                                       limitExpressionCost,
	"what a step sets":                                            limitValue,
	"variables that a step reads":                                 limitVariables,
	"variables that an execution sets":                            limitNames,
	"nesting of what a step sets, of a list of a loop, and with `outputKey` of the result of a block, of the output of an execution that a step starts, and of what branches or several executions give together": limitValueDepth,
	"items of a foreach": limitItems,
	"waves of a rollout": limitWaves,
}

// An execution ends as documented at each limit of docs/limits.md, and with one more.
func TestExecution_LimitsHold(t *testing.T) {
	for _, l := range readLimits(t) {
		if check := executionLimits[l.name]; check != nil {
			t.Run(l.name, func(t *testing.T) { check(t, l) })
		}
	}
}

// executionResult is an execution that has ended.
type executionResult struct {
	ID, State, Reason string
	Error             *struct{ Code, Message string }
}

func (f *fixture) execution(id string) (x executionResult) {
	f.Helper()
	f.mustDo(&x, "GET", "/workflow-execution/id/"+id, "")
	return x
}

// awaitEnd advances the simulation until an execution ends.
func (f *fixture) awaitEnd(id string) executionResult {
	f.Helper()
	for range 100 {
		if x := f.execution(id); strings.HasSuffix(x.State, "_ACK") || x.State == "FAILED_UNSAFE" {
			return x
		}
		f.RunFor(time.Minute)
	}
	f.Fatalf("execution %s does not end: %+v", id, f.execution(id))
	return executionResult{}
}

func (f *fixture) execute(body string) executionResult {
	f.Helper()
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", body)
	return f.awaitEnd(x.ID)
}

// checkLimit checks that the first execution completed and the second failed by the limit.
func checkLimit(t *testing.T, l limit, at, beyond executionResult) {
	t.Helper()
	if at.State != "COMPLETED_ACK" {
		t.Errorf("at the limit: %+v %+v", at, at.Error)
	}
	if beyond.State == "COMPLETED_ACK" || beyond.Error == nil || beyond.Error.Code != l.code {
		t.Errorf("beyond the limit, want %s: %+v %+v", l.code, beyond, beyond.Error)
	}
}

func limitItems(t *testing.T, l limit) {
	f := newFixture(t, 1)
	f.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: item, foreach: {items: '${parameters.list}'}, condition: index == 0}]")
	execute := func(n int) executionResult {
		return f.execute(`{"workflow":"p/w","parameters":{"list":[` + joinItems(n, func(int) string { return "1" }) + `]}}`)
	}
	checkLimit(t, l, execute(l.n), execute(l.n+1))
}

func limitEntities(t *testing.T, l limit) {
	o := harness.Options()
	o.MaxEntities = 3
	f := newFixtureWith(t, 1, o)
	f.ImportDevices("a", "b", "c", "d")
	f.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]")
	checkLimit(t, l, f.execute(fmt.Sprintf(startFormat, "one", `"a","b","c"`)), f.execute(fmt.Sprintf(startFormat, "one", `"a","b","c","d"`)))
}

func limitEntityTypes(t *testing.T, l limit) {
	f := newFixture(t, 1)
	for i := range l.n + 1 {
		if _, err := f.Catalog.PutEntity(t.Context(), harness.Caller, workflow.Entity{Type: fmt.Sprint("t", i), ID: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{l.n, l.n + 1} {
		f.Publish(fmt.Sprint("n", n), "steps: ["+joinItems(n, func(i int) string {
			return fmt.Sprintf("{label: s%d, functionBlock: p/pure:1, runOn: global, condition: 'false', acquire: [{type: t%d}]}", i, i)
		})+"]")
	}
	o := func(n int) executionResult { return f.execute(fmt.Sprintf(`{"workflow":"p/n%d"}`, n)) }
	checkLimit(t, l, o(l.n), o(l.n+1))
}

func limitStepRuns(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 4
	f := newFixtureWith(t, 1, o)
	for _, n := range []int{4, 5} {
		f.Publish(fmt.Sprint("n", n), fmt.Sprintf("steps: [{label: one, functionBlock: p/pure:1, runOn: global, repeat: {count: %d}}]", n))
	}
	checkLimit(t, l, f.execute(`{"workflow":"p/n4"}`), f.execute(`{"workflow":"p/n5"}`))
}

func limitOwnStepRuns(t *testing.T, l limit) {
	f := newFixture(t, 1)
	f.Publish("free", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, repeat: {count: "+fmt.Sprint(l.n+1)+"}}]")
	for _, n := range []int{l.n, l.n + 1} {
		f.Publish(fmt.Sprint("n", n), fmt.Sprintf("config: {limits: {steps: %d}}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global, repeat: {count: %d}}]", l.n, n))
	}
	checkLimit(t, l, f.execute(fmt.Sprintf(`{"workflow":"p/n%d"}`, l.n)), f.execute(fmt.Sprintf(`{"workflow":"p/n%d"}`, l.n+1)))
	start := func(n int) executionResult {
		return f.execute(fmt.Sprintf(`{"workflow":"p/free","limits":{"steps":%d}}`, n))
	}
	checkLimit(t, l, start(l.n+1), start(l.n))
	// A start can only lower what its definition allows, and a client may leave the object empty.
	refusesLimit(f, fmt.Sprintf(`{"workflow":"p/n%d","limits":{"steps":%d}}`, l.n, l.n+1), "limits.steps")
	checkLimit(t, l, f.execute(fmt.Sprintf(`{"workflow":"p/n%d","limits":{}}`, l.n)), f.execute(fmt.Sprintf(`{"workflow":"p/n%d","limits":{"steps":%d}}`, l.n, l.n-1)))
}

func limitWall(t *testing.T, l limit) {
	f := newFixture(t, 1)
	for name, config := range map[string]string{"free": "{}", "bounded": fmt.Sprintf("{limits: {wall: %dm}}", l.n)} {
		f.Publish(name, "parameters: {type: object, properties: {long: {type: boolean}}}\nconfig: "+config+"\nsteps:\n"+
			fmt.Sprintf("  - {label: short, condition: '!parameters.long', wait: {for: %dm}}\n  - {label: long, condition: parameters.long, wait: {for: %dm}}\n", l.n-1, l.n+1))
	}
	checkLimit(t, l, f.execute(`{"workflow":"p/bounded","parameters":{"long":false}}`), f.execute(`{"workflow":"p/bounded","parameters":{"long":true}}`))
	start := func(wall int) executionResult {
		return f.execute(fmt.Sprintf(`{"workflow":"p/free","parameters":{"long":true},"limits":{"wall":"%dm"}}`, wall))
	}
	checkLimit(t, l, start(l.n+2), start(l.n))
	refusesLimit(f, fmt.Sprintf(`{"workflow":"p/bounded","parameters":{"long":true},"limits":{"wall":"%dm"}}`, l.n+1), "limits.wall")
}

// refusesLimit checks that a start cannot raise a limit.
func refusesLimit(f *fixture, body, path string) {
	f.Helper()
	var problem struct{ Errors []struct{ Path, Code string } }
	a := f.do("POST", "/workflow-execution", body)
	if err := json.Unmarshal(a.body, &problem); err != nil || a.status != 400 || len(problem.Errors) != 1 || problem.Errors[0].Path != path || problem.Errors[0].Code != "range" {
		f.Errorf("%s: %d %s", body, a.status, a.body)
	}
}

func limitEmbeddedSteps(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 2 * l.n
	f := newFixtureWith(t, 1, o)
	inner := func(n int) string {
		return "steps: [" + joinItems(n, func(i int) string {
			return fmt.Sprintf("{label: s%d, workflow: {steps: [{label: t%d, functionBlock: p/pure:1, runOn: global, condition: 'false'}]}}", i, i)
		}) + "]"
	}
	f.Publish("inner", inner(99)) // 198 steps
	// Five embedded definitions are 5 + 990 steps; more steps are added up to the limit.
	outer := func(more int) string {
		return "steps: [" + joinItems(5, func(i int) string {
			return fmt.Sprintf("{label: e%d, workflowReference: {workflow: p/inner, mode: embed}}", i)
		}) +
			"," + joinItems(more, func(i int) string {
			return fmt.Sprintf("{label: m%d, functionBlock: p/pure:1, runOn: global, condition: 'false'}", i)
		}) + "]"
	}
	f.Publish("at", outer(l.n-995))
	f.Publish("beyond", outer(l.n-994))
	checkLimit(t, l, f.execute(`{"workflow":"p/at"}`), f.execute(`{"workflow":"p/beyond"}`))
}

func limitDescendants(t *testing.T, l limit) {
	o := harness.Options()
	o.MaxDescendants = 3
	f := newFixtureWith(t, 1, o)
	f.Publish("last", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	f.Publish("middle", "steps: [{label: one, workflowReference: {workflow: p/last, mode: dispatch}}]")
	for _, n := range []int{1, 2} {
		f.Publish(fmt.Sprint("n", n), "steps: [{label: first, workflowReference: {workflow: p/middle, mode: dispatch}},"+joinItems(n, func(i int) string {
			return fmt.Sprintf("{label: s%d, workflowReference: {workflow: p/last, mode: fireAndForget}}", i)
		})+"]")
	}
	checkLimit(t, l, f.execute(`{"workflow":"p/n1"}`), f.execute(`{"workflow":"p/n2"}`))
}

func limitChildDepth(t *testing.T, l limit) {
	f := newFixture(t, 1)
	f.Publish("g0", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	for i := range l.n + 1 {
		f.Publish(fmt.Sprint("g", i+1), fmt.Sprintf("steps: [{label: one, workflowReference: {workflow: p/g%d, mode: dispatch}}]", i))
	}
	at, beyond := f.execute(fmt.Sprintf(`{"workflow":"p/g%d"}`, l.n)), f.execute(fmt.Sprintf(`{"workflow":"p/g%d"}`, l.n+1))
	checkLimit(t, l, at, beyond)
	if !strings.HasSuffix(beyond.Reason, "child executions are nested too deeply") {
		t.Errorf("reason %q", beyond.Reason)
	}
}

func limitTries(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 10 * l.n
	f := newFixtureWith(t, 1, o)
	f.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "FAILED"} }
	f.Publish("one", "steps: [{label: one, functionBlock: p/forever:1, runOn: global}]")
	x := f.execute(`{"workflow":"p/one"}`)
	for attempt := 2; attempt <= l.n; attempt++ {
		f.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/retry", "{}")
		f.awaitEnd(x.ID)
	}
	if a := f.do("POST", "/workflow-execution/"+x.ID+"/retry", "{}"); a.status != l.status || !hasCode(a, l.code) {
		t.Errorf("one more retry: %s", a)
	}
}

func limitEvents(t *testing.T, l limit) {
	f := newFixture(t, 1)
	f.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "FAILED"} }
	f.Publish("one", "steps: [{label: one, functionBlock: p/forever:1, runOn: global}]")
	f.Publish("two", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}, {label: two, functionBlock: p/pure:1, runOn: global}]")
	for _, events := range []int{l.n - 1, l.n} {
		x := f.execute(`{"workflow":"p/one"}`)
		f.setEventCount(x.ID, events)
		a := f.do("POST", "/workflow-execution/"+x.ID+"/retry", "{}")
		if events < l.n && a.status != 202 || events == l.n && (a.status != l.status || !hasCode(a, l.code)) {
			t.Errorf("a retry after %d events: %s", events, a)
		}
	}
	f.Script = nil
	for _, events := range []int{l.n - 100, l.n} {
		var x struct{ ID string }
		f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/two"}`)
		f.setEventCount(x.ID, events)
		y := f.awaitEnd(x.ID)
		if events < l.n && y.State != "COMPLETED_ACK" || events == l.n && (y.State == "COMPLETED_ACK" || y.Error == nil || !strings.EqualFold(y.Error.Code, l.code)) {
			t.Errorf("a step after %d events: %+v %+v", events, y, y.Error)
		}
	}
}

// setEventCount makes an execution look as if it had so many events.
func (f *fixture) setEventCount(id string, events int) {
	f.Helper()
	x := f.Load(id)
	seen := x.Version
	x.Version++
	x.Commit = f.Nonce()
	for i := range x.Events {
		x.Events[i].Sequence += int64(events) - x.Sequence
	}
	x.Sequence = int64(events)
	if _, ok, err := f.Open().Store.Commit(context.Background(), seen, x, workflow.CommitOptions{}); err != nil || !ok {
		f.Fatalf("%v, %v", ok, err)
	}
}

func limitResult(t *testing.T, l limit) {
	o := harness.Options()
	o.MaxResultBytes = 4 * l.n
	f := newFixtureWith(t, 1, o)
	size := 0
	f.Script = func(harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: json.RawMessage(`"` + repeatX(size-2) + `"`)}
	}
	f.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	size = l.n
	at := f.execute(`{"workflow":"p/one"}`)
	size++
	checkLimit(t, l, at, f.execute(`{"workflow":"p/one"}`))
}

func limitExpressionCost(t *testing.T, l limit) {
	o := harness.Options()
	o.MaxPlanCost = 100 * uint64(l.n) // as the product's, so that the limit of one expression counts
	f := newFixtureWith(t, 1, o)
	f.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, parameters: {a: '${parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, a + b + c >= 0)))}'}}]")
	execute := func(n int) executionResult {
		return f.execute(fmt.Sprintf(`{"workflow":"p/one","parameters":{"l":[%s]}}`, joinItems(n, constant("1"))))
	}
	// Each of the n³ iterations costs a few units: as many as half of the limit are too
	// many, a hundredth of it is not.
	many := 1
	for many*many*many < l.n/2 {
		many++
	}
	few := 1
	for few*few*few < l.n/100 {
		few++
	}
	checkLimit(t, l, execute(few), execute(many))
}

// textsOf are values of variables whose names begin with a text: so many that they are n bytes
// long as one object. They are made of the parameters t, of 64 KiB, and u, which is the rest.
func textsOf(name string, n int) (values, u string) {
	const piece = 64 << 10
	n -= len(`{}`) - len(`,`)
	for i := 0; ; i++ {
		size := len(name+fmt.Sprint(i)) + len(`"":"",`)
		if n < piece+2*size {
			return values + fmt.Sprintf("%s%d: '${parameters.u}'", name, i), repeatX(n - size)
		}
		values += fmt.Sprintf("%s%d: '${parameters.t}', ", name, i)
		n -= piece + size
	}
}

func limitValue(t *testing.T, l limit) {
	f := newFixture(t, 1)
	execute := func(n int) executionResult {
		values, u := textsOf("v", n)
		f.Publish(fmt.Sprint("n", n), "steps: [{label: one, set: {"+values+"}}]")
		return f.execute(fmt.Sprintf(`{"workflow":"p/n%d","parameters":{"t":%q,"u":%q}}`, n, repeatX(64<<10), u))
	}
	checkLimit(t, l, execute(l.n), execute(l.n+1))
}

func limitVariables(t *testing.T, l limit) {
	f := newFixture(t, 1)
	const text = 64 << 10
	execute := func(n int) executionResult {
		steps, reads, left := "", []string{}, n
		for i := 0; left > 0; i++ {
			if i%8 == 0 { // variables in each step
				steps += fmt.Sprintf("}}, {label: s%d, set: {", i)
			}
			steps += fmt.Sprintf("v%d: '${parameters.%s}', ", i, map[bool]string{true: "t", false: "u"}[left > text+2])
			reads = append(reads, fmt.Sprintf("n%d: '${size(vars.v%d)}'", i, i))
			if left <= text+2 {
				break
			}
			left -= text + 2
		}
		f.Publish(fmt.Sprint("n", n), "steps: ["+strings.TrimPrefix(steps, "}}, ")+"}}, {label: read, set: {"+strings.Join(reads, ", ")+"}}]")
		return f.execute(fmt.Sprintf(`{"workflow":"p/n%d","parameters":{"t":%q,"u":%q}}`, n, repeatX(text), repeatX(left-2)))
	}
	checkLimit(t, l, execute(l.n), execute(l.n+1))
}

func limitNames(t *testing.T, l limit) {
	f := newFixture(t, 1)
	set := func(n int) string {
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("v%d: 1", i))
		}
		return "{" + strings.Join(values, ", ") + "}"
	}
	execute := func(n int) executionResult {
		f.Publish(fmt.Sprint("own", n), "steps: [{label: one, set: "+set(n-l.n/2)+"}]")
		f.Publish(fmt.Sprint("n", n), fmt.Sprintf("steps: [{label: own, set: %s}, {label: more, workflowReference: {workflow: 'p/own%d:1', mode: embed}}]", set(l.n/2), n))
		return f.execute(fmt.Sprintf(`{"workflow":"p/n%d"}`, n))
	}
	checkLimit(t, l, execute(l.n), execute(l.n+1))
}

func limitValueDepth(t *testing.T, l limit) {
	f := newFixture(t, 1)
	f.Publish("one", "steps: [{label: one, set: {v: '${parameters.v}'}}]")
	execute := func(n int) executionResult {
		return f.execute(`{"workflow":"p/one","parameters":{"v":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`)
	}
	checkLimit(t, l, execute(l.n), execute(l.n+1))
}

func limitWaves(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 2 * l.n
	f := newFixtureWith(t, 1, o)
	f.ImportDevices(harness.DeviceIDs(l.n + 1)...)
	f.Publish("one", "steps: [{label: all, rollout: {by: entity.id}, workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: device, condition: 'false'}]}}]")
	execute := func(n int) executionResult {
		return f.execute(fmt.Sprintf(startFormat, "one", `"`+strings.Join(harness.DeviceIDs(n), `","`)+`"`))
	}
	checkLimit(t, l, execute(l.n), execute(l.n+1))
}
