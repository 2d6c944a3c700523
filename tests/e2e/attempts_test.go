package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// startWithSlowEntity starts a workflow of two steps over four entities, one of which
// stays in the first step until the gate is opened.
func (c *fixture) startWithSlowEntity(config string) (id string, g *blockGate) {
	c.t.Helper()
	ids := c.importEntities(c.entityType(), 4)
	g = newBlockGate()
	c.registerBlock("one", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.entityID() == ids[1] {
			g.wait(k)
		}
		return okAnswer(k.entityID())
	})
	c.registerBlock("two", workflow.Block{Idempotent: true}, func(k call) blockAnswer { return okAnswer(k.Parameters) })
	c.publishWorkflow(config, "label: one, block: one, runOn: KIND", "label: two, block: two, runOn: KIND, parameters: {after: '${one.result}'}")
	id = c.startWorkflow("{}", ids...)
	<-g.entered
	eventually(c.t, "the others have completed the first step", func() bool {
		return len(c.listJobs(id, views.JobFilter{Step: "one", State: sm.JobCompleted})) == 3
	})
	return id, g
}

// N22: no entity starts a step before all have completed the step before it.
func stepByStep(c *fixture) {
	id, g := c.startWithSlowEntity("")
	if n := len(c.listJobs(id, views.JobFilter{Step: "two"})); n != 0 || c.countCalls("two", "EXECUTE") != 0 {
		c.t.Errorf("%d jobs, %d calls of the second step while one entity is in the first", n, c.countCalls("two", "EXECUTE"))
	}
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	ones := 0
	for _, k := range c.blocks.allCalls() {
		switch {
		case k.Job.Execution != id:
		case k.Job.Step == "one":
			ones++
		case ones != 4:
			c.t.Errorf("%s started the second step when %d had started the first", k.entityID(), ones)
		}
	}
	if c.countCalls("two", "EXECUTE") != 4 {
		c.t.Errorf("%d calls of the second step, want 4", c.countCalls("two", "EXECUTE"))
	}
}

// N22: with pipelines, no entity waits for a slower one.
func pipelines(c *fixture) {
	id, g := c.startWithSlowEntity("config: {executionStrategy: {parallel: true}}\n")
	eventually(c.t, "the others have completed the second step", func() bool {
		return len(c.listJobs(id, views.JobFilter{Step: "two", State: sm.JobCompleted})) == 3
	})
	if x := c.getExecution(id); x.State != sm.ExecutionRunning || c.countCalls("two", "EXECUTE") != 3 {
		c.t.Errorf("%s with %d calls", x.State, c.countCalls("two", "EXECUTE"))
	}
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	for on, got := range r.Steps["two"].Results {
		if string(got) != fmt.Sprintf(`{"after":%q}`, on) {
			c.t.Errorf("%s got the parameters %s", on, got)
		}
	}
	if err != nil || len(r.Steps["two"].Results) != 4 || c.countCalls("one", "EXECUTE") != 4 || c.countCalls("two", "EXECUTE") != 4 {
		c.t.Errorf("%d and %d calls, %d results, %v", c.countCalls("one", "EXECUTE"), c.countCalls("two", "EXECUTE"), len(r.Steps["two"].Results), err)
	}
}

// N18: a global step between steps over entities runs once, after all entities have
// reached it, and no entity passes it before it has ended, in pipelines either.
func barrier(config string) func(*fixture) {
	return func(c *fixture) {
		ids := c.importEntities(c.entityType(), 4)
		g := newBlockGate()
		var before, after atomic.Int32
		c.registerBlock("before", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
			if k.Job.Step == "one" && k.entityID() == ids[2] {
				g.wait(k)
			}
			before.Add(1)
			return nil
		})
		between := newBlockGate()
		c.registerBlock("between", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
			arrived := before.Load()
			between.wait(k)
			return okAnswer([]int32{arrived, after.Load()})
		})
		c.registerBlock("after", workflow.Block{Idempotent: true}, func(call) blockAnswer {
			after.Add(1)
			return nil
		})
		c.publishWorkflow(config, "label: one, block: before, runOn: KIND", "label: two, block: before, runOn: KIND", "label: between, block: between, runOn: global",
			"label: three, block: after, runOn: KIND", "label: four, block: after, runOn: KIND")
		id := c.startWorkflow("{}", ids...)
		<-g.entered
		ahead := int32(3) // calls of the other entities: the first step, or in pipelines two steps
		if config != "" {
			ahead = 6
		}
		eventually(c.t, "the others are ahead", func() bool { return before.Load() == ahead })
		if n := len(c.listJobs(id, views.JobFilter{Step: "between"})); n != 0 || c.countCalls("between", "EXECUTE") != 0 {
			c.t.Errorf("%d jobs, %d calls of the global step while one entity is behind", n, c.countCalls("between", "EXECUTE"))
		}
		close(g.open)
		<-between.entered
		for _, step := range []string{"three", "four"} {
			if jobs := c.listJobs(id, views.JobFilter{Step: step}); len(jobs) != 0 {
				c.t.Errorf("%d jobs of step %s while the global step runs", len(jobs), step)
			}
		}
		close(between.open)
		c.waitEnded(id, sm.ExecutionCompletedAck)
		r, err := c.Result(c.t.Context(), id)
		if err != nil || string(r.Steps["between"].Result) != "[8,0]" || c.countCalls("between", "EXECUTE") != 1 || after.Load() != 8 {
			c.t.Errorf("jobs before and after the global step: %s, want [8,0]; %d calls of it, %d calls after it, %v", r.Steps["between"].Result, c.countCalls("between", "EXECUTE"), after.Load(), err)
		}
	}
}

// N42: a retried job is rolled back once, with the result of its last attempt.
func rolledBackOnce(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var mu sync.Mutex
	var rolledBack []string
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			mu.Lock()
			defer mu.Unlock()
			rolledBack = append(rolledBack, k.entityID()+string(k.Result))
			return nil
		}
		if k.Job.Attempt < 3 && k.entityID() == ids[0] {
			return errorAnswer("BUSY", true)
		}
		return okAnswer(k.Job.Attempt)
	})
	c.registerBlock("fail", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	c.publishWorkflow("config: {maxInFlight: 1}\n", "label: work, block: work, runOn: KIND, retry: {maxRetries: 4, delay: 20ms}", "label: fail, block: fail, runOn: global")
	id := c.startWorkflow("{}", ids...)
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if got := fmt.Sprint(rolledBack); !x.RolledBack || got != "[e-0001"+"3 e-00021]" && got != "[e-00021 e-00013]" {
		c.t.Errorf("rolled back %v: %s", x.RolledBack, got)
	}
	if n := len(c.listJobs(id, views.JobFilter{Kind: workflow.JobRollback})); n != 2 || c.countCalls("work", "EXECUTE") != 4 {
		c.t.Errorf("%d rollback jobs for %d attempts", n, c.countCalls("work", "EXECUTE"))
	}
}

// N43: every attempt is a separate job, linked to the one before it and started after
// the delay. When no attempt is left, the step fails.
func retryAttempts(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			return nil
		}
		return errorAnswer(fmt.Sprint("BUSY_", k.Job.Attempt), true)
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND, retry: {maxRetries: 3, delay: 300ms}")
	id := c.startWorkflow("{}", ids...)
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "BUSY_4", "work")
	jobs := c.listJobs(id, views.JobFilter{Kind: workflow.JobExecute})
	if len(jobs) != 4 || c.countCalls("work", "EXECUTE") != 4 {
		c.t.Fatalf("%d jobs, %d calls", len(jobs), c.countCalls("work", "EXECUTE"))
	}
	for i, j := range jobs {
		if j.Attempt != i+1 || j.State != sm.JobFailed || j.Error == nil || j.Error.Code != fmt.Sprint("BUSY_", i+1) {
			c.t.Errorf("attempt %d: %+v", i+1, j)
		}
		if i == 0 {
			continue
		}
		if previous := jobs[i-1]; deref(j.Replaces) != previous.ID || deref(previous.ReplacedBy) != j.ID || j.StartedAt.Sub(*previous.EndedAt) < 250*time.Millisecond {
			c.t.Errorf("attempt %d does not follow the previous one: %+v after %+v", i+1, j, previous)
		}
	}
}

// N43: if the retry condition is false, there is no retry although attempts are left.
// The condition is evaluated for each entity.
func retryCondition(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.entityID() == ids[1] && k.Job.Attempt == 1 {
			return errorAnswer("BUSY", false)
		}
		return errorAnswer("BROKEN", true)
	})
	c.publishWorkflow("config: {failureTolerance: 1}\n", "label: work, block: work, runOn: KIND, retry: {maxRetries: 3, delay: 20ms, when: error.code == 'BUSY'}")
	id := c.startWorkflow("{}", ids...)
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "BROKEN", "work")
	if n := len(c.listJobs(id, views.JobFilter{})); n != 3 || c.countCalls("work", "EXECUTE") != 3 {
		c.t.Errorf("%d jobs, %d calls: want one attempt of the first entity, two of the second", n, c.countCalls("work", "EXECUTE"))
	}
}

// N45: the next step runs, and the jobs of the failed step still count when the
// execution fails later.
func continueOnError(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("shaky", workflow.Block{}, func(k call) blockAnswer {
		if k.entityID() == ids[1] {
			return errorAnswer("BROKEN", false)
		}
		return okAnswer("done")
	})
	c.registerBlock("inspect", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.Parameters["fail"] == true {
			return errorAnswer("BLIND", false)
		}
		return okAnswer(k.Parameters)
	})
	shaky := "label: shaky, block: shaky, runOn: KIND, continueOnError: true"
	good := c.publishExtra("good", "", shaky, "label: inspect, block: inspect, runOn: global, parameters: {status: '${steps.shaky.status}', done: '${size(shaky.results)}'}")
	id := c.startRef(good, "{}", ids...)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || x.Error != nil || r.Steps["shaky"].Status != sm.StepFailed || string(r.Steps["inspect"].Result) != `{"done":1,"status":"FAILED"}` {
		c.t.Errorf("error %+v, results %+v, %v", x.Error, r.Steps, err)
	}
	bad := c.publishExtra("bad", "", shaky, "label: inspect, block: inspect, runOn: global, parameters: {fail: true}")
	id = c.startRef(bad, "{}", ids[1]) // its only job that is not pure has failed
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedUnsafe), workflow.CauseStepFailed, "BLIND", "inspect")
	if _, err := c.Acknowledge(c.t.Context(), id, ""); err != nil {
		c.t.Error(err)
	}
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
}

// N46: a repetition ends at its count or its condition, whichever is first, for each
// entity separately.
func repeatStep(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	var mu sync.Mutex
	calls := map[string]int{}
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		mu.Lock()
		defer mu.Unlock()
		of := k.Job.Step + k.entityID()
		calls[of]++
		return okAnswer(map[string]any{"n": calls[of], "last": k.entityID()})
	})
	c.publishWorkflow("", "label: both, block: work, runOn: KIND, repeat: {count: 4, while: both.result.n <= entity.n, delay: 10ms}",
		"label: counted, block: work, runOn: global, repeat: {count: 3}", "label: conditional, block: work, runOn: global, repeat: {while: conditional.result.n < 5}")
	if _, err := c.ImportEntities(c.t.Context(), strings.NewReader(fmt.Sprintf(`{"type":%q,"id":%q,"attributes":{"n":9}}`, c.entityType(), ids[2]))); err != nil {
		c.t.Fatal(err)
	}
	id := c.startWorkflow("{}", ids...)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	mu.Lock()
	defer mu.Unlock()
	// The entities' n are 1, 2 and 9. The step repeats until its result is greater than
	// n, four times at most.
	if got := fmt.Sprint(calls); got != "map[bothe-0001:2 bothe-0002:3 bothe-0003:4 conditional:5 counted:3]" {
		c.t.Errorf("calls %s", got)
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || !strings.Contains(string(r.Steps["both"].Results[ids[0]]), `"n":2`) || !strings.Contains(string(r.Steps["both"].Results[ids[2]]), `"n":4`) {
		c.t.Errorf("results %v, %v", r.Steps["both"].Results, err)
	}
}

// N56: an execution with work left always reads RUNNING: between packs, between steps,
// and while every job has ended and the next attempt does not exist yet.
func pendingAttemptIsNotTerminal(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	var reads atomic.Int32
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		s, err := c.Status(c.t.Context(), k.Job.Execution)
		if err != nil || s.State != sm.StatusRunning || s.EndedAt != nil || s.TerminalEvent != nil {
			c.t.Errorf("status in step %s is %+v, %v", k.Job.Step, s, err)
		}
		reads.Add(1)
		if k.Job.Step == "again" && k.Job.Attempt == 1 {
			return errorAnswer("BUSY", true)
		}
		return nil
	})
	c.publishWorkflow("config: {maxInFlight: 1}\n", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: global",
		"label: again, block: work, runOn: global, retry: {maxRetries: 1, delay: 2s}")
	id := c.startWorkflow("{}", ids...)
	c.waitForKind(id, workflow.WaitRetry)
	for _, j := range c.listJobs(id, views.JobFilter{}) {
		if j.EndedAt == nil && j.Attempt == 1 {
			c.t.Errorf("%+v", j)
		}
	}
	c.wantStatus(id, "RUNNING", "", "again")
	if x := c.getExecution(id); x.State != sm.ExecutionRunning {
		c.t.Errorf("state %s", x.State)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if reads.Load() != 6 {
		c.t.Errorf("%d calls, want 6", reads.Load())
	}
}

// N58: the status follows from the events of the execution layer alone, whatever the
// results of steps and nested workflows are.
func statusMatchesEvents(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	g := newBlockGate()
	c.registerBlock("fail", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	c.registerBlock("work", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: failing, continueOnError: true, workflow: {steps: [{label: fail, block: fail, runOn: KIND}]}",
		"label: fine, workflow: {steps: [{label: none, block: fail, runOn: KIND, condition: 'false'}]}", "label: work, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	rebuilt := func() sm.Status {
		status := sm.Status("")
		others := map[string]bool{}
		for _, e := range c.history(id) {
			if e.Layer != "execution" {
				others[e.Type] = true
				continue
			}
			status = sm.StatusOf(sm.ExecutionState(e.To))
		}
		if !others["workflow.failed"] || !others["workflow.completed"] || !others["step.exited"] {
			c.t.Errorf("events of other layers: %v", others)
		}
		return status
	}
	if got := rebuilt(); got != sm.StatusRunning {
		c.t.Errorf("status from events of a running execution: %s", got)
	}
	c.wantStatus(id, "RUNNING", "", "work")
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := rebuilt(); got != sm.StatusCompleted {
		c.t.Errorf("status from events: %s", got)
	}
	c.wantStatus(id, "COMPLETED", "execution.completed", "")
}
