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

// lagging is a workflow of two steps over four entities, of which one does not
// get through the first until the gate is opened.
func (c *scene) lagging(config string) (id string, g *gate) {
	c.t.Helper()
	ids := c.entities(c.kind(), 4)
	g = newGate()
	c.block("one", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.on() == ids[1] {
			g.pass(k)
		}
		return ok(k.on())
	})
	c.block("two", workflow.Block{Idempotent: true}, func(k call) answer { return ok(k.Parameters) })
	c.define(config, "label: one, block: one, runOn: KIND", "label: two, block: two, runOn: KIND, parameters: {after: '${one.result}'}")
	id = c.run("{}", ids...)
	<-g.entered
	eventually(c.t, "the others have done the first step", func() bool {
		return len(c.jobs(id, views.JobFilter{Step: "one", State: sm.JobCompleted})) == 3
	})
	return id, g
}

// N22: no entity begins a step before all have done the one before.
func inStep(c *scene) {
	id, g := c.lagging("")
	if n := len(c.jobs(id, views.JobFilter{Step: "two"})); n != 0 || c.of("two", "EXECUTE") != 0 {
		c.t.Errorf("%d jobs, %d calls of the second step while one entity lags", n, c.of("two", "EXECUTE"))
	}
	close(g.open)
	c.ends(id, sm.ExecutionCompletedAck)
	ones := 0
	for _, k := range c.b.all() {
		switch {
		case k.Job.Execution != id:
		case k.Job.Step == "one":
			ones++
		case ones != 4:
			c.t.Errorf("%s begins the second step when %d have begun the first", k.on(), ones)
		}
	}
	if c.of("two", "EXECUTE") != 4 {
		c.t.Errorf("%d calls of the second step", c.of("two", "EXECUTE"))
	}
}

// N22: with pipelines, nobody waits for the one that lags.
func pipelines(c *scene) {
	id, g := c.lagging("config: {executionStrategy: {parallel: true}}\n")
	eventually(c.t, "the others have done the second step", func() bool {
		return len(c.jobs(id, views.JobFilter{Step: "two", State: sm.JobCompleted})) == 3
	})
	if x := c.look(id); x.State != sm.ExecutionRunning || c.of("two", "EXECUTE") != 3 {
		c.t.Errorf("%s with %d calls", x.State, c.of("two", "EXECUTE"))
	}
	close(g.open)
	c.ends(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	for on, got := range r.Steps["two"].Results {
		if string(got) != fmt.Sprintf(`{"after":%q}`, on) {
			c.t.Errorf("%s was given %s", on, got)
		}
	}
	if err != nil || len(r.Steps["two"].Results) != 4 || c.of("one", "EXECUTE") != 4 || c.of("two", "EXECUTE") != 4 {
		c.t.Errorf("%d and %d calls, %d results, %v", c.of("one", "EXECUTE"), c.of("two", "EXECUTE"), len(r.Steps["two"].Results), err)
	}
}

// N18: a global step between steps over entities runs once, when all have arrived,
// and nobody is past it before it has ended; pipelines are no way around it.
func barrier(config string) func(*scene) {
	return func(c *scene) {
		ids := c.entities(c.kind(), 4)
		g := newGate()
		var before, after atomic.Int32
		c.block("before", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
			if k.Job.Step == "one" && k.on() == ids[2] {
				g.pass(k)
			}
			before.Add(1)
			return nil
		})
		between := newGate()
		c.block("between", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
			arrived := before.Load()
			between.pass(k)
			return ok([]int32{arrived, after.Load()})
		})
		c.block("after", workflow.Block{Idempotent: true}, func(call) answer {
			after.Add(1)
			return nil
		})
		c.define(config, "label: one, block: before, runOn: KIND", "label: two, block: before, runOn: KIND", "label: between, block: between, runOn: global",
			"label: three, block: after, runOn: KIND", "label: four, block: after, runOn: KIND")
		id := c.run("{}", ids...)
		<-g.entered
		ahead := int32(3) // as far as the others get: to the end of the first step, or of the second
		if config != "" {
			ahead = 6
		}
		eventually(c.t, "the others have gone ahead", func() bool { return before.Load() == ahead })
		if n := len(c.jobs(id, views.JobFilter{Step: "between"})); n != 0 || c.of("between", "EXECUTE") != 0 {
			c.t.Errorf("%d jobs, %d calls of the global step while a device lags", n, c.of("between", "EXECUTE"))
		}
		close(g.open)
		<-between.entered
		for _, step := range []string{"three", "four"} {
			if jobs := c.jobs(id, views.JobFilter{Step: step}); len(jobs) != 0 {
				c.t.Errorf("%d jobs of step %s while the global step is at work", len(jobs), step)
			}
		}
		close(between.open)
		c.ends(id, sm.ExecutionCompletedAck)
		r, err := c.Result(c.t.Context(), id)
		if err != nil || string(r.Steps["between"].Result) != "[8,0]" || c.of("between", "EXECUTE") != 1 || after.Load() != 8 {
			c.t.Errorf("of eight jobs before and none after: %s; called %d times, then %d calls, %v", r.Steps["between"].Result, c.of("between", "EXECUTE"), after.Load(), err)
		}
	}
}

// N42: what was tried again is undone once, with what the last attempt gave.
func undoneOnce(c *scene) {
	ids := c.entities(c.kind(), 2)
	var mu sync.Mutex
	var undone []string
	c.block("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) answer {
		if k.Operation == "ROLLBACK" {
			mu.Lock()
			defer mu.Unlock()
			undone = append(undone, k.on()+string(k.Result))
			return nil
		}
		if k.Job.Attempt < 3 && k.on() == ids[0] {
			return failed("BUSY", true)
		}
		return ok(k.Job.Attempt)
	})
	c.block("fail", workflow.Block{Pure: true}, func(call) answer { return failed("NO", false) })
	c.define("config: {maxInFlight: 1}\n", "label: work, block: work, runOn: KIND, retry: {maxRetries: 4, delay: 20ms}", "label: fail, block: fail, runOn: global")
	id := c.run("{}", ids...)
	x := c.ends(id, sm.ExecutionFailedSafeAck)
	if got := fmt.Sprint(undone); !x.RolledBack || got != "[e-0001"+"3 e-00021]" && got != "[e-00021 e-00013]" {
		c.t.Errorf("rolled back %v: %s", x.RolledBack, got)
	}
	if n := len(c.jobs(id, views.JobFilter{Kind: workflow.JobRollback})); n != 2 || c.of("work", "EXECUTE") != 4 {
		c.t.Errorf("%d jobs undo %d attempts", n, c.of("work", "EXECUTE"))
	}
}

// N43: every attempt is a job of its own, linked to the one before it, which it
// follows after the delay; when none is left, the step fails.
func attempts(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.block("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) answer {
		if k.Operation == "ROLLBACK" {
			return nil
		}
		return failed(fmt.Sprint("BUSY_", k.Job.Attempt), true)
	})
	c.define("", "label: work, block: work, runOn: KIND, retry: {maxRetries: 3, delay: 300ms}")
	id := c.run("{}", ids...)
	x := c.ends(id, sm.ExecutionFailedSafeAck)
	c.failedBy(x, workflow.CauseStepFailed, "BUSY_4", "work")
	jobs := c.jobs(id, views.JobFilter{Kind: workflow.JobExecute})
	if len(jobs) != 4 || c.of("work", "EXECUTE") != 4 {
		c.t.Fatalf("%d jobs, %d calls", len(jobs), c.of("work", "EXECUTE"))
	}
	for i, j := range jobs {
		if j.Attempt != i+1 || j.State != sm.JobFailed || j.Error == nil || j.Error.Code != fmt.Sprint("BUSY_", i+1) {
			c.t.Errorf("attempt %d: %+v", i+1, j)
		}
		if i == 0 {
			continue
		}
		if before := jobs[i-1]; value(j.Replaces) != before.ID || value(before.ReplacedBy) != j.ID || j.StartedAt.Sub(*before.EndedAt) < 250*time.Millisecond {
			c.t.Errorf("attempt %d does not follow the one before it: %+v after %+v", i+1, j, before)
		}
	}
}

// N43: when the condition is false, nothing is tried again although attempts are
// left; it is asked of each entity by itself.
func retryCondition(c *scene) {
	ids := c.entities(c.kind(), 2)
	c.block("work", workflow.Block{Pure: true}, func(k call) answer {
		if k.on() == ids[1] && k.Job.Attempt == 1 {
			return failed("BUSY", false)
		}
		return failed("BROKEN", true)
	})
	c.define("config: {failureTolerance: 1}\n", "label: work, block: work, runOn: KIND, retry: {maxRetries: 3, delay: 20ms, when: error.code == 'BUSY'}")
	id := c.run("{}", ids...)
	c.failedBy(c.ends(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "BROKEN", "work")
	if n := len(c.jobs(id, views.JobFilter{})); n != 3 || c.of("work", "EXECUTE") != 3 {
		c.t.Errorf("%d jobs, %d calls: want one attempt of the first entity, two of the second", n, c.of("work", "EXECUTE"))
	}
}

// N45: the next step runs, and what the failed one has done still counts when the
// run is judged.
func continueOnError(c *scene) {
	ids := c.entities(c.kind(), 2)
	c.block("shaky", workflow.Block{}, func(k call) answer {
		if k.on() == ids[1] {
			return failed("BROKEN", false)
		}
		return ok("done")
	})
	c.block("look", workflow.Block{Pure: true}, func(k call) answer {
		if k.Parameters["fail"] == true {
			return failed("BLIND", false)
		}
		return ok(k.Parameters)
	})
	shaky := "label: shaky, block: shaky, runOn: KIND, continueOnError: true"
	good := c.also("good", "", shaky, "label: look, block: look, runOn: global, parameters: {status: '${steps.shaky.status}', done: '${size(shaky.results)}'}")
	id := c.launch(good, "{}", ids...)
	x := c.ends(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || x.Error != nil || r.Steps["shaky"].Status != sm.StepFailed || string(r.Steps["look"].Result) != `{"done":1,"status":"FAILED"}` {
		c.t.Errorf("error %+v, results %+v, %v", x.Error, r.Steps, err)
	}
	bad := c.also("bad", "", shaky, "label: look, block: look, runOn: global, parameters: {fail: true}")
	id = c.launch(bad, "{}", ids[1]) // the only job that is not pure has failed
	c.failedBy(c.ends(id, sm.ExecutionFailedUnsafe), workflow.CauseStepFailed, "BLIND", "look")
	if _, err := c.Acknowledge(c.t.Context(), id, ""); err != nil {
		c.t.Error(err)
	}
	c.ends(id, sm.ExecutionFailedUnsafeAck)
}

// N46: whichever limit comes first ends the repetition, for each entity by itself.
func repeat(c *scene) {
	ids := c.entities(c.kind(), 3)
	var mu sync.Mutex
	calls := map[string]int{}
	c.block("work", workflow.Block{Idempotent: true}, func(k call) answer {
		mu.Lock()
		defer mu.Unlock()
		of := k.Job.Step + k.on()
		calls[of]++
		return ok(map[string]any{"n": calls[of], "last": k.on()})
	})
	c.define("", "label: both, block: work, runOn: KIND, repeat: {count: 4, while: both.result.n <= entity.n, delay: 10ms}",
		"label: counted, block: work, runOn: global, repeat: {count: 3}", "label: conditional, block: work, runOn: global, repeat: {while: conditional.result.n < 5}")
	if _, err := c.ImportEntities(c.t.Context(), strings.NewReader(fmt.Sprintf(`{"type":%q,"id":%q,"attributes":{"n":9}}`, c.kind(), ids[2]))); err != nil {
		c.t.Fatal(err)
	}
	id := c.run("{}", ids...)
	c.ends(id, sm.ExecutionCompletedAck)
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
func moreIsPending(c *scene) {
	ids := c.entities(c.kind(), 3)
	var looks atomic.Int32
	c.block("work", workflow.Block{Idempotent: true}, func(k call) answer {
		s, err := c.Status(c.t.Context(), k.Job.Execution)
		if err != nil || s.State != sm.StatusRunning || s.EndedAt != nil || s.TerminalEvent != nil {
			c.t.Errorf("in step %s it is %+v, %v", k.Job.Step, s, err)
		}
		looks.Add(1)
		if k.Job.Step == "again" && k.Job.Attempt == 1 {
			return failed("BUSY", true)
		}
		return nil
	})
	c.define("config: {maxInFlight: 1}\n", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: global",
		"label: again, block: work, runOn: global, retry: {maxRetries: 1, delay: 2s}")
	id := c.run("{}", ids...)
	c.waitsFor(id, views.WaitRetry)
	for _, j := range c.jobs(id, views.JobFilter{}) {
		if j.EndedAt == nil && j.Attempt == 1 {
			c.t.Errorf("%+v", j)
		}
	}
	c.status(id, "RUNNING", "", "again")
	if x := c.look(id); x.State != sm.ExecutionRunning {
		c.t.Errorf("its state is %s", x.State)
	}
	c.ends(id, sm.ExecutionCompletedAck)
	if looks.Load() != 6 {
		c.t.Errorf("%d calls", looks.Load())
	}
}

// N58: the status can be told from the history alone: from the events of the
// execution and no others, however steps and nested workflows have ended.
func statusOfEvents(c *scene) {
	ids := c.entities(c.kind(), 1)
	g := newGate()
	c.block("fail", workflow.Block{Pure: true}, func(call) answer { return failed("NO", false) })
	c.block("work", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.define("", "label: failing, continueOnError: true, workflow: {steps: [{label: fail, block: fail, runOn: KIND}]}",
		"label: fine, workflow: {steps: [{label: none, block: fail, runOn: KIND, condition: 'false'}]}", "label: work, block: work, runOn: KIND")
	id := c.run("{}", ids...)
	<-g.entered
	rebuilt := func() sm.Status {
		status := sm.Status("")
		others := map[string]bool{}
		for _, e := range c.events(id) {
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
	c.status(id, "RUNNING", "", "work")
	close(g.open)
	c.ends(id, sm.ExecutionCompletedAck)
	if got := rebuilt(); got != sm.StatusCompleted {
		c.t.Errorf("the events say %s", got)
	}
	c.status(id, "COMPLETED", "execution.completed", "")
}
