package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// executionLimits are the limits of what runs may come to. Each tries one, and its neighbour.
var executionLimits = map[string]func(t *testing.T, l limit){
	"entities of an execution":                        limitEntities,
	"step runs of an execution":                       limitStepRuns,
	"steps, embedded definitions included":            limitEmbeddedSteps,
	"generations of executions that start executions": limitChildDepth,
	"tries of an execution":                           limitTries,
	"events of an execution":                          limitEvents,
	"result of a job":                                 limitResult,
	"cost of an expression":                           limitExpressionCost,
}

// TestExecution_LimitsHold goes to the limits of runs.
func TestExecution_LimitsHold(t *testing.T) {
	for _, l := range readLimits(t) {
		if try := executionLimits[l.name]; try != nil {
			t.Run(l.name, func(t *testing.T) { try(t, l) })
		}
	}
}

// executionResult is what a run has come to.
type executionResult struct {
	ID, State, Reason string
	Error             *struct{ Code, Message string }
}

func (w *fixture) execution(id string) (x executionResult) {
	w.Helper()
	w.mustDo(&x, "GET", "/workflow-execution/id/"+id, "")
	return x
}

// awaitEnd lets a run come to its end.
func (w *fixture) awaitEnd(id string) executionResult {
	w.Helper()
	for range 100 {
		if x := w.execution(id); strings.HasSuffix(x.State, "_ACK") || x.State == "FAILED_UNSAFE" {
			return x
		}
		w.RunFor(time.Minute)
	}
	w.Fatalf("run %s does not end: %+v", id, w.execution(id))
	return executionResult{}
}

func (w *fixture) execute(body string) executionResult {
	w.Helper()
	var x struct{ ID string }
	w.mustDo(&x, "POST", "/workflow-execution", body)
	return w.awaitEnd(x.ID)
}

// checkLimit wants that the first run has ended well, and the second by the limit.
func checkLimit(t *testing.T, l limit, at, beyond executionResult) {
	t.Helper()
	if at.State != "COMPLETED_ACK" {
		t.Errorf("at the limit: %+v %+v", at, at.Error)
	}
	if beyond.State == "COMPLETED_ACK" || beyond.Error == nil || beyond.Error.Code != l.code {
		t.Errorf("beyond it, want %s: %+v %+v", l.code, beyond, beyond.Error)
	}
}

func limitEntities(t *testing.T, l limit) {
	o := harness.Options()
	o.MaxEntities = 3
	w := newFixtureWith(t, 1, o)
	w.ImportDevices("a", "b", "c", "d")
	w.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]")
	checkLimit(t, l, w.execute(fmt.Sprintf(startFormat, "one", `"a","b","c"`)), w.execute(fmt.Sprintf(startFormat, "one", `"a","b","c","d"`)))
}

func limitStepRuns(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 4
	w := newFixtureWith(t, 1, o)
	for _, n := range []int{4, 5} {
		w.Publish(fmt.Sprint("n", n), fmt.Sprintf("steps: [{label: one, functionBlock: p/pure:1, runOn: global, repeat: {count: %d}}]", n))
	}
	checkLimit(t, l, w.execute(`{"workflow":"p/n4"}`), w.execute(`{"workflow":"p/n5"}`))
}

func limitEmbeddedSteps(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 2 * l.n
	w := newFixtureWith(t, 1, o)
	inner := func(n int) string {
		return "steps: [" + joinItems(n, func(i int) string {
			return fmt.Sprintf("{label: s%d, workflow: {steps: [{label: t%d, functionBlock: p/pure:1, runOn: global, condition: 'false'}]}}", i, i)
		}) + "]"
	}
	w.Publish("inner", inner(99)) // 198 steps
	// Five embedded ones are five steps and 990, and what is missing is added.
	outer := func(more int) string {
		return "steps: [" + joinItems(5, func(i int) string {
			return fmt.Sprintf("{label: e%d, workflowReference: {workflow: p/inner, mode: embed}}", i)
		}) +
			"," + joinItems(more, func(i int) string {
			return fmt.Sprintf("{label: m%d, functionBlock: p/pure:1, runOn: global, condition: 'false'}", i)
		}) + "]"
	}
	w.Publish("at", outer(l.n-995))
	w.Publish("beyond", outer(l.n-994))
	checkLimit(t, l, w.execute(`{"workflow":"p/at"}`), w.execute(`{"workflow":"p/beyond"}`))
}

func limitChildDepth(t *testing.T, l limit) {
	w := newFixture(t, 1)
	w.Publish("g0", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	for i := range l.n + 1 {
		w.Publish(fmt.Sprint("g", i+1), fmt.Sprintf("steps: [{label: one, workflowReference: {workflow: p/g%d, mode: dispatch}}]", i))
	}
	at, beyond := w.execute(fmt.Sprintf(`{"workflow":"p/g%d"}`, l.n)), w.execute(fmt.Sprintf(`{"workflow":"p/g%d"}`, l.n+1))
	checkLimit(t, l, at, beyond)
	if !strings.HasSuffix(beyond.Reason, "child executions are nested too deeply") {
		t.Errorf("it does not say why: %s", beyond.Reason)
	}
}

func limitTries(t *testing.T, l limit) {
	o := harness.Options()
	o.Policy.MaxStepRuns = 10 * l.n
	w := newFixtureWith(t, 1, o)
	w.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "NO"} }
	w.Publish("one", "steps: [{label: one, functionBlock: p/forever:1, runOn: global}]")
	x := w.execute(`{"workflow":"p/one"}`)
	for try := 2; try <= l.n; try++ {
		w.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/retry", "{}")
		w.awaitEnd(x.ID)
	}
	if a := w.do("POST", "/workflow-execution/"+x.ID+"/retry", "{}"); a.status != l.status || !hasCode(a, l.code) {
		t.Errorf("one try more: %s", a)
	}
}

func limitEvents(t *testing.T, l limit) {
	w := newFixture(t, 1)
	w.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "NO"} }
	w.Publish("one", "steps: [{label: one, functionBlock: p/forever:1, runOn: global}]")
	w.Publish("two", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}, {label: two, functionBlock: p/pure:1, runOn: global}]")
	for _, events := range []int{l.n - 1, l.n} {
		x := w.execute(`{"workflow":"p/one"}`)
		w.setEventCount(x.ID, events)
		a := w.do("POST", "/workflow-execution/"+x.ID+"/retry", "{}")
		if events < l.n && a.status != 202 || events == l.n && (a.status != l.status || !hasCode(a, l.code)) {
			t.Errorf("a try after %d events: %s", events, a)
		}
	}
	w.Script = nil
	for _, events := range []int{l.n - 100, l.n} {
		var x struct{ ID string }
		w.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/two"}`)
		w.setEventCount(x.ID, events)
		y := w.awaitEnd(x.ID)
		if events < l.n && y.State != "COMPLETED_ACK" || events == l.n && (y.State == "COMPLETED_ACK" || y.Error == nil || !strings.EqualFold(y.Error.Code, l.code)) {
			t.Errorf("a step after %d events: %+v %+v", events, y, y.Error)
		}
	}
}

// setEventCount gives a run a long past.
func (w *fixture) setEventCount(id string, events int) {
	w.Helper()
	x := w.Load(id)
	seen := x.Version
	x.Version++
	x.Commit = w.Nonce()
	for i := range x.Events {
		x.Events[i].Sequence += int64(events) - x.Sequence
	}
	x.Sequence = int64(events)
	if _, ok, err := w.Open().Store.Commit(context.Background(), seen, x, false); err != nil || !ok {
		w.Fatalf("%v, %v", ok, err)
	}
}

func limitResult(t *testing.T, l limit) {
	o := harness.Options()
	o.MaxResultBytes = 4 * l.n
	w := newFixtureWith(t, 1, o)
	size := 0
	w.Script = func(harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{Result: json.RawMessage(`"` + repeatX(size-2) + `"`)}
	}
	w.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	size = l.n
	at := w.execute(`{"workflow":"p/one"}`)
	size++
	checkLimit(t, l, at, w.execute(`{"workflow":"p/one"}`))
}

func limitExpressionCost(t *testing.T, l limit) {
	w := newFixture(t, 1)
	w.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, parameters: {a: '${parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, a + b + c >= 0)))}'}}]")
	run := func(n int) executionResult {
		return w.execute(fmt.Sprintf(`{"workflow":"p/one","parameters":{"l":[%s]}}`, joinItems(n, constant("1"))))
	}
	// Each turn costs some units: half of the limit's turns are too many, a
	// hundredth of them are not.
	side := 1
	for side*side*side < l.n/2 {
		side++
	}
	few := 1
	for few*few*few < l.n/100 {
		few++
	}
	checkLimit(t, l, run(few), run(side))
}
