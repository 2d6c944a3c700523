package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// concurrencyCounter records the highest number of concurrent calls of each step.
type concurrencyCounter struct {
	mu               sync.Mutex
	current, highest map[string]int
}

func newConcurrencyCounter() *concurrencyCounter {
	return &concurrencyCounter{current: map[string]int{}, highest: map[string]int{}}
}

func (p *concurrencyCounter) enter(k call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current[k.Job.Step]++
	p.highest[k.Job.Step] = max(p.highest[k.Job.Step], p.current[k.Job.Step])
}

func (p *concurrencyCounter) leave(k call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current[k.Job.Step]--
}

// thousandItems checks that a step with foreach calls its block once for each of a thousand
// items, fifty at a time, and gives all results.
func thousandItems(c *fixture) {
	const items = 1000
	p, keys := newConcurrencyCounter(), map[string]bool{}
	c.registerBlock("push", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		p.enter(k)
		defer p.leave(k)
		p.mu.Lock()
		defer p.mu.Unlock()
		if keys[k.Job.ID] = true; k.Entity != nil || k.Token != nil {
			return errorAnswer("ENTITY", false)
		}
		return okAnswer(k.Parameters)
	})
	c.publishWorkflow("", "label: push, block: push, runOn: item, foreach: {items: '${parameters.items}', as: site, maxInFlight: 50}, parameters: {site: '${site}', n: '${index}'}, outputKey: pushed",
		"label: after, block: push, runOn: global, parameters: {size: '${size(push.results)}', last: '${vars.pushed[999].site}'}")
	id := c.startWorkflow(`{"items":["site"` + strings.Repeat(`,"site"`, items-2) + `,"the last"]}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if n := p.highest["push"]; n > 50 || len(keys) != items+1 {
		c.t.Errorf("%d calls at a time, %d keys", n, len(keys))
	}
	jobs := c.listJobs(id, views.JobFilter{Step: "push"})
	if len(jobs) != items || jobs[items-1].Entity != nil || *jobs[items-1].Item != items-1 || *jobs[items-1].ItemText != "the last" {
		c.t.Errorf("%d jobs", len(jobs))
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || string(r.Steps["after"].Result) != `{"last":"the last","size":1000}` || len(r.Steps["push"].Results) != items {
		c.t.Errorf("%s, %d results, %v", r.Steps["after"].Result, len(r.Steps["push"].Results), err)
	}
	for i := range items {
		site := "site"
		if i == items-1 {
			site = "the last"
		}
		if got, want := string(r.Steps["push"].Results[strconv.Itoa(i)]), fmt.Sprintf(`{"n":%d,"site":%q}`, i, site); got != want {
			c.t.Fatalf("result %d is %s, want %s", i, got, want)
		}
	}
}

// maxInFlight checks that as many jobs of a step run concurrently as the definition
// allows and no more, also with first attempts and retries at the same time.
func maxInFlight(config string) func(*fixture) {
	return func(c *fixture) {
		ids := c.importEntities(c.entityType(), 12)
		g, p := newBlockGate(), newConcurrencyCounter()
		c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
			p.enter(k)
			defer p.leave(k)
			if k.Job.Step == "one" && k.Job.Attempt == 1 {
				g.wait(k)
			}
			if k.Job.Attempt == 1 && k.entityID() < ids[6] {
				return errorAnswer("BUSY", true)
			}
			return nil
		})
		retry := "retry: {maxRetries: 2, delay: 1ms}"
		c.publishWorkflow("config: {"+config+"maxInFlight: 3}\n", "label: one, block: work, runOn: KIND, "+retry, "label: two, block: work, runOn: KIND, "+retry)
		id := c.startWorkflow("{}", ids...)
		for range 3 {
			<-g.entered
		}
		if claimed := len(c.listJobs(id, views.JobFilter{Step: "one"})); claimed != 12 {
			c.t.Errorf("%d jobs", claimed)
		}
		close(g.open)
		c.waitEnded(id, sm.ExecutionCompletedAck)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.highest["one"] != 3 || p.highest["two"] > 3 || p.highest["two"] == 0 || c.countCalls("work", "EXECUTE") != 2*(12+6) {
			c.t.Errorf("concurrent calls up to %v, want 3; %d calls", p.highest, c.countCalls("work", "EXECUTE"))
		}
	}
}

// A share of the entities may fail without failing the step; the failed ones take no
// part in later steps. One failure more fails the step. The tolerance does not apply to
// a global job.
func toleratedFailures(c *fixture) {
	ids := c.importEntities(c.entityType(), 10)
	c.registerBlock("maybe", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.Entity.Attributes["n"].(float64) <= k.Parameters["fail"].(float64) {
			return errorAnswer("NO", false)
		}
		return okAnswer(k.entityID())
	})
	c.registerBlock("after", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("config: {failureTolerance: 20%}\n", "label: maybe, block: maybe, runOn: KIND, parameters: {fail: '${parameters.fail}'}", "label: after, block: after, runOn: KIND")
	id := c.startWorkflow(`{"fail":2}`, ids...)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || len(r.Steps["maybe"].Results) != 8 || len(r.Steps["after"].Results) != 8 || c.countCalls("after", "EXECUTE") != 8 || x.Error != nil || x.Progress.Jobs.Failed != 2 {
		c.t.Errorf("%d, then %d results, progress %+v, error %+v, %v", len(r.Steps["maybe"].Results), len(r.Steps["after"].Results), x.Progress.Jobs, x.Error, err)
	}
	id = c.startWorkflow(`{"fail":3}`, ids...)
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "NO", "maybe")
	if n := len(c.listJobs(id, views.JobFilter{Step: "after"})); n != 0 {
		c.t.Errorf("%d jobs of the next step", n)
	}
	c.registerBlock("fail", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	whole := c.publishExtra("whole", "config: {failureTolerance: 1}\n", "label: fail, block: fail, runOn: global", "label: after, block: after, runOn: KIND")
	c.wantFailure(c.waitEnded(c.startRef(whole, "{}", ids...), sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "NO", "fail")
}

// An archived version cannot be started through any reference; running executions go
// on. After a restore it can be started again.
func archivedWorkflow(c *fixture) {
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	ref := func(v string) workflow.Ref { return workflow.Ref{Package: "test", Name: "w-" + c.name, Version: v} }
	name := ref("").String()
	for _, v := range []string{"1.0.0", "1.1.0"} {
		c.publish(fmt.Sprintf("package: test\nname: w-%s\nversion: %s\nsteps: [{label: work, functionBlock: test/%s-work, runOn: global}]\n", c.name, v, c.name))
	}
	running := c.startRef(name+":1", "{}")
	<-g.entered
	if d, err := c.Archive(c.t.Context(), ref("1.1.0"), ""); err != nil || !d.Archived {
		c.t.Fatalf("%+v, %v", d, err)
	}
	start := func(ref string) (string, error) {
		x, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: ref})
		return x.ID, err
	}
	if id, err := start(name + ":1.1.0"); err == nil || !workflow.Is(err, workflow.CodeNotFound) && !workflow.Is(err, workflow.CodeConflict) {
		c.t.Errorf("an archived version was started: %s, %v", id, err)
	}
	executionIDs := map[string]string{running: "1.1.0"}
	newest, err := start(name)
	if err != nil {
		c.t.Fatal(err)
	}
	executionIDs[newest] = "1.0.0"
	if d, err := c.Restore(c.t.Context(), ref("1.1.0"), ""); err != nil || d.Archived {
		c.t.Fatalf("%+v, %v", d, err)
	}
	executionIDs[c.startRef(name, "{}")] = "1.1.0"
	close(g.open)
	for id, version := range executionIDs {
		if x := c.waitEnded(id, sm.ExecutionCompletedAck); x.Workflow.Version != version {
			c.t.Errorf("version %s, want %s", x.Workflow.Version, version)
		}
	}
}

// A dry run reports all errors of a definition and never publishes it.
func dryRun(c *fixture) {
	good := fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\ncron: {schedule: '* * * * * *'}\nsteps: [{label: a, functionBlock: test/a, runOn: global}]\n", c.name)
	bad := strings.Replace(good, "label: a", "label: entity, condition: '1 +'", 1)
	for source, want := range map[string]int{good: http.StatusOK, bad: http.StatusBadRequest} {
		status, body := c.sendRaw("POST", "/workflow-definition/publish?dryRun=true", "application/yaml", source)
		if status != want || status != 200 && (!strings.Contains(body, "steps[0].label") || !strings.Contains(body, "steps[0].condition")) {
			c.t.Errorf("%d %s", status, body)
		}
		if status, body := c.sendPlain(c.t, "GET", "/workflow-definition/test/w-"+c.name+"/1.0.0"); status != http.StatusNotFound {
			c.t.Errorf("the dry run published it: %d %s", status, body)
		}
	}
	for v, err := range c.Schedules(c.t.Context()) {
		if err != nil || v.Schedule == "test/w-"+c.name {
			c.t.Errorf("the dry run created a schedule: %+v, %v", v, err)
		}
	}
}

// A definition can disable rollback, or continue it after a failed wave; an operator can
// disable it for one execution. Such executions wait for an acknowledgement.
func rollbackPolicies(c *fixture) {
	ids := c.importEntities(c.entityType(), 4)
	g := newBlockGate()
	var mu sync.Mutex
	rolledBack := map[string]string{} // steps, by execution
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "EXECUTE" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		rolledBack[k.Job.Execution] += k.Job.Step + " "
		if k.Job.Step == "two" {
			return errorAnswer("STUCK", false)
		}
		return nil
	})
	c.registerBlock("fail", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Parameters["held"] == true {
			g.wait(k)
		}
		return errorAnswer("NO", false)
	})
	steps := []string{"label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND", "label: fail, block: fail, runOn: global, parameters: {held: '${parameters.held}'}"}
	never := c.startRef(c.publishExtra("never", "config: {rollback: never}\n", steps...), `{"held":false}`, ids[0])
	stops := c.startRef(c.publishExtra("stops", "", steps...), `{"held":false}`, ids[1])
	continues := c.startRef(c.publishExtra("goes-on", "config: {rollback: {mode: auto, onFailure: continue}}\n", steps...), `{"held":false}`, ids[2])
	cancelled := c.startRef("test/w-"+c.name+"-goes-on", `{"held":true}`, ids[3])
	<-g.entered
	c.mustRequest(cancelled, "cancel", `{"rollback":"never"}`)
	close(g.open)
	for id, want := range map[string]string{never: "", stops: "two ", continues: "two one ", cancelled: ""} {
		state, acknowledged := sm.ExecutionFailedUnsafe, sm.ExecutionFailedUnsafeAck
		if id == cancelled {
			state, acknowledged = sm.ExecutionCancelled, sm.ExecutionCancelledAck
		}
		x := c.waitEnded(id, state)
		mu.Lock()
		if rolledBack[id] != want || x.RolledBack || x.Waiting == nil || x.Waiting.Kind != workflow.WaitAcknowledge {
			c.t.Errorf("steps rolled back %q, want %q; rolled back %v, waits for %+v", rolledBack[id], want, x.RolledBack, x.Waiting)
		}
		mu.Unlock()
		c.mustRequest(id, "acknowledge", "{}")
		c.waitEnded(id, acknowledged)
	}
}

// Delays grow by the factor up to the maximum.
func backoff(c *fixture) {
	c.registerBlock("work", workflow.Block{Pure: true}, func(k call) blockAnswer { return errorAnswer("BUSY", true) })
	c.publishWorkflow("", "label: work, block: work, runOn: global, retry: {maxRetries: 3, delay: 50ms, backoff: 100, maxDelay: 400ms}")
	id := c.startWorkflow("{}")
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "BUSY", "work")
	jobs := c.listJobs(id, views.JobFilter{})
	if len(jobs) != 4 {
		c.t.Fatalf("%d jobs", len(jobs))
	}
	for i, least := range []time.Duration{0, 50 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond} {
		if i > 0 && jobs[i].StartedAt.Sub(*jobs[i-1].EndedAt) < least {
			c.t.Errorf("attempt %d started %s after the last, want at least %s", i+1, jobs[i].StartedAt.Sub(*jobs[i-1].EndedAt), least)
		}
	}
}

// Entities that a step acquires are locked before the first step. With assertNotEmpty an
// empty list ends the execution before anything is locked.
func acquireByStep(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	site := c.entityType() + "-site"
	c.importEntities(site, 3)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Entity.Type == c.entityType() {
			g.wait(k)
		}
		return nil
	})
	sitesStep := func(query string) string {
		return "label: sites, block: work, runOn: " + site + ", assertNotEmpty: true, acquire: [{type: " + site + ", query: '" + query + "'}]"
	}
	c.publishWorkflow("", "label: devices, block: work, runOn: KIND", sitesStep("entity.n > 1"))
	id := c.startWorkflow("{}", ids[0])
	<-g.entered
	for i, holder := range []any{nil, id, id} {
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: site, ID: fmt.Sprintf("e-%04d", i+1)})
		if holder == nil && (err == nil && l.HeldBy != nil || err != nil && !workflow.Is(err, workflow.CodeNotFound)) || holder != nil && (err != nil || deref(l.HeldBy) != holder) {
			c.t.Errorf("site %d: %+v, %v", i+1, l, err)
		}
	}
	close(g.open)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	if x.Entities[site] != 2 || x.Entities[c.entityType()] != 1 || len(c.listJobs(id, views.JobFilter{Step: "sites"})) != 2 {
		c.t.Errorf("entities %v, %d jobs", x.Entities, len(c.listJobs(id, views.JobFilter{Step: "sites"})))
	}
	none := c.startRef(c.publishExtra("none", "", "label: devices, block: work, runOn: KIND", sitesStep("entity.n > 100")), "{}", ids[1])
	c.waitEnded(none, sm.ExecutionFailedSafeAck)
	if got := c.executedEntities(none); got != "" || strings.Contains(fmt.Sprint(c.stateHistory(none)), "LOCKING") {
		c.t.Errorf("executed on %s, states %v", got, c.stateHistory(none))
	}
}
