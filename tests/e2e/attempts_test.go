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

// startWithSlowEntity is a workflow of two steps over four entities, of which one does not
// get through the first until the gate is opened.
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
	eventually(c.t, "the others have done the first step", func() bool {
		return len(c.listJobs(id, views.JobFilter{Step: "one", State: sm.JobCompleted})) == 3
	})
	return id, g
}

// N22: no entity begins a step before all have done the one before.
func stepByStep(c *fixture) {
	id, g := c.startWithSlowEntity("")
	if n := len(c.listJobs(id, views.JobFilter{Step: "two"})); n != 0 || c.countCalls("two", "EXECUTE") != 0 {
		c.t.Errorf("%d jobs, %d calls of the second step while one entity lags", n, c.countCalls("two", "EXECUTE"))
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
			c.t.Errorf("%s begins the second step when %d have begun the first", k.entityID(), ones)
		}
	}
	if c.countCalls("two", "EXECUTE") != 4 {
		c.t.Errorf("%d calls of the second step", c.countCalls("two", "EXECUTE"))
	}
}

// N22: with pipelines, nobody waits for the one that lags.
func pipelines(c *fixture) {
	id, g := c.startWithSlowEntity("config: {executionStrategy: {parallel: true}}\n")
	eventually(c.t, "the others have done the second step", func() bool {
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
			c.t.Errorf("%s was given %s", on, got)
		}
	}
	if err != nil || len(r.Steps["two"].Results) != 4 || c.countCalls("one", "EXECUTE") != 4 || c.countCalls("two", "EXECUTE") != 4 {
		c.t.Errorf("%d and %d calls, %d results, %v", c.countCalls("one", "EXECUTE"), c.countCalls("two", "EXECUTE"), len(r.Steps["two"].Results), err)
	}
}

// N18: a global step between steps over entities runs once, when all have arrived,
// and nobody is past it before it has ended; pipelines are no way around it.
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
		ahead := int32(3) // as far as the others get: to the end of the first step, or of the second
		if config != "" {
			ahead = 6
		}
		eventually(c.t, "the others have gone ahead", func() bool { return before.Load() == ahead })
		if n := len(c.listJobs(id, views.JobFilter{Step: "between"})); n != 0 || c.countCalls("between", "EXECUTE") != 0 {
			c.t.Errorf("%d jobs, %d calls of the global step while a device lags", n, c.countCalls("between", "EXECUTE"))
		}
		close(g.open)
		<-between.entered
		for _, step := range []string{"three", "four"} {
			if jobs := c.listJobs(id, views.JobFilter{Step: step}); len(jobs) != 0 {
				c.t.Errorf("%d jobs of step %s while the global step is at work", len(jobs), step)
			}
		}
		close(between.open)
		c.waitEnded(id, sm.ExecutionCompletedAck)
		r, err := c.Result(c.t.Context(), id)
		if err != nil || string(r.Steps["between"].Result) != "[8,0]" || c.countCalls("between", "EXECUTE") != 1 || after.Load() != 8 {
			c.t.Errorf("of eight jobs before and none after: %s; called %d times, then %d calls, %v", r.Steps["between"].Result, c.countCalls("between", "EXECUTE"), after.Load(), err)
		}
	}
}

// N42: what was tried again is undone once, with what the last attempt gave.
func rolledBackOnce(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var mu sync.Mutex
	var undone []string
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			mu.Lock()
			defer mu.Unlock()
			undone = append(undone, k.entityID()+string(k.Result))
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
	if got := fmt.Sprint(undone); !x.RolledBack || got != "[e-0001"+"3 e-00021]" && got != "[e-00021 e-00013]" {
		c.t.Errorf("rolled back %v: %s", x.RolledBack, got)
	}
	if n := len(c.listJobs(id, views.JobFilter{Kind: workflow.JobRollback})); n != 2 || c.countCalls("work", "EXECUTE") != 4 {
		c.t.Errorf("%d jobs undo %d attempts", n, c.countCalls("work", "EXECUTE"))
	}
}

// N43: every attempt is a job of its own, linked to the one before it, which it
// follows after the delay; when none is left, the step fails.
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
		if before := jobs[i-1]; deref(j.Replaces) != before.ID || deref(before.ReplacedBy) != j.ID || j.StartedAt.Sub(*before.EndedAt) < 250*time.Millisecond {
			c.t.Errorf("attempt %d does not follow the one before it: %+v after %+v", i+1, j, before)
		}
	}
}

// N43: when the condition is false, nothing is tried again although attempts are
// left; it is asked of each entity by itself.
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

// N45: the next step runs, and what the failed one has done still counts when the
// run is judged.
func continueOnError(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("shaky", workflow.Block{}, func(k call) blockAnswer {
		if k.entityID() == ids[1] {
			return errorAnswer("BROKEN", false)
		}
		return okAnswer("done")
	})
	c.registerBlock("look", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.Parameters["fail"] == true {
			return errorAnswer("BLIND", false)
		}
		return okAnswer(k.Parameters)
	})
	shaky := "label: shaky, block: shaky, runOn: KIND, continueOnError: true"
	good := c.publishExtra("good", "", shaky, "label: look, block: look, runOn: global, parameters: {status: '${steps.shaky.status}', done: '${size(shaky.results)}'}")
	id := c.startRef(good, "{}", ids...)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || x.Error != nil || r.Steps["shaky"].Status != sm.StepFailed || string(r.Steps["look"].Result) != `{"done":1,"status":"FAILED"}` {
		c.t.Errorf("error %+v, results %+v, %v", x.Error, r.Steps, err)
	}
	bad := c.publishExtra("bad", "", shaky, "label: look, block: look, runOn: global, parameters: {fail: true}")
	id = c.startRef(bad, "{}", ids[1]) // the only job that is not pure has failed
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedUnsafe), workflow.CauseStepFailed, "BLIND", "look")
	if _, err := c.Acknowledge(c.t.Context(), id, ""); err != nil {
		c.t.Error(err)
	}
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
}

// N46: whichever limit comes first ends the repetition, for each entity by itself.
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
	// n is 1, 2 and 9: it goes on until its result is more than that, and never more than four times.
	if got := fmt.Sprint(calls); got != "map[bothe-0001:2 bothe-0002:3 bothe-0003:4 conditional:5 counted:3]" {
		c.t.Errorf("called %s", got)
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || !strings.Contains(string(r.Steps["both"].Results[ids[0]]), `"n":2`) || !strings.Contains(string(r.Steps["both"].Results[ids[2]]), `"n":4`) {
		c.t.Errorf("results %v, %v", r.Steps["both"].Results, err)
	}
}

// N56: at whatever moment it is read, a run with work to come is running: between
// packs, between steps, and while every job that there is has ended and the next
// attempt is not there yet.
func pendingAttemptIsNotTerminal(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	var reads atomic.Int32
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		s, err := c.Status(c.t.Context(), k.Job.Execution)
		if err != nil || s.State != sm.StatusRunning || s.EndedAt != nil || s.TerminalEvent != nil {
			c.t.Errorf("in step %s it is %+v, %v", k.Job.Step, s, err)
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
		c.t.Errorf("its state is %s", x.State)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if reads.Load() != 6 {
		c.t.Errorf("%d calls", reads.Load())
	}
}

// N58: the status can be told from the history alone: from the events of the
// execution and no others, however steps and nested workflows have ended.
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
			c.t.Errorf("other layers say %v", others)
		}
		return status
	}
	if got := rebuilt(); got != sm.StatusRunning {
		c.t.Errorf("the events say %s of a run that is at work", got)
	}
	c.wantStatus(id, "RUNNING", "", "work")
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := rebuilt(); got != sm.StatusCompleted {
		c.t.Errorf("the events say %s", got)
	}
	c.wantStatus(id, "COMPLETED", "execution.completed", "")
}
