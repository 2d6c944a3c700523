package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// listCalls lists an execution's calls for an operation, in order, each as step and
// entity.
func (c *fixture) listCalls(id, operation string) (calls []string) {
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id && k.Operation == operation {
			calls = append(calls, k.Job.Step+" "+k.entityID())
		}
	}
	return calls
}

// N39 with entities in different steps: each completed job is rolled back once, the
// last step first.
func pipelinesRolledBack(c *fixture) {
	ids := c.importEntities(c.entityType(), 4)
	slow, ahead := newBlockGate(), newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		switch {
		case k.Operation == "ROLLBACK":
		case k.Job.Step == "a" && k.entityID() == ids[0]:
			slow.wait(k)
		case k.Job.Step == "c" && k.entityID() == ids[1]:
			ahead.wait(k)
			return errorAnswer("NO", false)
		}
		return nil
	})
	c.publishWorkflow("config: {executionStrategy: {parallel: true}}\n",
		"label: a, block: work, runOn: KIND", "label: b, block: work, runOn: KIND", "label: c, block: work, runOn: KIND", "label: d, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-slow.entered
	<-ahead.entered
	eventually(c.t, "the others have completed the last step", func() bool { return len(c.listJobs(id, views.JobFilter{Step: "d", State: sm.JobCompleted})) == 2 })
	close(ahead.open)
	eventually(c.t, "the execution is in ERROR", func() bool { return c.getExecution(id).State == sm.ExecutionError })
	close(slow.open)
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	c.wantFailure(x, workflow.CauseStepFailed, "NO", "c")
	done, undone := c.listCalls(id, "EXECUTE"), c.listCalls(id, "ROLLBACK")
	var order []string
	for _, u := range undone {
		order = append(order, strings.Fields(u)[0])
	}
	if !slices.IsSortedFunc(order, func(a, b string) int { return strings.Compare(b, a) }) {
		c.t.Errorf("rolled back in the order %v", undone)
	}
	slices.Sort(done)
	slices.Sort(undone)
	// The slow entity may have passed its second step before it was stopped, but no more.
	if !x.RolledBack || !slices.Equal(done, undone) || slices.Contains(done, "c "+ids[0]) || slices.Contains(done, "d "+ids[1]) || len(done) < 4+3+3+2 {
		c.t.Errorf("rolled back %v\ndone   %v\nundone %v", x.RolledBack, done, undone)
	}
}

// Retries, conditions, repetitions and tolerated failures have the same result with and
// without pipelines.
func pipelinesGiveSameResult(c *fixture) {
	ids := c.importEntities(c.entityType(), 5)
	c.registerBlock("work", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		n := k.Entity.Attributes["n"].(float64)
		switch {
		case k.Job.Step == "retried" && n > 3 && k.Job.Attempt < 3:
			return errorAnswer("BUSY", true)
		case k.Job.Step == "shaky" && n == 2:
			return errorAnswer("NO", false)
		}
		return okAnswer(map[string]any{"n": n, "given": k.Parameters["given"], "attempt": k.Job.Attempt})
	})
	steps := []string{
		"label: retried, block: work, runOn: KIND, retry: {maxRetries: 2, delay: 5ms}",
		"label: some, block: work, runOn: KIND, condition: entity.n != 5.0, parameters: {given: '${retried.result.attempt}'}",
		"label: shaky, block: work, runOn: KIND, continueOnError: true",
		"label: repeated, block: work, runOn: KIND, repeat: {count: 3, while: entity.n < 3}, parameters: {given: '${entity.n}'}",
		"label: last, block: work, runOn: KIND, condition: steps.shaky.status == 'FAILED', parameters: {given: '${retried.result}'}",
	}
	var outcomes [2]string
	for i, config := range []string{"", "config: {executionStrategy: {parallel: true}}\n"} {
		id := c.startRef(c.publishExtra(fmt.Sprint("mode", i), config, steps...), "{}", ids...)
		c.waitEnded(id, sm.ExecutionCompletedAck)
		r, err := c.Result(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		calls := c.listCalls(id, "EXECUTE")
		slices.Sort(calls)
		text, err := json.MarshalIndent([]any{calls, r.Steps}, "", " ")
		if err != nil {
			c.t.Fatal(err)
		}
		outcomes[i] = string(text)
		if len(calls) != 5+2*2+4+5+5+2*2+5 {
			c.t.Errorf("%d calls: %v", len(calls), calls)
		}
	}
	if outcomes[0] != outcomes[1] {
		c.t.Errorf("step by step\n%s\nin pipelines\n%s", outcomes[0], outcomes[1])
	}
}

// A retry of an execution whose child failed starts a new child.
func retryStartsNewChild(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	var fixed atomic.Bool
	c.registerBlock("work", workflow.Block{}, func(call) blockAnswer {
		if !fixed.Load() {
			return errorAnswer("BROKEN", false)
		}
		return nil
	})
	c.registerBlock("after", workflow.Block{Pure: true}, func(k call) blockAnswer { return okAnswer(k.Parameters["status"]) })
	c.publishCaller("dispatch")
	id := c.startWorkflow(fmt.Sprintf(`{"ids":[%q]}`, ids[0]))
	x := c.waitEnded(id, sm.ExecutionFailedUnsafe) // its child ran a block that is not reversible
	first := x.Children[0]
	c.waitEnded(first, sm.ExecutionFailedUnsafe)
	c.mustRequest(first, "acknowledge", "{}")
	c.waitEnded(first, sm.ExecutionFailedUnsafeAck)
	fixed.Store(true)
	c.mustRequest(id, "retry", `{"reason":"fixed"}`)
	x = c.waitEnded(id, sm.ExecutionCompletedAck)
	if len(x.Children) != 2 || x.Children[0] != first || x.Try != 2 {
		c.t.Fatalf("children %v, try %d", x.Children, x.Try)
	}
	c.waitEnded(x.Children[1], sm.ExecutionCompletedAck)
	c.waitEnded(first, sm.ExecutionFailedUnsafeAck)
	if r, err := c.Result(c.t.Context(), id); err != nil || string(r.Steps["after"].Result) != `"COMPLETED"` || c.countCalls("work", "EXECUTE") != 2 {
		c.t.Errorf("%s after %d calls, %v", r.Steps["after"].Result, c.countCalls("work", "EXECUTE"), err)
	}
}

// A child that needs an entity of its waiting parent would wait forever. It fails with
// the cause lock deadlock, and so does the parent.
func selfDeadlock(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.publishExtra("leaf", "", "label: work, block: work, runOn: KIND")
	c.publishExtra("middle", "", "label: call, workflowReference: {workflow: WF-leaf, mode: dispatch, executeOnParameters: {ids: [e-0001]}}")
	c.publishWorkflow("", "label: own, block: work, runOn: KIND", "label: call, workflowReference: {workflow: WF-middle, mode: dispatch, executeOnParameters: {ids: [e-0002]}}")
	id := c.startWorkflow("{}", ids[0])
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if deref(x.Cause) != any(workflow.CauseChildFailed) || !x.RolledBack || len(x.Children) != 1 {
		c.t.Fatalf("cause %v, rolled back %v, children %v", deref(x.Cause), x.RolledBack, x.Children)
	}
	y := c.waitEnded(x.Children[0], sm.ExecutionFailedSafeAck)
	if len(y.Children) != 1 {
		c.t.Fatalf("children %v", y.Children)
	}
	z := c.waitEnded(y.Children[0], sm.ExecutionFailedSafeAck)
	if deref(z.Cause) != any(workflow.CauseLockDeadlock) || !strings.Contains(z.Reason, ids[0]) && (z.Error == nil || !strings.Contains(z.Error.Message, ids[0])) {
		c.t.Errorf("cause %v, reason %q, error %+v", deref(z.Cause), z.Reason, z.Error)
	}
	if c.countCalls("work", "EXECUTE") != 1 || c.countCalls("work", "ROLLBACK") != 1 {
		c.t.Errorf("%d calls, %d rollbacks", c.countCalls("work", "EXECUTE"), c.countCalls("work", "ROLLBACK"))
	}
}

// A fire-and-forget child that needs an entity of its parent waits for the lock; that is
// not a deadlock.
func fireAndForgetChildWaits(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Job.Step == "own" {
			g.wait(k)
		}
		return nil
	})
	c.publishExtra("leaf", "", "label: work, block: work, runOn: KIND")
	c.publishWorkflow("", "label: call, workflowReference: {workflow: WF-leaf, mode: fireAndForget, executeOnParameters: {ids: [e-0001]}}", "label: own, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids[0])
	<-g.entered
	child := c.getExecution(id).Children[0]
	x := c.waitForKind(child, workflow.WaitLock)
	if len(x.Waiting.Blockers) != 1 || deref(x.Waiting.Blockers[0].HeldBy) != any(id) {
		c.t.Errorf("the child waits for %+v", x.Waiting)
	}
	close(g.open)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.waitEnded(child, sm.ExecutionCompletedAck)
}

// N50, N48: an execution that is cancelled while its child runs rolls back its own jobs,
// and the child does too.
func childrenRolledBack(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	var mu sync.Mutex
	var undone []string
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			mu.Lock()
			defer mu.Unlock()
			undone = append(undone, k.entityID())
		} else if k.entityID() == ids[1] {
			g.wait(k)
		}
		return nil
	})
	c.publishExtra("leaf", "", "label: work, block: work, runOn: KIND")
	c.publishWorkflow("", "label: own, block: work, runOn: KIND", "label: call, workflowReference: {workflow: WF-leaf, mode: dispatch, executeOnParameters: {ids: [e-0002]}}")
	id := c.startWorkflow("{}", ids[0])
	child := <-g.entered
	c.waitForKind(id, workflow.WaitChild)
	c.mustRequest(id, "cancel", `{"reason":"enough"}`)
	c.waitUntil(child, "the child is being cancelled", func(x views.ExecutionView) bool { return x.Cancellation != nil })
	close(g.open)
	for _, parent := range []string{child, id} {
		if x := c.waitEnded(parent, sm.ExecutionCancelledAck); !x.RolledBack {
			c.t.Errorf("%s is not rolled back", parent)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(undone)
	if !slices.Equal(undone, ids) {
		c.t.Errorf("rolled back on %v", undone)
	}
}

// A definition can be embedded in an embedded one. Each has its own parameters, and its
// steps are named by their path.
func workflowEmbeddedTwice(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Pure: true}, func(k call) blockAnswer { return okAnswer(k.Parameters["at"]) })
	c.publishExtra("leaf", "", "label: work, block: work, runOn: KIND, condition: parameters.n > 0, parameters: {at: '${parameters.at}/leaf ${parameters.n}'}")
	c.publishExtra("middle", "", "label: work, block: work, runOn: KIND, parameters: {at: '${parameters.at}/middle'}",
		"label: first, workflowReference: {workflow: WF-leaf}, parameters: {at: '${parameters.at}/middle', n: 1}",
		"label: none, workflowReference: {workflow: WF-leaf}, parameters: {at: '${parameters.at}/middle', n: 0}",
		"label: skipped, workflowReference: {workflow: WF-leaf}, condition: parameters.at == 'nowhere', parameters: {at: '${parameters.at}/middle', n: 2}")
	c.publishWorkflow("", "label: call, workflowReference: {workflow: WF-middle}, parameters: {at: '${parameters.at}'}",
		"label: again, workflowReference: {workflow: WF-middle}, parameters: {at: second}", "label: work, block: work, runOn: KIND, parameters: {at: '${parameters.at}'}")
	id := c.startWorkflow(`{"at":"root"}`, ids...)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	for step, want := range map[string]string{
		"call.work": "root/middle", "call.first.work": "root/middle/leaf 1", "again.work": "second/middle", "again.first.work": "second/middle/leaf 1", "work": "root",
	} {
		for _, on := range ids {
			if got := string(r.Steps[step].Results[on]); got != fmt.Sprintf("%q", want) {
				c.t.Errorf("%s on %s: %s, want %s", step, on, got, want)
			}
		}
	}
	if n := len(c.listJobs(id, views.JobFilter{})); n != 5*2 {
		c.t.Errorf("%d jobs", n)
	}
	for v, err := range c.Steps(c.t.Context(), id) {
		if err != nil || strings.HasSuffix(v.Step, "skipped") && v.Status != sm.StepSkipped || v.Step == "call.none.work" && v.Status != sm.StepSkipped {
			c.t.Errorf("step %s is %s, %v", v.Step, v.Status, err)
		}
	}
}
