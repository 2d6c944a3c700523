package e2e

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// wantMonotonicStatus reads an execution repeatedly, in the list, in detail and by its
// status, until it has ended. A later read never shows an earlier status, and a terminal
// status never changes.
func (c *fixture) wantMonotonicStatus(id string, end sm.Status) {
	c.t.Helper()
	rank := map[sm.Status]int{sm.StatusPending: 1, sm.StatusRunning: 2, end: 3}
	last, version, after := sm.Status(""), int64(0), 0
	check := func(where string, status sm.Status) {
		if rank[status] < rank[last] || rank[status] == 0 {
			c.t.Errorf("%s shows %s after %q", where, status, last)
		}
		last = status
	}
	eventually(c.t, id+" has ended", func() bool {
		listed := 0
		for x, err := range c.Executions(c.t.Context(), views.ExecutionFilter{Workflow: workflow.Ref{Package: "test", Name: "w-" + c.name}}) {
			if err != nil {
				c.t.Fatal(err)
			}
			if x.ID == id {
				listed++
				check("the list", x.Status)
			}
		}
		x := c.getExecution(id)
		check("the detail", x.Status)
		if x.Version < version || sm.StatusOf(x.State) != x.Status || (x.EndedAt != nil) != sm.Terminal(x.State) {
			c.t.Errorf("%s is %s, ended %v, version %d after %d", x.State, x.Status, x.EndedAt, x.Version, version)
		}
		version = x.Version
		s, err := c.Status(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		check("the status", s.State)
		if (s.TerminalEvent != nil) != (s.State == end) || (s.EndedAt != nil) != (s.State == end) || s.CompletionInferred {
			c.t.Errorf("status %+v", s)
		}
		if last == end {
			after++
		}
		if after > 1 && listed != 1 {
			c.t.Errorf("an ended execution is listed %d times", listed)
		}
		return after > 3
	})
}

// N59, N60: all views of an execution agree, and a failed one never reads completed.
func viewsAreConsistent(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		if k.Job.Step == "three" && k.Parameters["fail"] == true {
			return errorAnswer("NO", false)
		}
		return nil
	})
	c.publishWorkflow("", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND", "label: three, block: work, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	bad := c.startWorkflow(`{"fail":true}`, ids...)
	c.wantMonotonicStatus(bad, sm.StatusFailed)
	c.waitEnded(bad, sm.ExecutionFailedUnsafe)
	if _, err := c.Acknowledge(c.t.Context(), bad, ""); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(bad, sm.ExecutionFailedUnsafeAck)
	id := c.startWorkflow(`{"secret":"hush","fail":false}`, ids...)
	c.wantMonotonicStatus(id, sm.StatusCompleted)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	code, body := c.sendRaw("GET", "/executions/"+id+"/status", "", "")
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil || code != 200 {
		c.t.Fatalf("%d %s", code, body)
	}
	if len(fields) != 7 || strings.Contains(body, "hush") || fields["state"] != "COMPLETED" || fields["terminal_event"] != "execution.completed" {
		c.t.Errorf("status %s", body)
	}
	for _, path := range []string{"/workflow-execution/active", "/workflow-execution/state/COMPLETED_ACK", "/workflow-execution/id/" + id} {
		code, body := c.sendRaw("GET", path, "", "")
		if listed := strings.Contains(body, id); code != 200 || listed == strings.HasSuffix(path, "active") {
			c.t.Errorf("%s: %d, listed %v", path, code, listed)
		}
	}
}

func linkedRetries(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		if k.Job.Attempt < 3 {
			return errorAnswer("BUSY", true)
		}
		return nil
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND, retry: {maxRetries: 3, delay: 50ms}")
	id := c.startWorkflow("{}", ids...)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	jobs := c.listJobs(id, views.JobFilter{})
	if len(jobs) != 3 {
		c.t.Fatalf("%d jobs, want three attempts", len(jobs))
	}
	for i, j := range jobs {
		if j.Attempt != i+1 || (i > 0 && deref(j.Replaces) != jobs[i-1].ID) || (i < 2 && deref(j.ReplacedBy) != jobs[i+1].ID) {
			c.t.Errorf("attempt %d is not linked: %+v", i+1, j)
		}
	}
	fences := map[string]bool{}
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id {
			fences[k.Fence] = true
		}
	}
	if len(fences) != 3 {
		c.t.Errorf("three attempts have %d fences", len(fences))
	}
}

func idempotentStart(c *fixture) {
	c.registerBlock("hello", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("", "label: hello, block: hello, runOn: global")
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
			if ids[i] = x.ID; !existed {
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
		c.t.Errorf("%d replies report a new execution, want 1", fresh)
	}
	_, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/w-" + c.name, Parameters: json.RawMessage(`{"x":1}`), IdempotencyKey: c.name})
	if !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
		c.t.Errorf("the key of another request was accepted: %v", err)
	}
	c.waitEnded(ids[0], sm.ExecutionCompletedAck)
}

func tenantIsolation(c *fixture) {
	c.registerBlock("hello", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("", "label: hello, block: hello, runOn: global")
	id := c.startWorkflow("{}")
	c.waitEnded(id, sm.ExecutionCompletedAck)
	other := c.clientFor("someone-else")
	if _, err := other.Execution(c.t.Context(), id); !workflow.Is(err, workflow.CodeNotFound) {
		c.t.Errorf("another tenant reads the execution: %v", err)
	}
	if _, err := other.Cancel(c.t.Context(), id, views.CancelRequest{}); !workflow.Is(err, workflow.CodeNotFound) {
		c.t.Errorf("another tenant cancels the execution: %v", err)
	}
	for x, err := range other.Executions(c.t.Context(), views.ExecutionFilter{}) {
		if err != nil || x.ID != "" {
			c.t.Errorf("another tenant lists %s, %v", x.ID, err)
		}
	}
}

func unclaimedJobs(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Pool: "no-workers"}, nil)
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	x, err := c.Execution(c.t.Context(), id)
	if err != nil || x.Waiting == nil || x.Waiting.Kind != workflow.WaitWorker {
		c.t.Errorf("waiting %+v, %v", x.Waiting, err)
	}
	end := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if end.Cause == nil || *end.Cause != workflow.CauseUnclaimed {
		c.t.Errorf("cause %v", deref(end.Cause))
	}
}
