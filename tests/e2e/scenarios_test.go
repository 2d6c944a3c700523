package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestScenarios runs the acceptance scenarios that need no accident, side by side
// on one stack, each with entities, blocks and a workflow of its own.
func TestScenarios(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*scene){
		"N02_unknown_block":               unknownBlock,
		"N03_publish_refused":             publishRefused,
		"N12_N13_condition_and_assertion": conditionAndAssertion,
		"N18_N21_fleet":                   fleetOfAHundred,
		"N27_waits_and_resumes":           waitsAndResumes,
		"N28_disjoint":                    disjoint,
		"N30_crossed_orders":              crossedOrders,
		"N32_N38_unsafe":                  unsafeFailure,
		"N34_empty":                       nothingMatches,
		"N37_pure_failure":                pureFailure,
		"N39_rollback_in_reverse":         rollbackInReverse,
		"N40_rollback_fails":              rollbackFails,
		"N47_N48_cancel":                  cancelMidway,
		"N59_N60_views_agree":             viewsAgree,
		"curl_lines":                      curlLines,
		"N60_status_contract":             statusContract,
		"retries_are_linked_jobs":         linkedRetries,
		"idempotent_start":                idempotentStart,
		"other_tenant":                    otherTenant,
		"unclaimed":                       unclaimed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *s
			mine.t = t
			c := &scene{system: &mine, b: b, name: strings.ToLower(strings.ReplaceAll(name, "-", "_"))}
			scenario(c)
		})
	}
}

// scene is one scenario's corner of the stack.
type scene struct {
	*system
	b    *blocks
	name string
}

// kind is the scene's own entity type.
func (c *scene) kind() string { return "k-" + c.name }

// block registers a block of the scene; does decides what it does.
func (c *scene) block(name string, w workflow.Block, does func(call) answer) {
	c.t.Helper()
	w.Name = c.name + "-" + name
	c.b.answer(w.Name, does)
	c.b.register(c.system, w)
}

// define publishes the scene's workflow. In the steps, KIND stands for its entity
// type, WF-NAME for a further workflow of the scene, and a block is named by its
// short name.
func (c *scene) define(extra string, steps ...string) {
	c.t.Helper()
	source := fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\nseedEntity: %s\n%ssteps:\n", c.name, c.kind(), extra)
	for _, step := range steps {
		source += "  - {" + c.spelled(step) + "}\n"
	}
	c.publish(source)
}

// run starts the scene's workflow over ids.
func (c *scene) run(parameters string, ids ...string) string {
	c.t.Helper()
	req := views.StartRequest{Workflow: "test/w-" + c.name, Parameters: json.RawMessage(parameters)}
	if len(ids) > 0 {
		req.ExecuteOnParameters = &workflow.Selector{IDs: ids}
	}
	x, _, err := c.Start(c.t.Context(), req)
	if err != nil {
		c.t.Fatalf("start: %v", err)
	}
	return x.ID
}

// ends waits for a run's end and checks what holds of every end: a history
// without gaps, one terminal event, no lock left.
func (c *scene) ends(id string, in sm.ExecutionState) views.ExecutionView {
	c.t.Helper()
	x := c.rests(id, in)
	c.events(id)
	if sm.Acknowledged(in) {
		c.unlocked(id)
	}
	return x
}

// jobs lists a run's jobs that pass a filter.
func (c *scene) jobs(id string, f views.JobFilter) []workflow.Job {
	c.t.Helper()
	var all []workflow.Job
	for j, err := range c.Jobs(c.t.Context(), id, f) {
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// of counts the calls of a block of the scene for an operation.
func (c *scene) of(block, operation string) int {
	return c.b.called(func(k call) bool {
		return strings.HasPrefix(k.Block, "test/"+c.name+"-"+block+":") && k.Operation == operation
	})
}

func unknownBlock(c *scene) {
	c.define("", "label: a, functionBlock: 'test/nobody:1', runOn: global")
	x := c.ends(c.run("{}"), sm.ExecutionFailedSafeAck)
	if jobs := c.jobs(x.ID, views.JobFilter{}); !strings.Contains(x.Reason, "test/nobody:1") || x.Progress.Jobs.Total != 0 || len(jobs) != 0 {
		c.t.Errorf("reason %q, progress %+v, jobs %+v", x.Reason, x.Progress, jobs)
	}
}

func publishRefused(c *scene) {
	for source, place := range map[string]string{
		"package: p\nname: w\nversion: 1.0.0\nsteps: []\n":                                                                                             "steps",
		"package: p\nname: w\nversion: 1.0.0\nsteps: [{label: entity, functionBlock: p/b, runOn: global}]\n":                                           "steps[0].label",
		"package: p\nname: w\nversion: 1.0.0\nsteps: [{label: a, functionBlock: p/b, runOn: global}, {label: a, functionBlock: p/b, runOn: global}]\n": "steps[1].label",
	} {
		status, body := c.post("POST", "/workflow-definition/publish", "application/yaml", source)
		if status != 400 || !strings.Contains(body, `"`+place+`"`) || !strings.Contains(body, `"line":4`) {
			c.t.Errorf("%s\ngot %d %s", source, status, body)
		}
	}
}

func conditionAndAssertion(c *scene) {
	ids := c.entities(c.kind(), 3)
	c.block("maybe", workflow.Block{Idempotent: true}, nil)
	c.block("sure", workflow.Block{Idempotent: true}, nil)
	c.define("", "label: never, block: maybe, runOn: global, condition: 'false', assert: 'false'",
		"label: unknown, block: maybe, runOn: global, condition: parameters.nothing.at == 1, assert: 'false'",
		"label: maybe, block: maybe, runOn: KIND, condition: entity.n > 2, assert: 'entity.n == 3'",
		"label: sure, block: sure, runOn: KIND, assert: 'parameters.go == true'")
	id := c.run(`{"go":false}`, ids...)
	x := c.ends(id, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseAssertion || *x.Error.Step != "sure" {
		c.t.Errorf("cause %v, error %+v", value(x.Cause), x.Error)
	}
	if n := c.of("maybe", "EXECUTE"); n != 1 {
		c.t.Errorf("the condition holds for one entity, %d were called", n)
	}
	for v, err := range c.Steps(c.t.Context(), id) {
		if err != nil {
			c.t.Fatal(err)
		}
		want := map[string]sm.StepState{"never": sm.StepSkipped, "unknown": sm.StepSkipped, "maybe": sm.StepCompleted, "sure": sm.StepFailed}[v.Step]
		if v.Status != want || v.Step == "maybe" && v.Skipped != 2 || v.Status == sm.StepSkipped && v.Jobs.Total != 0 {
			c.t.Errorf("step %s is %s, %d entities skipped, %d jobs", v.Step, v.Status, v.Skipped, v.Jobs.Total)
		}
	}
	if n := c.of("sure", "EXECUTE"); n != 0 || len(c.jobs(id, views.JobFilter{Step: "sure"})) != 0 {
		c.t.Errorf("a false assertion left %d calls", n)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, "looked"); err != nil {
		c.t.Fatal(err)
	}
	c.ends(id, sm.ExecutionFailedUnsafeAck)
}

func fleetOfAHundred(c *scene) {
	ids := c.entities(c.kind(), 100)
	var mu sync.Mutex
	seen := map[string]int{}
	atReport := 0
	g := newGate()
	c.block("visit", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.on() == ids[0] {
			g.pass(k)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[k.on()]++
		return ok(map[string]any{"n": k.Entity.Attributes["n"]})
	})
	c.block("report", workflow.Block{Pure: true}, func(k call) answer {
		mu.Lock()
		defer mu.Unlock()
		atReport = len(seen)
		return ok(k.Parameters)
	})
	c.define("config: {maxInFlight: 7}\n", "label: visit, block: visit, runOn: KIND",
		"label: report, block: report, runOn: global, parameters: {n: '${size(visit.results)}', first: \"${visit.results['e-0001'].n}\"}")
	id := c.run("{}", ids...)
	hundred := func(when string) {
		on := map[string]bool{}
		jobs := c.jobs(id, views.JobFilter{Step: "visit"})
		for _, j := range jobs {
			on[j.Entity.ID] = true
		}
		if len(jobs) != 100 || len(on) != 100 {
			c.t.Errorf("%s there are %d jobs on %d devices, want 100", when, len(jobs), len(on))
		}
	}
	<-g.entered
	hundred("when the step has begun")
	close(g.open)
	c.ends(id, sm.ExecutionCompletedAck)
	hundred("at the end")
	if len(seen) != 100 || atReport != 100 {
		c.t.Errorf("%d devices visited, %d of them when the global step ran", len(seen), atReport)
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || string(r.Steps["report"].Result) != `{"first":1,"n":100}` {
		c.t.Errorf("result %s, %v", r.Steps["report"].Result, err)
	}
}

// gate is a block that waits until it is opened.
type gate struct {
	entered chan string
	open    chan struct{}
}

func newGate() *gate { return &gate{make(chan string, 1000), make(chan struct{})} }

func (g *gate) pass(k call) answer {
	g.entered <- k.Job.Execution
	<-g.open
	return nil
}

func waitsAndResumes(c *scene) {
	ids := c.entities(c.kind(), 3)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.define("", "label: work, block: work, runOn: KIND")
	a := c.run("{}", ids[0], ids[1])
	<-g.entered
	b := c.run("{}", ids[1], ids[2])
	var waiting views.ExecutionView
	eventually(c.t, "b waits for the lock that a holds", func() bool {
		var err error
		waiting, err = c.Execution(c.t.Context(), b)
		return err == nil && waiting.Waiting != nil && waiting.Waiting.Kind == views.WaitLock
	})
	w := waiting.Waiting
	if waiting.State != sm.ExecutionScheduled || len(w.For) != 1 || value(w.For[0].HeldBy) != a || value(w.For[0].Entity) != c.kind()+"/"+ids[1] || w.Since.IsZero() {
		c.t.Errorf("state %s, waiting %+v", waiting.State, w)
	}
	l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: ids[1]})
	if err != nil || value(l.HeldBy) != a || len(l.Waiting) != 1 || l.Waiting[0].Execution != b {
		c.t.Errorf("lock %+v, %v", l, err)
	}
	close(g.open)
	c.ends(a, sm.ExecutionCompletedAck)
	c.ends(b, sm.ExecutionCompletedAck)
}

func disjoint(c *scene) {
	ids := c.entities(c.kind(), 2)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.define("", "label: work, block: work, runOn: KIND")
	a, b := c.run("{}", ids[0]), c.run("{}", ids[1])
	if one, other := <-g.entered, <-g.entered; one == other {
		c.t.Error("two runs over different entities did not run side by side")
	}
	close(g.open)
	c.ends(a, sm.ExecutionCompletedAck)
	c.ends(b, sm.ExecutionCompletedAck)
}

func crossedOrders(c *scene) {
	ids := c.entities(c.kind(), 6)
	c.block("work", workflow.Block{}, nil) // a second call on one device at a time is a fault of the block server
	c.define("", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND")
	var runs []string
	for i := range 8 {
		runs = append(runs, c.run("{}", ids[i%6], ids[(i+3)%6], ids[(i+1)%6]))
	}
	for _, id := range runs {
		c.ends(id, sm.ExecutionCompletedAck)
	}
	if n := c.of("work", "EXECUTE"); n != 8*3*2 {
		c.t.Errorf("%d calls, want %d: a block that must not run twice did, or did not run", n, 8*3*2)
	}
}
