package e2e

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// N19: a step with nested steps ends with their last job, and only then does the next
// step start.
func nestedSteps(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	var done, early atomic.Int32
	c.registerBlock("inner", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.entityID() == ids[1] && k.Job.Step == "deep" {
			g.wait(k)
		}
		done.Add(1)
		return nil
	})
	c.registerBlock("after", workflow.Block{Pure: true}, func(call) blockAnswer {
		early.Store(6 - done.Load())
		return nil
	})
	c.publishWorkflow("", "label: outer, workflow: {steps: [{label: first, block: inner, runOn: KIND}, {label: middle, workflow: {steps: [{label: deep, block: inner, runOn: KIND}]}}]}",
		"label: after, block: after, runOn: global")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	eventually(c.t, "all jobs but one have ended", func() bool { return done.Load() == 5 })
	if x := c.getExecution(id); x.State != sm.ExecutionRunning || deref(x.CurrentStep) != "deep" {
		c.t.Errorf("%s in %v", x.State, deref(x.CurrentStep))
	}
	close(g.open)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	if n := c.countCalls("after", "EXECUTE"); n != 1 || early.Load() != 0 {
		c.t.Errorf("%d calls of the next step while %d nested jobs had not ended", n, early.Load())
	}
	var exits []string
	for _, e := range c.history(x.ID) {
		if e.Type == "step.exited" {
			exits = append(exits, e.Step)
		}
	}
	if fmt.Sprint(exits) != "[first deep middle outer after]" {
		c.t.Errorf("steps ended in the order %v", exits)
	}
}

// N20, embedded: the steps of the other definition run in this execution, under its
// locks, with their own parameters.
func embedWorkflow(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		g.wait(k)
		return okAnswer(k.Parameters["who"])
	})
	c.publishExtra("inner", "", "label: work, block: work, runOn: KIND, parameters: {who: 'in ${parameters.who}'}")
	c.publishWorkflow("", "label: work, block: work, runOn: KIND, parameters: {who: '${parameters.who}'}",
		"label: call, workflowReference: {workflow: 'WF-inner'}, parameters: {who: 'the ${parameters.who}'}")
	id := c.startWorkflow(`{"who":"outside"}`, ids...)
	for range 4 {
		<-g.entered
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[0]})
		if err != nil || deref(l.HeldBy) != id {
			c.t.Errorf("lock %+v, %v", l, err)
		}
		g.open <- struct{}{}
	}
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || string(r.Steps["work"].Results[ids[1]]) != `"outside"` || string(r.Steps["call.work"].Results[ids[1]]) != `"in the outside"` {
		c.t.Errorf("results %+v, %v", r.Steps, err)
	}
	if len(x.Children) != 0 || c.listChildren(id) != nil {
		c.t.Errorf("the execution has children: %v", x.Children)
	}
	for _, k := range c.blocks.allCalls() {
		if k.Entity != nil && k.Entity.Type == c.entityType() && k.Job.Execution != id {
			c.t.Errorf("%s was called by %s", k.Block, k.Job.Execution)
		}
	}
}

// listChildren lists the children of an execution, the oldest first.
func (c *fixture) listChildren(id string) (ids []string) {
	c.t.Helper()
	for x, err := range c.Executions(c.t.Context(), views.ExecutionFilter{Parent: id}) {
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids
}

// publishCaller publishes a definition, and one that calls it in a mode and then runs
// another step.
func (c *fixture) publishCaller(mode string) {
	c.t.Helper()
	c.publishExtra("inner", "", "label: work, block: work, runOn: KIND")
	c.publishWorkflow("", "label: call, workflowReference: {workflow: 'WF-inner:1', mode: "+mode+", executeOnParameters: {ids: '${parameters.ids}'}}, parameters: {from: '${execution.id}'}",
		"label: after, block: after, runOn: global, parameters: {status: '${steps.call.status}'}")
}

// N20, dispatched: a child execution with its own locks; the parent waits for it.
func dispatchWorkflow(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.registerBlock("after", workflow.Block{Pure: true}, func(k call) blockAnswer { return okAnswer(k.Parameters) })
	c.publishCaller("dispatch")
	id := c.startWorkflow(fmt.Sprintf(`{"ids":[%q,%q]}`, ids[1], ids[2]), ids[0])
	child := <-g.entered
	x := c.waitForKind(id, workflow.WaitChild)
	if child == id || x.State != sm.ExecutionWaiting || x.Status != sm.StatusRunning || deref(x.Waiting.Child) != child || deref(x.Waiting.Step) != "call" || fmt.Sprint(x.Children) != "["+child+"]" {
		c.t.Errorf("child %s; the parent is %s with children %v and waits for %+v", child, x.State, x.Children, x.Waiting)
	}
	y := c.getExecution(child)
	if deref(y.Parent) != id || y.Workflow.Name != "w-"+c.name+"-inner" || y.Entities[c.entityType()] != 2 || string(y.Parameters) != fmt.Sprintf(`{"from":%q}`, id) {
		c.t.Errorf("the child is %+v", y)
	}
	if got := c.listChildren(id); fmt.Sprint(got) != "["+child+"]" {
		c.t.Errorf("the list of its children is %v", got)
	}
	for i, holder := range []string{id, child, child} {
		if l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[i]}); err != nil || deref(l.HeldBy) != holder {
			c.t.Errorf("lock of %s: %+v, %v, want %s", ids[i], l, err, holder)
		}
	}
	for v, err := range c.Steps(c.t.Context(), id) {
		if err != nil || v.Step != "call" || v.Child == nil || v.Child.ID != child || v.Child.Mode != workflow.ModeDispatch || v.Child.Workflow.Version != "1.0.0" {
			c.t.Errorf("step %+v, %v", v, err)
		}
	}
	close(g.open)
	c.waitEnded(child, sm.ExecutionCompletedAck)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if r, err := c.Result(c.t.Context(), id); err != nil || string(r.Steps["after"].Result) != `{"status":"COMPLETED"}` || c.countCalls("after", "EXECUTE") != 1 {
		c.t.Errorf("after: %s, %v", r.Steps["after"].Result, err)
	}
}

// A failing child fails the step that waits for it; the next step does not run.
func dispatchFails(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerBlock("work", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("BROKEN", false) })
	c.registerBlock("after", workflow.Block{Pure: true}, nil)
	c.publishCaller("dispatch")
	id := c.startWorkflow(fmt.Sprintf(`{"ids":[%q]}`, ids[0]))
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if len(x.Children) != 1 || deref(x.Cause) != deref(new(workflow.CauseChildFailed)) || x.Error == nil || deref(x.Error.Step) != "call" || c.countCalls("after", "EXECUTE") != 0 {
		c.t.Fatalf("children %v, cause %v, error %+v", x.Children, deref(x.Cause), x.Error)
	}
	c.wantFailure(c.waitEnded(x.Children[0], sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "BROKEN", "work")
}

// A parent lists a fire-and-forget child, does not wait for it, and ignores how it ends.
func fireAndForget(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		g.wait(k)
		return errorAnswer("BROKEN", false)
	})
	c.registerBlock("after", workflow.Block{Pure: true}, nil)
	c.publishCaller("fireAndForget")
	id := c.startWorkflow(fmt.Sprintf(`{"ids":[%q]}`, ids[0]))
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	child := <-g.entered
	if y := c.getExecution(child); fmt.Sprint(x.Children) != "["+child+"]" || deref(y.Parent) != id || y.State != sm.ExecutionRunning {
		c.t.Errorf("children %v; child %s of %v is %s", x.Children, child, deref(y.Parent), y.State)
	}
	close(g.open)
	c.waitEnded(child, sm.ExecutionFailedSafeAck)
	if y := c.getExecution(id); y.Version != x.Version || y.State != x.State {
		c.t.Errorf("the parent has changed: %s, version %d after %d", y.State, y.Version, x.Version)
	}
}

// startWithChildren starts an execution with a fire-and-forget child and a dispatched
// child, which waits for a grandchild. The jobs of the first child and of the
// grandchild are at the gate.
func (c *fixture) startWithChildren(g *blockGate) (all []string) {
	c.t.Helper()
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Operation == "EXECUTE" {
			g.wait(k)
		}
		return nil
	})
	c.publishExtra("leaf", "", "label: work, block: work, runOn: KIND")
	c.publishExtra("middle", "", "label: call, workflowReference: {workflow: WF-leaf, mode: dispatch, executeOnParameters: {ids: [e-0002]}}")
	c.publishWorkflow("", "label: forget, workflowReference: {workflow: WF-leaf, mode: fireAndForget, executeOnParameters: {ids: [e-0001]}}",
		"label: call, workflowReference: {workflow: WF-middle, mode: dispatch}", "label: after, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids[2])
	<-g.entered
	<-g.entered
	x := c.waitUntil(id, "two children", func(x views.ExecutionView) bool { return len(x.Children) == 2 })
	y := c.waitUntil(x.Children[1], "a grandchild", func(y views.ExecutionView) bool { return len(y.Children) == 1 })
	return []string{id, x.Children[0], x.Children[1], y.Children[0]}
}

// N50: cancelling an execution cancels its dispatched child and grandchild. A
// fire-and-forget child goes on.
func cancelCascades(c *fixture) {
	g := newBlockGate()
	all := c.startWithChildren(g)
	if _, err := c.Cancel(c.t.Context(), all[0], views.CancelRequest{Reason: "all of it"}); err != nil {
		c.t.Fatal(err)
	}
	fireAndForgetChild := all[1]
	for _, id := range []string{all[2], all[3]} {
		c.waitUntil(id, id+" is being cancelled", func(x views.ExecutionView) bool { return x.Cancellation != nil })
	}
	close(g.open)
	c.waitEnded(fireAndForgetChild, sm.ExecutionCompletedAck)
	for i, source := range map[int]string{0: "user", 2: "parent", 3: "parent"} {
		if x := c.waitEnded(all[i], sm.ExecutionCancelledAck); x.Cancellation.Source != source || x.RolledBack != (i == 3) {
			c.t.Errorf("execution %d: cancelled by %+v, rolled back %v", i, x.Cancellation, x.RolledBack)
		}
	}
	if e, r := c.countCalls("work", "EXECUTE"), c.countCalls("work", "ROLLBACK"); e != 2 || r != 1 {
		c.t.Errorf("%d jobs, %d rollbacks", e, r)
	}
}

// N50: without cascade, the children go on.
func cancelWithoutCascade(c *fixture) {
	g := newBlockGate()
	all := c.startWithChildren(g)
	no := false
	if _, err := c.Cancel(c.t.Context(), all[0], views.CancelRequest{Cascade: &no}); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(all[0], sm.ExecutionCancelledAck)
	for _, id := range all[1:] {
		if x := c.getExecution(id); sm.StatusOf(x.State) != sm.StatusRunning || x.Cancellation != nil {
			c.t.Errorf("%s, cancelled by %+v", x.State, x.Cancellation)
		}
	}
	close(g.open)
	for _, id := range all[1:] {
		c.waitEnded(id, sm.ExecutionCompletedAck)
	}
}
