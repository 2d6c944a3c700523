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

// The acceptance scenarios without injected faults run in parallel on one stack, each
// with its own entities, blocks and workflow.
func TestScenarios_ReachExpectedState(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	for name, scenario := range map[string]func(*fixture){
		"N02_unknown_block":               unknownBlock,
		"N03_publish_refused":             publishRefused,
		"N12_N13_condition_and_assertion": conditionAndAssertion,
		"N18_N21_hundred_devices":         fleetOfAHundred,
		"N27_waits_and_resumes":           waitsAndResumes,
		"N28_disjoint_entities":           disjointEntities,
		"N30_crossed_lock_orders":         crossedLockOrders,
		"N32_N38_unsafe_failure":          unsafeFailure,
		"N34_empty_selection":             emptySelection,
		"N37_pure_failure":                pureFailure,
		"N39_rollback_in_reverse":         rollbackInReverse,
		"N40_rollback_fails":              rollbackFails,
		"N40_rollback_retried":            rollbackRetried,
		"N47_N48_cancel_midway":           cancelMidway,
		"acknowledge_some_entities":       acknowledgeSomeEntities,
		"N59_N60_views_agree":             viewsAreConsistent,
		"curl_requests":                   curlRequests,
		"N60_status_contract":             statusContract,
		"linked_retries":                  linkedRetries,
		"idempotent_start":                idempotentStart,
		"tenant_isolation":                tenantIsolation,
		"unclaimed_jobs":                  unclaimedJobs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stack := *s
			stack.t = t
			c := &fixture{localStack: &stack, blocks: b, name: strings.ToLower(strings.ReplaceAll(name, "-", "_"))}
			scenario(c)
		})
	}
}

// fixture is a stack with the names of one scenario.
type fixture struct {
	*localStack
	blocks *blockServer
	name   string
}

// entityType is the fixture's entity type.
func (c *fixture) entityType() string { return "k-" + c.name }

// registerBlock registers a block of the fixture with its handler.
func (c *fixture) registerBlock(name string, w workflow.Block, handler func(call) blockAnswer) {
	c.t.Helper()
	w.Name = c.name + "-" + name
	c.blocks.handle(w.Name, handler)
	c.blocks.register(c.localStack, w)
}

// publishWorkflow publishes the fixture's workflow. In the steps, KIND stands for its
// entity type, WF-NAME for another workflow of the fixture, and a block has its short
// name.
func (c *fixture) publishWorkflow(extra string, steps ...string) {
	c.t.Helper()
	source := fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\nseedEntity: %s\n%ssteps:\n", c.name, c.entityType(), extra)
	for _, step := range steps {
		source += "  - {" + c.expandNames(step) + "}\n"
	}
	c.publish(source)
}

// startWorkflow starts the fixture's workflow over ids.
func (c *fixture) startWorkflow(parameters string, ids ...string) string {
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

// waitEnded waits for an execution's end and checks what every end must have: a history
// without gaps, one terminal event, no lock.
func (c *fixture) waitEnded(id string, in sm.ExecutionState) views.ExecutionView {
	c.t.Helper()
	x := c.waitForState(id, in)
	c.history(id)
	if sm.Acknowledged(in) {
		c.wantNoLocks(id)
	}
	return x
}

// listJobs lists an execution's jobs that match a filter.
func (c *fixture) listJobs(id string, f views.JobFilter) []workflow.Job {
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

// countCalls counts the calls of a block of the fixture for an operation.
func (c *fixture) countCalls(block, operation string) int {
	return c.blocks.count(func(k call) bool {
		return strings.HasPrefix(k.Block, "test/"+c.name+"-"+block+":") && k.Operation == operation
	})
}

func unknownBlock(c *fixture) {
	c.publishWorkflow("", "label: a, functionBlock: 'test/missing:1', runOn: global")
	x := c.waitEnded(c.startWorkflow("{}"), sm.ExecutionFailedSafeAck)
	if jobs := c.listJobs(x.ID, views.JobFilter{}); !strings.Contains(x.Reason, "test/missing:1") || x.Progress.Jobs.Total != 0 || len(jobs) != 0 {
		c.t.Errorf("reason %q, progress %+v, jobs %+v", x.Reason, x.Progress, jobs)
	}
}

func publishRefused(c *fixture) {
	for source, place := range map[string]string{
		"package: p\nname: w\nversion: 1.0.0\nsteps: []\n":                                                                                             "steps",
		"package: p\nname: w\nversion: 1.0.0\nsteps: [{label: entity, functionBlock: p/b, runOn: global}]\n":                                           "steps[0].label",
		"package: p\nname: w\nversion: 1.0.0\nsteps: [{label: a, functionBlock: p/b, runOn: global}, {label: a, functionBlock: p/b, runOn: global}]\n": "steps[1].label",
	} {
		status, body := c.sendRaw("POST", "/workflow-definition/publish", "application/yaml", source)
		if status != 400 || !strings.Contains(body, `"`+place+`"`) || !strings.Contains(body, `"line":4`) {
			c.t.Errorf("%s\ngot %d %s", source, status, body)
		}
	}
}

func conditionAndAssertion(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("maybe", workflow.Block{Idempotent: true}, nil)
	c.registerBlock("sure", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("", "label: never, block: maybe, runOn: global, condition: 'false', assert: 'false'",
		"label: unknown, block: maybe, runOn: global, condition: parameters.nothing.at == 1, assert: 'false'",
		"label: maybe, block: maybe, runOn: KIND, condition: entity.n > 2, assert: 'entity.n == 3'",
		"label: sure, block: sure, runOn: KIND, assert: 'parameters.go == true'")
	id := c.startWorkflow(`{"go":false}`, ids...)
	x := c.waitEnded(id, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseAssertion || *x.Error.Step != "sure" {
		c.t.Errorf("cause %v, error %+v", deref(x.Cause), x.Error)
	}
	if n := c.countCalls("maybe", "EXECUTE"); n != 1 {
		c.t.Errorf("the condition is true for one entity, and there are %d calls", n)
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
	if n := c.countCalls("sure", "EXECUTE"); n != 0 || len(c.listJobs(id, views.JobFilter{Step: "sure"})) != 0 {
		c.t.Errorf("%d calls after a false assertion", n)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, "checked"); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
}

func fleetOfAHundred(c *fixture) {
	ids := c.importEntities(c.entityType(), 100)
	var mu sync.Mutex
	seen := map[string]int{}
	atReport := 0
	g := newBlockGate()
	c.registerBlock("read", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.entityID() == ids[0] {
			g.wait(k)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[k.entityID()]++
		return okAnswer(map[string]any{"n": k.Entity.Attributes["n"]})
	})
	c.registerBlock("report", workflow.Block{Pure: true}, func(k call) blockAnswer {
		mu.Lock()
		defer mu.Unlock()
		atReport = len(seen)
		return okAnswer(k.Parameters)
	})
	c.publishWorkflow("config: {maxInFlight: 7}\n", "label: read, block: read, runOn: KIND",
		"label: report, block: report, runOn: global, parameters: {n: '${size(read.results)}', first: \"${read.results['e-0001'].n}\"}")
	id := c.startWorkflow("{}", ids...)
	hundred := func(when string) {
		on := map[string]bool{}
		jobs := c.listJobs(id, views.JobFilter{Step: "read"})
		for _, j := range jobs {
			on[j.Entity.ID] = true
		}
		if len(jobs) != 100 || len(on) != 100 {
			c.t.Errorf("%s: %d jobs on %d devices, want 100", when, len(jobs), len(on))
		}
	}
	<-g.entered
	hundred("after the start of the step")
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	hundred("at the end")
	if len(seen) != 100 || atReport != 100 {
		c.t.Errorf("%d devices read, %d of them when the global step ran", len(seen), atReport)
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || string(r.Steps["report"].Result) != `{"first":1,"n":100}` {
		c.t.Errorf("result %s, %v", r.Steps["report"].Result, err)
	}
}

// blockGate blocks the calls of a block until open is closed.
type blockGate struct {
	entered chan string
	open    chan struct{}
}

func newBlockGate() *blockGate { return &blockGate{make(chan string, 1000), make(chan struct{})} }

func (g *blockGate) wait(k call) blockAnswer {
	g.entered <- k.Job.Execution
	<-g.open
	return nil
}

func waitsAndResumes(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	a := c.startWorkflow("{}", ids[0], ids[1])
	<-g.entered
	b := c.startWorkflow("{}", ids[1], ids[2])
	var waiting views.ExecutionView
	eventually(c.t, "b waits for the lock that a holds", func() bool {
		var err error
		waiting, err = c.Execution(c.t.Context(), b)
		return err == nil && waiting.Waiting != nil && waiting.Waiting.Kind == workflow.WaitLock
	})
	w := waiting.Waiting
	if waiting.State != sm.ExecutionScheduled || len(w.Blockers) != 1 || deref(w.Blockers[0].HeldBy) != a || deref(w.Blockers[0].Entity) != c.entityType()+"/"+ids[1] || w.Since.IsZero() {
		c.t.Errorf("state %s, waiting %+v", waiting.State, w)
	}
	l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[1]})
	if err != nil || deref(l.HeldBy) != a || len(l.Waiting) != 1 || l.Waiting[0].Execution != b {
		c.t.Errorf("lock %+v, %v", l, err)
	}
	close(g.open)
	c.waitEnded(a, sm.ExecutionCompletedAck)
	c.waitEnded(b, sm.ExecutionCompletedAck)
}

func disjointEntities(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	a, b := c.startWorkflow("{}", ids[0]), c.startWorkflow("{}", ids[1])
	if one, other := <-g.entered, <-g.entered; one == other {
		c.t.Error("two executions over different entities did not run concurrently")
	}
	close(g.open)
	c.waitEnded(a, sm.ExecutionCompletedAck)
	c.waitEnded(b, sm.ExecutionCompletedAck)
}

func crossedLockOrders(c *fixture) {
	ids := c.importEntities(c.entityType(), 6)
	c.registerBlock("work", workflow.Block{}, nil) // concurrent calls on one device fail the test, see blockServer
	c.publishWorkflow("", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND")
	var executionIDs []string
	for i := range 8 {
		executionIDs = append(executionIDs, c.startWorkflow("{}", ids[i%6], ids[(i+3)%6], ids[(i+1)%6]))
	}
	for _, id := range executionIDs {
		c.waitEnded(id, sm.ExecutionCompletedAck)
	}
	if n := c.countCalls("work", "EXECUTE"); n != 8*3*2 {
		c.t.Errorf("%d calls of a block that is not idempotent, want %d", n, 8*3*2)
	}
}

const globalWorkflow = `
package: test
name: hello
version: 1.0.0
steps:
  - {label: hello, functionBlock: test/hello:1, runOn: global}
`

// N1: a global workflow visits every state in order.
func TestGlobalWorkflow_VisitsEveryState(t *testing.T) {
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello", Pure: true})
	s.publish(globalWorkflow)
	id := s.startExecution("test/hello", "{}")
	s.waitForState(id, sm.ExecutionCompletedAck)
	want := "[NEW VALID READY RESOURCE_DISCOVERY RESOURCES_DISCOVERED SCHEDULED LOCKING LOCKED RUNNING COMPLETED COMPLETED_ACK]"
	if states := fmt.Sprint(s.stateHistory(id)); states != want {
		t.Errorf("visited %s, want %s", states, want)
	}
	s.wantNoLocks(id)
}
