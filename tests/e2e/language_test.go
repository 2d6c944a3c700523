package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// peaks counts, for each step, how many calls are under way at once at most.
type peaks struct {
	mu        sync.Mutex
	now, most map[string]int
}

func newPeaks() *peaks { return &peaks{now: map[string]int{}, most: map[string]int{}} }

func (p *peaks) enter(k call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now[k.Job.Step]++
	p.most[k.Job.Step] = max(p.most[k.Job.Step], p.now[k.Job.Step])
}

func (p *peaks) leave(k call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now[k.Job.Step]--
}

// inFlight has no more jobs of a step under way than the definition allows, also
// where first attempts and further ones meet, and as many as that.
func inFlight(config string) func(*scene) {
	return func(c *scene) {
		ids := c.entities(c.kind(), 12)
		g, p := newGate(), newPeaks()
		c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
			p.enter(k)
			defer p.leave(k)
			if k.Job.Step == "one" && k.Job.Attempt == 1 {
				g.pass(k)
			}
			if k.Job.Attempt == 1 && k.on() < ids[6] {
				return failed("BUSY", true)
			}
			return nil
		})
		retry := "retry: {maxRetries: 2, delay: 1ms}"
		c.define("config: {"+config+"maxInFlight: 3}\n", "label: one, block: work, runOn: KIND, "+retry, "label: two, block: work, runOn: KIND, "+retry)
		id := c.run("{}", ids...)
		for range 3 {
			<-g.entered
		}
		if claimed := len(c.jobs(id, views.JobFilter{Step: "one"})); claimed != 12 {
			c.t.Errorf("%d jobs", claimed)
		}
		close(g.open)
		c.ends(id, sm.ExecutionCompletedAck)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.most["one"] != 3 || p.most["two"] > 3 || p.most["two"] == 0 || c.of("work", "EXECUTE") != 2*(12+6) {
			c.t.Errorf("at once at most %v, want 3; %d calls", p.most, c.of("work", "EXECUTE"))
		}
	}
}

// A share of the entities may fail: the step has not failed, what failed takes no
// part in what follows, and one more is too much. A global job is no share of
// anything.
func tolerated(c *scene) {
	ids := c.entities(c.kind(), 10)
	c.block("maybe", workflow.Block{Pure: true}, func(k call) answer {
		if k.Entity.Attributes["n"].(float64) <= k.Parameters["fail"].(float64) {
			return failed("NO", false)
		}
		return ok(k.on())
	})
	c.block("after", workflow.Block{Pure: true}, nil)
	c.define("config: {failureTolerance: 20%}\n", "label: maybe, block: maybe, runOn: KIND, parameters: {fail: '${parameters.fail}'}", "label: after, block: after, runOn: KIND")
	id := c.run(`{"fail":2}`, ids...)
	x := c.ends(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || len(r.Steps["maybe"].Results) != 8 || len(r.Steps["after"].Results) != 8 || c.of("after", "EXECUTE") != 8 || x.Error != nil || x.Progress.Jobs.Failed != 2 {
		c.t.Errorf("%d, then %d results, progress %+v, error %+v, %v", len(r.Steps["maybe"].Results), len(r.Steps["after"].Results), x.Progress.Jobs, x.Error, err)
	}
	id = c.run(`{"fail":3}`, ids...)
	c.failedBy(c.ends(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "NO", "maybe")
	if n := len(c.jobs(id, views.JobFilter{Step: "after"})); n != 0 {
		c.t.Errorf("%d jobs of the next step", n)
	}
	c.block("fail", workflow.Block{Pure: true}, func(call) answer { return failed("NO", false) })
	whole := c.also("whole", "config: {failureTolerance: 1}\n", "label: fail, block: fail, runOn: global", "label: after, block: after, runOn: KIND")
	c.failedBy(c.ends(c.launch(whole, "{}", ids...), sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "NO", "fail")
}

// An archived version starts nothing, by whatever reference; what has begun goes
// on; once it is restored it is as before.
func archived(c *scene) {
	g := newGate()
	c.block("work", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, g.pass)
	ref := func(v string) workflow.Ref { return workflow.Ref{Package: "test", Name: "w-" + c.name, Version: v} }
	name := ref("").String()
	for _, v := range []string{"1.0.0", "1.1.0"} {
		c.publish(fmt.Sprintf("package: test\nname: w-%s\nversion: %s\nsteps: [{label: work, functionBlock: test/%s-work, runOn: global}]\n", c.name, v, c.name))
	}
	begun := c.launch(name+":1", "{}")
	<-g.entered
	if d, err := c.Archive(c.t.Context(), ref("1.1.0")); err != nil || !d.Archived {
		c.t.Fatalf("%+v, %v", d, err)
	}
	start := func(of string) (string, error) {
		x, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: of})
		return x.ID, err
	}
	if id, err := start(name + ":1.1.0"); err == nil || !workflow.Is(err, workflow.CodeNotFound) && !workflow.Is(err, workflow.CodeConflict) {
		c.t.Errorf("an archived version starts %s, %v", id, err)
	}
	runs := map[string]string{begun: "1.1.0"}
	newest, err := start(name)
	if err != nil {
		c.t.Fatal(err)
	}
	runs[newest] = "1.0.0"
	if d, err := c.Restore(c.t.Context(), ref("1.1.0")); err != nil || d.Archived {
		c.t.Fatalf("%+v, %v", d, err)
	}
	runs[c.launch(name, "{}")] = "1.1.0"
	close(g.open)
	for id, version := range runs {
		if x := c.ends(id, sm.ExecutionCompletedAck); x.Workflow.Version != version {
			c.t.Errorf("it ran %s, want %s", x.Workflow.Version, version)
		}
	}
}

// A dry run says all that is wrong, or nothing, and publishes in neither case.
func dryRun(c *scene) {
	good := fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\ncron: {schedule: '* * * * * *'}\nsteps: [{label: a, functionBlock: test/a, runOn: global}]\n", c.name)
	bad := strings.Replace(good, "label: a", "label: entity, condition: '1 +'", 1)
	for source, want := range map[string]int{good: http.StatusOK, bad: http.StatusBadRequest} {
		status, body := c.post("POST", "/workflow-definition/publish?dryRun=true", "application/yaml", source)
		if status != want || status != 200 && (!strings.Contains(body, "steps[0].label") || !strings.Contains(body, "steps[0].condition")) {
			c.t.Errorf("%d %s", status, body)
		}
		if status, body := c.plain(c.t, "GET", "/workflow-definition/test/w-"+c.name+"/1.0.0"); status != http.StatusNotFound {
			c.t.Errorf("it is published: %d %s", status, body)
		}
	}
	for v, err := range c.Schedules(c.t.Context()) {
		if err != nil || v.Schedule == "test/w-"+c.name {
			c.t.Errorf("a schedule is there: %+v, %v", v, err)
		}
	}
}

// A definition may say that nothing is undone, or that the waves behind one that
// fails are; an operator may say the former of a run. Somebody has to look.
func rollbackAsSaid(c *scene) {
	ids := c.entities(c.kind(), 4)
	g := newGate()
	var mu sync.Mutex
	undone := map[string]string{} // by execution
	c.block("work", workflow.Block{Idempotent: true, Reversible: true}, func(k call) answer {
		if k.Operation == "EXECUTE" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		undone[k.Job.Execution] += k.Job.Step + " "
		if k.Job.Step == "two" {
			return failed("STUCK", false)
		}
		return nil
	})
	c.block("fail", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.Parameters["held"] == true {
			g.pass(k)
		}
		return failed("NO", false)
	})
	steps := []string{"label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND", "label: fail, block: fail, runOn: global, parameters: {held: '${parameters.held}'}"}
	never := c.launch(c.also("never", "config: {rollback: never}\n", steps...), `{"held":false}`, ids[0])
	stops := c.launch(c.also("stops", "", steps...), `{"held":false}`, ids[1])
	goesOn := c.launch(c.also("goes-on", "config: {rollback: {mode: auto, onFailure: continue}}\n", steps...), `{"held":false}`, ids[2])
	cancelled := c.launch("test/w-"+c.name+"-goes-on", `{"held":true}`, ids[3])
	<-g.entered
	c.ask(cancelled, "cancel", `{"rollback":"never"}`)
	close(g.open)
	for id, want := range map[string]string{never: "", stops: "two ", goesOn: "two one ", cancelled: ""} {
		in, then := sm.ExecutionFailedUnsafe, sm.ExecutionFailedUnsafeAck
		if id == cancelled {
			in, then = sm.ExecutionCancelled, sm.ExecutionCancelledAck
		}
		x := c.ends(id, in)
		mu.Lock()
		if undone[id] != want || x.RolledBack || x.Waiting == nil || x.Waiting.Kind != views.WaitAcknowledge {
			c.t.Errorf("undone %q, want %q; rolled back %v, waits for %+v", undone[id], want, x.RolledBack, x.Waiting)
		}
		mu.Unlock()
		c.ask(id, "acknowledge", "{}")
		c.ends(id, then)
	}
}

// Delays grow by the factor, and not beyond what is the most.
func backoff(c *scene) {
	c.block("work", workflow.Block{Pure: true}, func(k call) answer { return failed("BUSY", true) })
	c.define("", "label: work, block: work, runOn: global, retry: {maxRetries: 3, delay: 50ms, backoff: 100, maxDelay: 400ms}")
	id := c.run("{}")
	c.failedBy(c.ends(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "BUSY", "work")
	jobs := c.jobs(id, views.JobFilter{})
	if len(jobs) != 4 {
		c.t.Fatalf("%d jobs", len(jobs))
	}
	for i, least := range []time.Duration{0, 50 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond} {
		if i > 0 && jobs[i].StartedAt.Sub(*jobs[i-1].EndedAt) < least {
			c.t.Errorf("attempt %d begins %s after the last, want %s", i+1, jobs[i].StartedAt.Sub(*jobs[i-1].EndedAt), least)
		}
	}
}

// What a step acquires is locked before the first step, like all the rest; an
// empty list ends the run before anything is locked, if the step says so.
func acquiredByAStep(c *scene) {
	ids := c.entities(c.kind(), 2)
	site := c.kind() + "-site"
	c.entities(site, 3)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.Entity.Type == c.kind() {
			g.pass(k)
		}
		return nil
	})
	step := func(query string) string {
		return "label: sites, block: work, runOn: " + site + ", assertNotEmpty: true, acquire: [{type: " + site + ", query: '" + query + "'}]"
	}
	c.define("", "label: devices, block: work, runOn: KIND", step("entity.n > 1"))
	id := c.run("{}", ids[0])
	<-g.entered
	for i, holder := range []any{nil, id, id} {
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: site, ID: fmt.Sprintf("e-%04d", i+1)})
		if holder == nil && (err == nil && l.HeldBy != nil || err != nil && !workflow.Is(err, workflow.CodeNotFound)) || holder != nil && (err != nil || value(l.HeldBy) != holder) {
			c.t.Errorf("site %d: %+v, %v", i+1, l, err)
		}
	}
	close(g.open)
	x := c.ends(id, sm.ExecutionCompletedAck)
	if x.Entities[site] != 2 || x.Entities[c.kind()] != 1 || len(c.jobs(id, views.JobFilter{Step: "sites"})) != 2 {
		c.t.Errorf("about %v, %d jobs", x.Entities, len(c.jobs(id, views.JobFilter{Step: "sites"})))
	}
	none := c.launch(c.also("none", "", "label: devices, block: work, runOn: KIND", step("entity.n > 100")), "{}", ids[1])
	c.ends(none, sm.ExecutionFailedSafeAck)
	if got := c.visited(none); got != "" || strings.Contains(fmt.Sprint(c.states(none)), "LOCKING") {
		c.t.Errorf("visited %s, was in %v", got, c.states(none))
	}
}
