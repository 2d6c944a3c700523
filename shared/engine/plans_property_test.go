package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// planWatcher compares the plans of ended step runs, each made in full, with the first one made
// after their end, and with the state item and the calls of blocks.
type planWatcher struct {
	*harness.Harness
	first    map[string]map[int]plan.JobPlan // by execution and step run
	compared map[string]int                  // by label: how often a plan with jobs or a value was made again
	calls    int                             // how many of the calls have been compared
}

func watchPlans(s *harness.Harness) *planWatcher {
	return &planWatcher{Harness: s, first: map[string]map[int]plan.JobPlan{}, compared: map[string]int{}}
}

// planKey returns the label under which a step run is counted: rollbacks separately.
func planKey(r *workflow.StepRun) string {
	if r.Kind == workflow.JobRollback {
		return "~" + r.Label
	}
	return r.Label
}

// check makes the plans of all step runs of an execution again that have ended.
func (w *planWatcher) check(id string) {
	w.Helper()
	w.WithoutFaults(func() {
		fresh, err := w.Engine.Inspect(w.Context(), harness.Caller.Tenant, id)
		if err != nil {
			w.Fatal(err)
		}
		x := fresh.Execution()
		if w.first[id] == nil {
			w.first[id] = map[int]plan.JobPlan{}
		}
		for i := range x.StepRuns {
			r := &x.StepRuns[i]
			if !hasEnded(x, r) {
				continue
			}
			again, err := fresh.PlanOf(w.Context(), r)
			if err != nil {
				w.Errorf("step run %d of %s: %v", r.Seq, r.Label, err)
				continue
			}
			first, known := w.first[id][r.Seq]
			if !known {
				w.first[id][r.Seq] = again
				w.compareWithItem(r, again)
				continue
			}
			if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" {
				w.Errorf("the plan of step run %d of %s (try %d of %d, superseded by %d) is another one when it is made again (-first +again):\n%s", r.Seq, planKey(r), r.Try, x.Try, r.SupersededBy, diff)
			}
			if len(again.Jobs) > 0 || again.Plan.Value != nil || again.Plan.Route > 0 || again.Plan.Question != nil || !again.Plan.Until.IsZero() {
				w.compared[planKey(r)]++
			}
		}
	})
}

// hasEnded reports whether a step run has ended and, if it belongs to a pipeline, all of that: before, the plan
// of a pipeline is not complete.
func hasEnded(x *workflow.Execution, r *workflow.StepRun) bool {
	return !r.Open() && !slices.ContainsFunc(x.StepRuns, func(o workflow.StepRun) bool { return r.Pipeline > 0 && o.Pipeline == r.Pipeline && o.Open() })
}

// compareWithItem compares a plan that was made after the end of its step run with what was committed when that
// was entered.
func (w *planWatcher) compareWithItem(r *workflow.StepRun, again plan.JobPlan) {
	w.Helper()
	if r.Pipeline == 0 && again.Plan.Problem == nil && r.Jobs > 0 && len(again.Jobs) != r.Jobs {
		w.Errorf("step run %d of %s was entered with %d jobs, and has %d", r.Seq, r.Label, r.Jobs, len(again.Jobs))
	}
	if r.Route != again.Plan.Route {
		w.Errorf("step run %d of %s took case %d, and would take %d", r.Seq, r.Label, r.Route, again.Plan.Route)
	}
	if v := r.Value; v != nil && v.Inline != nil && again.Plan.Value != nil && !bytes.Equal(v.Inline, again.Plan.Value.Inline) && r.Wait == nil && r.Status == sm.StepCompleted {
		w.Errorf("step run %d of %s has the value %s, and would have %s", r.Seq, r.Label, v.Inline, again.Plan.Value.Inline)
	}
	for i := 1; i < len(again.Jobs); i++ {
		if again.Jobs[i-1].Index >= again.Jobs[i].Index {
			w.Errorf("step run %d of %s: job %d stands before job %d", r.Seq, r.Label, again.Jobs[i-1].Index, again.Jobs[i].Index)
		}
	}
}

var tokenRE = regexp.MustCompile(`lst1\.[A-Za-z0-9_.-]+|\$\{callback\.token\}`)

// checkCalls compares the calls of blocks since the last time with the plans of their step runs that have ended.
func (w *planWatcher) checkCalls() {
	w.Helper()
	for _, c := range w.BlockCalls[w.calls:] {
		parts := strings.Split(c.Job, ".") // execution, step run, index, attempt
		seq, _ := strconv.Atoi(parts[len(parts)-3])
		index, _ := strconv.Atoi(parts[len(parts)-2])
		p, known := w.first[c.Execution][seq]
		at := slices.IndexFunc(p.Jobs, func(j workflow.JobInput) bool { return j.Index == index })
		if !known {
			continue
		}
		if at < 0 {
			w.Errorf("%s %s was called for %q, which is in no plan", c.Kind, c.Step, c.Entity)
			continue
		}
		j := p.Jobs[at]
		planned, called := []string{"", string(j.Parameters), string(j.Attributes)}, []string{c.Entity, string(c.Parameters), string(c.Attributes)}
		if j.Entity != nil {
			planned[0] = j.Entity.ID
		}
		for i := range planned {
			if want, got := normalJSON(planned[i]), normalJSON(called[i]); want != got {
				w.Errorf("job %s of %s: %s was planned, and the block got %s", strings.Join(parts[1:], "."), c.Step, want, got)
			}
		}
	}
	w.calls = len(w.BlockCalls)
}

// normalJSON is JSON without tokens, which are filled in when a message is sent, and null for none.
func normalJSON(text string) string {
	var v any
	if err := json.Unmarshal([]byte(tokenRE.ReplaceAllString(text, "TOKEN")), &v); err != nil {
		return text
	}
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		v = nil
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// everyKind has definitions that have each kind of step together, each with the labels of the step runs whose plans
// have to be compared.
var everyKind = map[string]struct{ definition, labels string }{
	"blocks": {`config: {failureTolerance: 2}
steps:
  - {label: read, functionBlock: p/pure:1, runOn: device}
  - {label: some, functionBlock: p/again:1, runOn: device, condition: "entity.name != 'd001'", parameters: {was: "${read.result.n}", name: "${entity.name}"}}
  - {label: asserted, functionBlock: p/again:1, runOn: device, assert: ["entity.name != 'd002'"], continueOnError: true, retry: {maxRetries: 2}}
  - {label: whole, functionBlock: p/again:1, runOn: global, parameters: {all: "${some.results}", failed: "${size(asserted.results)}"}}
  - {label: later, functionBlock: p/again:1, runOn: device, parameters: {all: "${whole.result}", was: "${read.result}"}}
`, "read some asserted whole later"},
	"pipelines": {`config: {executionStrategy: {parallel: true}, failureTolerance: 1}
steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device, parameters: {was: "${one.result.n}"}, retry: {maxRetries: 1}}
  - {label: three, functionBlock: p/again:1, runOn: device, condition: two.result.n > 1, parameters: {was: "${two.result.n}"}}
`, "one two"},
	"values": {`steps:
  - {label: sets, set: {a.b: "${parameters.n}", list: [1, 2, 3]}}
  - {label: load, functionBlock: p/pure:1, runOn: global, input: {keys: [a, list]}, outputKey: loaded}
  - {label: more, set: {a.c: "${vars.loaded.n + vars.a.b}"}}
  - {label: way, switch: [{when: "vars.a.c > 100", next: end}, {when: {path: a.b, op: gt, value: 0}, steps: [{label: inside, functionBlock: p/pure:1, runOn: device, parameters: {v: "${vars.a.c}"}}]}, {default: end}]}
  - {label: times, loop: {over: "${vars.list}", as: each}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device, parameters: {v: "${each}", i: "${index}"}}, {label: sum, set: {sum: "${has(vars.sum) ? vars.sum + each : each}"}}]}}
  - {label: until, loop: {while: "vars.sum < 9", max: 5}, workflow: {steps: [{label: add, set: {sum: "${vars.sum + 1}"}}]}}
  - {label: repeated, functionBlock: p/again:1, runOn: device, parameters: {v: "${vars.sum}"}, repeat: {count: 2}}
  - {label: push, functionBlock: p/again:1, runOn: item, foreach: {items: "${vars.list.map(x, x * vars.sum)}", as: it, maxInFlight: 2}, parameters: {v: "${it}", i: "${index}"}}
  - {label: fails, functionBlock: p/pure:1, runOn: global, onFailure: [{when: error.code == 'NO', steps: [{label: tell, functionBlock: p/pure:1, runOn: global, parameters: {why: "${error.message}"}}]}]}
`, "sets load more way inside one sum add repeated push tell"},
	"branches and waits": {`steps:
  - label: all
    parallel:
      branches:
        - {label: net, steps: [{label: ask, wait: {input: {title: "${parameters.n}?", deadline: 20m, onTimeout: {answer: {n: 7}}}}}, {label: used, functionBlock: p/again:1, runOn: device, parameters: {v: "${ask.result.n}"}}]}
        - {label: sec, steps: [{label: signal, wait: {signal: {name: go, deadline: 30m, onTimeout: {answer: {n: 1}}}}}, {label: taken, functionBlock: p/pure:1, runOn: device, parameters: {v: "${signal.result}"}}]}
        - {label: time, steps: [{label: pause, wait: {until: "${parameters.opens}"}}, {label: noted, set: {noted: "${parameters.opens}"}}]}
    outputKey: gathered
  - {label: cab, wait: {approval: {title: ok?, deadline: 1h, onTimeout: {next: sent}}}}
  - {label: sent, functionBlock: p/again:1, runOn: global, parameters: {token: "${callback.token}", all: "${vars.gathered}"}, callback: {deadline: 1h, onTimeout: {answer: {n: 2}}}, outputKey: said}
  - {label: asks, functionBlock: p/pure:1, runOn: global, parameters: {said: "${vars.said.n}"}}
  - {label: last, functionBlock: p/again:1, runOn: device, parameters: {asked: "${asks.result}", all: "${all.branches.net}"}}
`, "ask used taken pause noted sent asks last"},
	"rollouts": {`config: {failureTolerance: 1}
steps:
  - {label: read, functionBlock: p/pure:1, runOn: device}
  - {label: batches, rollout: {batches: [1, 50%, 100%], pause: 5m}, workflow: {steps: [{label: change, functionBlock: p/again:1, runOn: device, parameters: {was: "${read.result.n}"}}, {label: checked, functionBlock: p/pure:1, runOn: device, parameters: {was: "${change.result.n}"}}]}}
  - {label: sites, rollout: {by: "entity.name in ['d000', 'd002'] ? 'lab' : 'zrh'", order: [zrh]}, workflow: {steps: [{label: push, functionBlock: p/again:1, runOn: device}]}}
`, "read batches change checked sites push"},
	"children": {`steps:
  - {label: inner, workflowReference: {workflow: p/embedded:1, mode: embed}, parameters: {n: "${parameters.n}"}}
  - {label: one, workflowReference: {workflow: p/child:1, mode: dispatch}, parameters: {n: "${parameters.n}"}}
  - {label: many, workflowReference: {workflow: p/child:1, mode: dispatch}, foreach: {items: "${[3, 4, 5]}", as: it, maxInFlight: 2}, parameters: {n: "${it}"}}
  - {label: after, functionBlock: p/again:1, runOn: device, parameters: {one: "${one.result.output.n}", many: "${many.results.map(r, r.output.n)}"}}
`, "inner.read many after"},
	"undone": {`steps:
  - {label: read, functionBlock: p/pure:1, runOn: device}
  - {label: change, functionBlock: p/again:1, runOn: device, parameters: {was: "${read.result.n}"}}
  - {label: book, functionBlock: p/once:1, runOn: global, compensate: {functionBlock: p/again:1, parameters: {n: "${book.result.n}"}}}
  - {label: items, functionBlock: p/again:1, runOn: item, foreach: {items: "${[1, 2, 3]}", as: it}, parameters: {v: "${it}"}}
  - {label: fails, functionBlock: p/again:1, runOn: device}
`, "read change book items fails ~change ~book ~items ~fails"},
}

// scriptOfPlans answers calls by what they are alone: with a number, a failure of the step "fails", now and then
// another failure, and attributes that entities get.
func scriptOfPlans(s *harness.Harness, r *rand.Rand, failing bool) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		o := &harness.Outcome{Result: fmt.Appendf(nil, `{"n":%d}`, r.IntN(6))}
		switch {
		case c.Kind == workflow.JobExecute && c.Step == "fails", failing && r.IntN(12) == 0:
			o.FailCode, o.FailMessage = "NO", fmt.Sprint("no ", r.IntN(100))
		case failing && r.IntN(15) == 0:
			o.FailCode, o.Retryable = "BUSY", true
		case failing && r.IntN(20) == 0:
			o.Crash = true
		case c.Step == "asks" && c.Resume == nil:
			o.Wait = &workflow.AskedWait{Signal: "go", Until: s.Now().Add(time.Hour)}
		case c.Kind == workflow.JobExecute && !c.Pure && c.Entity != "":
			o.SetAttributes = map[string]any{"changed": r.IntN(9)}
		}
		return o
	}
}

// publishChildren publishes the definitions that others refer to.
func publishChildren(s *harness.Harness) {
	s.Publish("embedded", "steps:\n  - {label: read, functionBlock: p/pure:1, runOn: device, parameters: {n: \"${parameters.n}\"}}\n")
	s.Publish("child", "steps:\n  - {label: twice, set: {n: \"${parameters.n * 2}\"}}\noutput: {n: \"${vars.n}\"}\n")
}

// The plan of an ended step run is the same whenever it is made again, in full: its jobs, their
// entities, parameters and order, the variables set and the case taken. Blocks were called with
// what it contains. This holds for each kind of step, whatever else happens to the execution
// meanwhile.
func TestPlans_OfEachKindAreTheSameAgain(t *testing.T) {
	for name, c := range everyKind {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 5)
			publishChildren(s)
			s.Publish("w", c.definition)
			w := watchPlans(s)
			s.Script = scriptOfPlans(s, rand.New(rand.NewPCG(1, 1)), false)
			req := harness.NewStartRequest("w", harness.DeviceIDs(5)...)
			req.Parameters = fmt.Appendf(nil, `{"n":3,"opens":%q}`, s.Now().Add(5*time.Minute).UTC().Format(time.RFC3339))
			id := s.StartWith(req)
			for range 100 {
				s.RunFor(3 * time.Minute)
				w.check(id)
				w.checkCalls()
			}
			if x := s.Load(id); !sm.Terminal(x.State) {
				t.Fatalf("it is in %s", x.State)
			}
			for label := range strings.FieldsSeq(c.labels) {
				if w.compared[label] == 0 {
					t.Errorf("no plan of %s was compared", label)
				}
			}
		})
	}
}

// So it is for definitions that are drawn, with failures, crashes, repeated and lost messages, answers and signals,
// and operators who retry and go back.
func TestPlans_AtRandomAreTheSameAgain(t *testing.T) {
	compared := 0
	for seed := uint64(1); seed <= 48 && !t.Failed(); seed++ {
		r := rand.New(rand.NewPCG(seed, 11))
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		devices := 2 + r.IntN(5)
		s.ImportDevices(harness.DeviceIDs(devices)...)
		publishChildren(s)
		definition := drawDefinition(r)
		s.Publish("w", definition)
		w := watchPlans(s)
		script := scriptOfPlans(s, r, r.IntN(3) > 0)
		req := harness.NewStartRequest("w", harness.DeviceIDs(devices)...)
		req.Parameters = fmt.Appendf(nil, `{"n":3,"opens":%q}`, s.Now().Add(5*time.Minute).UTC().Format(time.RFC3339))
		id := s.StartWith(req)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if r.IntN(8) == 0 { // while it is at work
				w.check(id)
			}
			return script(c)
		}
		rate := []int{0, 0, 80}[r.IntN(3)]
		s.Faults = func(faults.Call) faults.Fault {
			if rate > 0 && r.IntN(rate) == 0 {
				return []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply}[r.IntN(3)]
			}
			return faults.None
		}
		s.QueueFaults.DuplicateOneIn, s.QueueFaults.Shuffle = r.IntN(3), r.IntN(2) == 0
		for k := range 60 {
			s.RunFor(time.Duration(r.IntN(90)) * time.Second)
			w.check(id)
			w.checkCalls()
			var x *workflow.Execution
			s.WithoutFaults(func() { x = s.Load(id) })
			if sm.Terminal(x.State) && (r.IntN(3) == 0 || x.State == sm.ExecutionCompletedAck || x.State == sm.ExecutionCancelledAck) {
				break
			}
			faults.CatchCrash(func() { commandAtRandom(t, s, x, r, k) })
		}
		for _, n := range w.compared {
			compared += n
		}
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, definition)
		}
	}
	if compared < 1000 {
		t.Errorf("only %d plans were compared", compared)
	}
}

// drawDefinition draws a definition of one of the kinds.
func drawDefinition(r *rand.Rand) string {
	switch r.IntN(7) {
	case 6:
		return drawPipelines(r)
	case 0:
		return defgen.Generate(func(_ string, n int) int { return r.IntN(n) }).YAML()
	case 1, 2:
		return defgen.DrawFlow(r.IntN, r.IntN(2) == 0, r.IntN(2) == 0).YAML()
	case 3:
		return defgen.DrawRollouts(r.IntN, r.IntN(2) == 0, r.IntN(2) == 0).YAML()
	}
	names := make([]string, 0, len(everyKind))
	for name := range everyKind {
		names = append(names, name)
	}
	slices.Sort(names)
	return everyKind[names[r.IntN(len(names))]].definition
}

// drawPipelines draws steps on entities that read results of each other, with global steps and a loop between them, so
// that they are several pipelines.
func drawPipelines(r *rand.Rand) string {
	var text strings.Builder
	fmt.Fprintf(&text, "config: {executionStrategy: {parallel: true}, failureTolerance: %d, onEntityFailure: leave}\nsteps:\n", r.IntN(4))
	var before []string
	draw := func(indent string, n int) {
		for range n {
			label := fmt.Sprint("s", len(before))
			fmt.Fprintf(&text, "%s  - {label: %s", indent, label)
			if r.IntN(4) == 0 {
				text.WriteString(", functionBlock: p/pure:1, runOn: global}\n")
				before = append(before, "")
				continue
			}
			fmt.Fprintf(&text, ", functionBlock: p/%s:1, runOn: device", []string{"pure", "pure", "pure", "again"}[r.IntN(4)])
			if r.IntN(5) == 0 {
				text.WriteString(", continueOnError: true")
			}
			if r.IntN(6) == 0 {
				fmt.Fprintf(&text, ", condition: \"entity.name != 'd00%d'\"", r.IntN(4))
			}
			var read []string
			for _, other := range before {
				if other != "" && r.IntN(3) == 0 {
					read = append(read, fmt.Sprintf("%s: '${has(%s.result) ? %s.result : null}'", other, other, other))
				}
			}
			fmt.Fprintf(&text, ", parameters: {%s}}\n", strings.Join(read, ", "))
			before = append(before, label)
		}
	}
	draw("", 2+r.IntN(4))
	if r.IntN(3) == 0 {
		text.WriteString("  - label: rounds\n    loop: {over: '${[1, 2, 3]}', as: n}\n    workflow:\n      steps:\n")
		draw("      ", 2+r.IntN(3))
	} else {
		draw("", 2+r.IntN(4))
	}
	return text.String()
}

// commandAtRandom sends what may or may not be allowed now: an answer, a signal, a retry, a step back.
func commandAtRandom(t *testing.T, s *harness.Harness, x *workflow.Execution, r *rand.Rand, k int) {
	e, c, key := s.Engine, person("bob", defgen.Role), fmt.Sprint(k)
	label := ""
	if len(x.StepRuns) > 0 {
		label = x.StepRuns[r.IntN(len(x.StepRuns))].Label
	}
	var err error
	switch n := r.IntN(8); {
	case sm.Terminal(x.State):
		req := views.RetryRequest{Reason: "mended", Entities: []views.RetryEntities{"", "", "failed", "all"}[r.IntN(4)]}
		if r.IntN(2) == 0 {
			req.From = label
		}
		_, err = e.Retry(t.Context(), harness.Caller, x.ID, req)
	case n < 3:
		_, err = e.Answer(t.Context(), c, x.ID, views.AnswerRequest{Input: fmt.Appendf(nil, `{"n":%d}`, r.IntN(9)), IdempotencyKey: key})
	case n < 4:
		_, err = e.Answer(t.Context(), c, x.ID, views.AnswerRequest{Input: fmt.Appendf(nil, `{"approved":%t}`, r.IntN(4) > 0), IdempotencyKey: key})
	case n < 6:
		name := append([]string{"go"}, defgen.FlowSignals...)[r.IntN(3)]
		_, err = e.Signal(t.Context(), c, x.ID, name, fmt.Appendf(nil, `{"n":%d}`, r.IntN(9)), key, "")
	case n < 7:
		_, err = e.Rewind(t.Context(), c, x.ID, views.RewindRequest{To: label, Force: true})
	default:
		_, err = e.Resume(t.Context(), c, x.ID, "go on")
	}
	if workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("a command: %v", err)
	}
}
