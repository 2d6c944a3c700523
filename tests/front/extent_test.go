package front

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
)

// runs are the limits of what runs may come to. Each tries one, and its neighbour.
var runs = map[string]func(t *testing.T, l limit){
	"entities of a run":                    entitiesOfARun,
	"step runs of a run":                   stepRuns,
	"steps, embedded definitions included": embeddedSteps,
	"generations of runs that start runs":  generations,
	"tries of a run":                       triesOfARun,
	"events of a run":                      eventsOfARun,
	"result of a job":                      resultOfAJob,
	"cost of an expression":                costOfAnExpression,
}

// TestExtents goes to the limits of runs.
func TestExtents(t *testing.T) {
	for _, l := range limits(t) {
		if try := runs[l.what]; try != nil {
			t.Run(l.what, func(t *testing.T) { try(t, l) })
		}
	}
}

// told is what a run has come to.
type told struct {
	ID, State, Reason string
	Error             *struct{ Code, Message string }
}

func (w *world) told(id string) (x told) {
	w.Helper()
	w.must(&x, "GET", "/workflow-execution/id/"+id, "")
	return x
}

// ended lets a run come to its end.
func (w *world) ended(id string) told {
	w.Helper()
	for range 100 {
		if x := w.told(id); strings.HasSuffix(x.State, "_ACK") || x.State == "FAILED_UNSAFE" {
			return x
		}
		w.Tick(time.Minute)
	}
	w.Fatalf("run %s does not end: %+v", id, w.told(id))
	return told{}
}

func (w *world) run(body string) told {
	w.Helper()
	var x struct{ ID string }
	w.must(&x, "POST", "/workflow-execution", body)
	return w.ended(x.ID)
}

// pair wants that the first run has ended well, and the second by the limit.
func pair(t *testing.T, l limit, at, beyond told) {
	t.Helper()
	if at.State != "COMPLETED_ACK" {
		t.Errorf("at the limit: %+v %+v", at, at.Error)
	}
	if beyond.State == "COMPLETED_ACK" || beyond.Error == nil || beyond.Error.Code != l.code {
		t.Errorf("beyond it, want %s: %+v %+v", l.code, beyond, beyond.Error)
	}
}

func entitiesOfARun(t *testing.T, l limit) {
	o := stage.Options()
	o.MaxEntities = 3
	w := openWith(t, 1, o)
	w.Devices("a", "b", "c", "d")
	w.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]")
	pair(t, l, w.run(fmt.Sprintf(selectOf, "one", `"a","b","c"`)), w.run(fmt.Sprintf(selectOf, "one", `"a","b","c","d"`)))
}

func stepRuns(t *testing.T, l limit) {
	o := stage.Options()
	o.Policy.MaxSteps = 4
	w := openWith(t, 1, o)
	for _, n := range []int{4, 5} {
		w.Publish(fmt.Sprint("n", n), fmt.Sprintf("steps: [{label: one, functionBlock: p/pure:1, runOn: global, repeat: {count: %d}}]", n))
	}
	pair(t, l, w.run(`{"workflow":"p/n4"}`), w.run(`{"workflow":"p/n5"}`))
}

func embeddedSteps(t *testing.T, l limit) {
	o := stage.Options()
	o.Policy.MaxSteps = 2 * l.n
	w := openWith(t, 1, o)
	inner := func(n int) string {
		return "steps: [" + list(n, func(i int) string {
			return fmt.Sprintf("{label: s%d, workflow: {steps: [{label: t%d, functionBlock: p/pure:1, runOn: global, condition: 'false'}]}}", i, i)
		}) + "]"
	}
	w.Publish("inner", inner(99)) // 198 steps
	// Five embedded ones are five steps and 990, and what is missing is added.
	outer := func(more int) string {
		return "steps: [" + list(5, func(i int) string {
			return fmt.Sprintf("{label: e%d, workflowReference: {workflow: p/inner, mode: embed}}", i)
		}) +
			"," + list(more, func(i int) string {
			return fmt.Sprintf("{label: m%d, functionBlock: p/pure:1, runOn: global, condition: 'false'}", i)
		}) + "]"
	}
	w.Publish("at", outer(l.n-995))
	w.Publish("beyond", outer(l.n-994))
	pair(t, l, w.run(`{"workflow":"p/at"}`), w.run(`{"workflow":"p/beyond"}`))
}

func generations(t *testing.T, l limit) {
	w := open(t, 1)
	w.Publish("g0", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	for i := range l.n + 1 {
		w.Publish(fmt.Sprint("g", i+1), fmt.Sprintf("steps: [{label: one, workflowReference: {workflow: p/g%d, mode: dispatch}}]", i))
	}
	at, beyond := w.run(fmt.Sprintf(`{"workflow":"p/g%d"}`, l.n)), w.run(fmt.Sprintf(`{"workflow":"p/g%d"}`, l.n+1))
	pair(t, l, at, beyond)
	if !strings.HasSuffix(beyond.Reason, "runs that start runs go too deep") {
		t.Errorf("it does not say why: %s", beyond.Reason)
	}
}

func triesOfARun(t *testing.T, l limit) {
	o := stage.Options()
	o.Policy.MaxSteps = 10 * l.n
	w := openWith(t, 1, o)
	w.Script = func(stage.Call) *stage.Outcome { return &stage.Outcome{Fail: "NO"} }
	w.Publish("one", "steps: [{label: one, functionBlock: p/forever:1, runOn: global}]")
	x := w.run(`{"workflow":"p/one"}`)
	for try := 2; try <= l.n; try++ {
		w.must(nil, "POST", "/workflow-execution/"+x.ID+"/retry", "{}")
		w.ended(x.ID)
	}
	if a := w.ask("POST", "/workflow-execution/"+x.ID+"/retry", "{}"); a.status != l.status || !said(a, l.code) {
		t.Errorf("one try more: %s", a)
	}
}

func eventsOfARun(t *testing.T, l limit) {
	w := open(t, 1)
	w.Script = func(stage.Call) *stage.Outcome { return &stage.Outcome{Fail: "NO"} }
	w.Publish("one", "steps: [{label: one, functionBlock: p/forever:1, runOn: global}]")
	w.Publish("two", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, delay: 1h}, {label: two, functionBlock: p/pure:1, runOn: global}]")
	for _, events := range []int{l.n - 1, l.n} {
		x := w.run(`{"workflow":"p/one"}`)
		w.age(x.ID, events)
		a := w.ask("POST", "/workflow-execution/"+x.ID+"/retry", "{}")
		if events < l.n && a.status != 202 || events == l.n && (a.status != l.status || !said(a, l.code)) {
			t.Errorf("a try after %d events: %s", events, a)
		}
	}
	w.Script = nil
	for _, events := range []int{l.n - 100, l.n} {
		var x struct{ ID string }
		w.must(&x, "POST", "/workflow-execution", `{"workflow":"p/two"}`)
		w.age(x.ID, events)
		y := w.ended(x.ID)
		if events < l.n && y.State != "COMPLETED_ACK" || events == l.n && (y.State == "COMPLETED_ACK" || y.Error == nil || !strings.EqualFold(y.Error.Code, l.code)) {
			t.Errorf("a step after %d events: %+v %+v", events, y, y.Error)
		}
	}
}

// age gives a run a long past.
func (w *world) age(id string, events int) {
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

func resultOfAJob(t *testing.T, l limit) {
	o := stage.Options()
	o.MaxResults = 4 * l.n
	w := openWith(t, 1, o)
	size := 0
	w.Script = func(stage.Call) *stage.Outcome {
		return &stage.Outcome{Result: json.RawMessage(`"` + xs(size-2) + `"`)}
	}
	w.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]")
	size = l.n
	at := w.run(`{"workflow":"p/one"}`)
	size++
	pair(t, l, at, w.run(`{"workflow":"p/one"}`))
}

func costOfAnExpression(t *testing.T, l limit) {
	w := open(t, 1)
	w.Publish("one", "steps: [{label: one, functionBlock: p/pure:1, runOn: global, parameters: {a: '${parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, a + b + c >= 0)))}'}}]")
	run := func(n int) told {
		return w.run(fmt.Sprintf(`{"workflow":"p/one","parameters":{"l":[%s]}}`, list(n, same("1"))))
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
	pair(t, l, run(few), run(side))
}
