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
// type and a block is named by its short name.
func (c *scene) define(extra string, steps ...string) {
	c.t.Helper()
	source := fmt.Sprintf("package: test\nname: w-%s\nversion: 1.0.0\nseedEntity: %s\n%ssteps:\n", c.name, c.kind(), extra)
	for _, step := range steps {
		step = strings.ReplaceAll(step, "KIND", c.kind())
		source += "  - {" + strings.ReplaceAll(step, "block: ", "functionBlock: test/"+c.name+"-") + "}\n"
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
	return fmt.Sprint(x.Id)
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
	if x.Reason == "" || !strings.Contains(x.Reason, "test/nobody:1") || x.Progress.Jobs.Total != 0 {
		c.t.Errorf("reason %q, %d jobs", x.Reason, x.Progress.Jobs.Total)
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
	c.define("", "label: maybe, block: maybe, runOn: KIND, condition: entity.n > 2, assert: 'entity.n == 3'",
		"label: sure, block: sure, runOn: KIND, assert: 'parameters.go == true'")
	id := c.run(`{"go":false}`, ids...)
	x := c.ends(id, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseAssertion || *x.Error.Step != "sure" {
		c.t.Errorf("cause %v, error %+v", value(x.Cause), x.Error)
	}
	if n := c.of("maybe", "EXECUTE"); n != 1 {
		c.t.Errorf("the condition holds for one entity, %d were called", n)
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
	c.block("visit", workflow.Block{Pure: true}, func(k call) answer {
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
	c.ends(id, sm.ExecutionCompletedAck)
	if jobs := c.jobs(id, views.JobFilter{Step: "visit"}); len(jobs) != 100 {
		c.t.Errorf("%d jobs, want 100", len(jobs))
	}
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

func unsafeFailure(c *scene) {
	ids := c.entities(c.kind(), 2)
	c.block("fire", workflow.Block{}, nil)
	c.block("after", workflow.Block{Idempotent: true, Reversible: true}, func(call) answer { return failed("BROKEN", false) })
	c.define("", "label: fire, block: fire, runOn: KIND", "label: after, block: after, runOn: KIND")
	id := c.run("{}", ids...)
	x := c.ends(id, sm.ExecutionFailedUnsafe)
	if x.RolledBack || x.Waiting == nil || x.Waiting.Kind != views.WaitAcknowledge || c.of("after", "ROLLBACK") != 0 {
		c.t.Errorf("rolled back %v, waiting %+v", x.RolledBack, x.Waiting)
	}
	l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: ids[0]})
	if err != nil || value(l.HeldBy) != id {
		c.t.Errorf("an unsafe run must keep its locks: %+v, %v", l, err)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, "checked by hand"); err != nil {
		c.t.Fatal(err)
	}
	c.ends(id, sm.ExecutionFailedUnsafeAck)
	events := c.events(id)
	if last := events[len(events)-1]; last.Type != "execution.acknowledged" || last.Actor != "local" || !strings.Contains(string(last.Data), "checked by hand") {
		c.t.Errorf("not audited: %+v", last)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, ""); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("acknowledged twice: %v", err)
	}
}

func nothingMatches(c *scene) {
	c.entities(c.kind(), 2)
	c.block("work", workflow.Block{Pure: true}, nil)
	c.define("assertNotEmpty: true\nacquire: [{type: "+c.kind()+", query: 'entity.n > 100'}]\n", "label: work, block: work, runOn: KIND")
	x := c.ends(c.run("{}"), sm.ExecutionFailedSafeAck)
	for _, e := range c.events(x.ID) {
		if e.Type == "lock.requested" {
			c.t.Error("something was locked")
		}
	}
}

func pureFailure(c *scene) {
	ids := c.entities(c.kind(), 3)
	c.block("look", workflow.Block{Pure: true}, func(k call) answer {
		if k.on() == ids[1] {
			return failed("BLIND", false)
		}
		return nil
	})
	c.define("", "label: look, block: look, runOn: KIND")
	id := c.run("{}", ids...)
	x := c.ends(id, sm.ExecutionFailedSafeAck)
	if x.RolledBack || *x.Error.Entity != c.kind()+"/"+ids[1] || len(c.jobs(id, views.JobFilter{Kind: workflow.JobRollback})) != 0 {
		c.t.Errorf("rolled back %v, error %+v", x.RolledBack, x.Error)
	}
}

func rollbackInReverse(c *scene) {
	ids := c.entities(c.kind(), 2)
	var mu sync.Mutex
	var order []string
	note := func(step string) func(call) answer {
		return func(k call) answer {
			mu.Lock()
			order = append(order, k.Operation+" "+step)
			mu.Unlock()
			if step == "second" && k.Operation == "EXECUTE" && k.on() == ids[1] {
				return failed("NO", false)
			}
			return ok(map[string]any{"did": step})
		}
	}
	c.block("first", workflow.Block{Idempotent: true, Reversible: true}, note("first"))
	c.block("second", workflow.Block{Idempotent: true, Reversible: true}, note("second"))
	c.define("", "label: first, block: first, runOn: KIND", "label: second, block: second, runOn: KIND")
	x := c.ends(c.run("{}", ids...), sm.ExecutionFailedSafeAck)
	if !x.RolledBack {
		c.t.Error("not rolled back")
	}
	mu.Lock()
	defer mu.Unlock()
	undone := []string{}
	for _, o := range order {
		if strings.HasPrefix(o, "ROLLBACK") {
			undone = append(undone, o)
		}
	}
	if got := strings.Join(undone, ","); !strings.HasPrefix(got, "ROLLBACK second") || !strings.HasSuffix(got, "ROLLBACK first,ROLLBACK first") || strings.Contains(got, "first,ROLLBACK second") {
		c.t.Errorf("undone in the order %s", got)
	}
	for _, k := range c.b.all() {
		if k.Operation == "ROLLBACK" && strings.HasPrefix(k.Block, "test/"+c.name+"-first:") && string(k.Result) != `{"did":"first"}` {
			c.t.Errorf("a rollback is given %s to undo", k.Result)
		}
	}
}

func rollbackFails(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.block("first", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.block("second", workflow.Block{Idempotent: true, Reversible: true}, func(k call) answer {
		if k.Operation == "ROLLBACK" {
			return failed("STUCK", false)
		}
		return nil
	})
	c.block("third", workflow.Block{Pure: true}, func(call) answer { return failed("NO", false) })
	c.define("", "label: first, block: first, runOn: KIND", "label: second, block: second, runOn: KIND", "label: third, block: third, runOn: KIND")
	id := c.run("{}", ids...)
	c.ends(id, sm.ExecutionFailedUnsafe)
	if c.of("second", "ROLLBACK") != 1 || c.of("first", "ROLLBACK") != 0 {
		c.t.Error("the waves after a failed one must not run")
	}
	if _, err := c.Acknowledge(c.t.Context(), id, ""); err != nil {
		c.t.Fatal(err)
	}
	c.ends(id, sm.ExecutionFailedUnsafeAck)
}

func cancelMidway(c *scene) {
	ids := c.entities(c.kind(), 4)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.Operation == "ROLLBACK" {
			return nil
		}
		return g.pass(k)
	})
	c.define("config: {maxInFlight: 1}\n", "label: work, block: work, runOn: KIND")
	id := c.run("{}", ids...)
	<-g.entered
	x, err := c.Cancel(c.t.Context(), id, views.CancelRequest{Reason: "not today", Cascade: true})
	if err != nil || x.Status != sm.StatusRunning || x.Cancellation == nil || x.Cancellation.Reason != "not today" {
		c.t.Fatalf("cancelled: %+v, %v", x, err)
	}
	if _, err := c.Cancel(c.t.Context(), id, views.CancelRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("cancelled twice: %v", err)
	}
	close(g.open)
	end := c.ends(id, sm.ExecutionCancelledAck)
	if !end.RolledBack || c.of("work", "EXECUTE") != 1 || c.of("work", "ROLLBACK") != 1 {
		c.t.Errorf("rolled back %v, %d executed, %d undone: what was pending must not run", end.RolledBack, c.of("work", "EXECUTE"), c.of("work", "ROLLBACK"))
	}
}

func viewsAgree(c *scene) {
	ids := c.entities(c.kind(), 3)
	c.block("work", workflow.Block{Idempotent: true}, nil)
	c.define("", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND", "label: three, block: work, runOn: KIND")
	id := c.run(`{"secret":"hush"}`, ids...)
	left := false
	for {
		detail, err := c.Execution(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		status, err := c.Status(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		if left && status.State != sm.StatusCompleted {
			c.t.Fatalf("left a terminal state for %s", status.State)
		}
		left = left || status.State == sm.StatusCompleted
		if detail.Status == sm.StatusCompleted && status.State != sm.StatusCompleted {
			c.t.Errorf("the detail says %s, the status later %s", detail.Status, status.State)
		}
		if (status.TerminalEvent != nil) != (status.State == sm.StatusCompleted) || status.CompletionInferred {
			c.t.Errorf("status %+v", status)
		}
		if left {
			break
		}
	}
	code, body := c.post("GET", "/executions/"+id+"/status", "", "")
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil || code != 200 {
		c.t.Fatalf("%d %s", code, body)
	}
	if len(fields) != 7 || strings.Contains(body, "hush") || fields["state"] != "COMPLETED" || fields["terminal_event"] != "execution.completed" {
		c.t.Errorf("status %s", body)
	}
	for _, path := range []string{"/workflow-execution/active", "/workflow-execution/state/COMPLETED_ACK", "/workflow-execution/id/" + id} {
		code, body := c.post("GET", path, "", "")
		if listed := strings.Contains(body, id); code != 200 || listed == strings.HasSuffix(path, "active") {
			c.t.Errorf("%s: %d, listed %v", path, code, listed)
		}
	}
	c.ends(id, sm.ExecutionCompletedAck)
}

func linkedRetries(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.block("work", workflow.Block{Idempotent: true}, func(k call) answer {
		if k.Job.Attempt < 3 {
			return failed("BUSY", true)
		}
		return nil
	})
	c.define("", "label: work, block: work, runOn: KIND, retry: {maxRetries: 3, delay: 50ms}")
	id := c.run("{}", ids...)
	c.ends(id, sm.ExecutionCompletedAck)
	jobs := c.jobs(id, views.JobFilter{})
	if len(jobs) != 3 {
		c.t.Fatalf("%d jobs, want three attempts", len(jobs))
	}
	for i, j := range jobs {
		if j.Attempt != i+1 || (i > 0 && value(j.Replaces) != jobs[i-1].ID) || (i < 2 && value(j.ReplacedBy) != jobs[i+1].ID) {
			c.t.Errorf("attempt %d is not linked: %+v", i+1, j)
		}
	}
	fences := map[string]bool{}
	for _, k := range c.b.all() {
		if k.Job.Execution == id {
			fences[k.Fence] = true
		}
	}
	if len(fences) != 3 {
		c.t.Errorf("three attempts have %d fences", len(fences))
	}
}

func idempotentStart(c *scene) {
	c.block("hello", workflow.Block{Pure: true}, nil)
	c.define("", "label: hello, block: hello, runOn: global")
	ids := make([]string, 20)
	var all sync.WaitGroup
	fresh := 0
	var mu sync.Mutex
	for i := range ids {
		all.Go(func() {
			x, existed, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, IdempotencyKey: c.name})
			if err != nil {
				c.t.Errorf("start: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[i] = fmt.Sprint(x.Id); !existed {
				fresh++
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			c.t.Fatalf("one key started %s and %s", ids[0], id)
		}
	}
	if fresh != 1 {
		c.t.Errorf("%d requests say that they started the run", fresh)
	}
	_, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, Parameters: json.RawMessage(`{"x":1}`), IdempotencyKey: c.name})
	if !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
		c.t.Errorf("the key is accepted for another request: %v", err)
	}
	c.ends(ids[0], sm.ExecutionCompletedAck)
}

func otherTenant(c *scene) {
	c.block("hello", workflow.Block{Pure: true}, nil)
	c.define("", "label: hello, block: hello, runOn: global")
	id := c.run("{}")
	c.ends(id, sm.ExecutionCompletedAck)
	other := c.as("someone-else")
	if _, err := other.Execution(c.t.Context(), id); !workflow.Is(err, workflow.CodeNotFound) {
		c.t.Errorf("another tenant reads the run: %v", err)
	}
	if _, err := other.Cancel(c.t.Context(), id, views.CancelRequest{}); !workflow.Is(err, workflow.CodeNotFound) {
		c.t.Errorf("another tenant cancels the run: %v", err)
	}
	for x, err := range other.Executions(c.t.Context(), views.ExecutionFilter{}) {
		if err != nil || x.ID != "" {
			c.t.Errorf("another tenant lists %s, %v", x.ID, err)
		}
	}
}

func unclaimed(c *scene) {
	ids := c.entities(c.kind(), 2)
	c.block("work", workflow.Block{Pool: "nobody"}, nil)
	c.define("", "label: work, block: work, runOn: KIND")
	id := c.run("{}", ids...)
	x, err := c.Execution(c.t.Context(), id)
	if err != nil || x.Waiting == nil || x.Waiting.Kind != views.WaitWorker {
		c.t.Errorf("waiting %+v, %v", x.Waiting, err)
	}
	end := c.ends(id, sm.ExecutionFailedSafeAck)
	if end.Cause == nil || *end.Cause != workflow.CauseUnclaimed {
		c.t.Errorf("cause %v", value(end.Cause))
	}
}
