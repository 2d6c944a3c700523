package e2e

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// N19: a step with steps in it ends when the last job of these does, and not
// before that does the next one begin.
func nestedSteps(c *scene) {
	ids := c.entities(c.kind(), 3)
	g := newGate()
	var done, early atomic.Int32
	c.block("inner", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.on() == ids[1] && k.Job.Step == "deep" {
			g.pass(k)
		}
		done.Add(1)
		return nil
	})
	c.block("after", workflow.Block{Pure: true}, func(call) answer {
		early.Store(6 - done.Load())
		return nil
	})
	c.define("", "label: outer, workflow: {steps: [{label: first, block: inner, runOn: KIND}, {label: middle, workflow: {steps: [{label: deep, block: inner, runOn: KIND}]}}]}",
		"label: after, block: after, runOn: global")
	id := c.run("{}", ids...)
	<-g.entered
	eventually(c.t, "all but one job have ended", func() bool { return done.Load() == 5 })
	if x := c.look(id); x.State != sm.ExecutionRunning || value(x.CurrentStep) != "deep" {
		c.t.Errorf("%s in %v", x.State, value(x.CurrentStep))
	}
	close(g.open)
	x := c.ends(id, sm.ExecutionCompletedAck)
	if n := c.of("after", "EXECUTE"); n != 1 || early.Load() != 0 {
		c.t.Errorf("the step after the nested ones was called %d times, %d jobs before their end", n, early.Load())
	}
	var exits []string
	for _, e := range c.events(x.ID) {
		if e.Type == "step.exited" {
			exits = append(exits, e.Step)
		}
	}
	if fmt.Sprint(exits) != "[first deep middle outer after]" {
		c.t.Errorf("steps ended in the order %v", exits)
	}
}

// N20, embedded: the other definition's steps run here, under the run's own
// locks, with parameters of their own.
func embed(c *scene) {
	ids := c.entities(c.kind(), 2)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		g.pass(k)
		return ok(k.Parameters["who"])
	})
	c.also("inner", "", "label: work, block: work, runOn: KIND, parameters: {who: 'in ${parameters.who}'}")
	c.define("", "label: work, block: work, runOn: KIND, parameters: {who: '${parameters.who}'}",
		"label: call, workflowReference: {workflow: 'WF-inner'}, parameters: {who: 'the ${parameters.who}'}")
	id := c.run(`{"who":"outside"}`, ids...)
	for range 4 {
		<-g.entered
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: ids[0]})
		if err != nil || value(l.HeldBy) != id {
			c.t.Errorf("lock %+v, %v", l, err)
		}
		g.open <- struct{}{}
	}
	x := c.ends(id, sm.ExecutionCompletedAck)
	r, err := c.Result(c.t.Context(), id)
	if err != nil || string(r.Steps["work"].Results[ids[1]]) != `"outside"` || string(r.Steps["call.work"].Results[ids[1]]) != `"in the outside"` {
		c.t.Errorf("results %+v, %v", r.Steps, err)
	}
	if len(x.Children) != 0 || c.childrenOf(id) != nil {
		c.t.Errorf("it has started %v", x.Children)
	}
	for _, k := range c.b.all() {
		if k.Entity != nil && k.Entity.Type == c.kind() && k.Job.Execution != id {
			c.t.Errorf("%s was called by %s", k.Block, k.Job.Execution)
		}
	}
}

// childrenOf lists the runs whose parent a run is, the oldest first.
func (c *scene) childrenOf(id string) (ids []string) {
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

// calling publishes a definition that works on what it is given, and one that
// calls it in a mode and then runs another step.
func (c *scene) calling(mode string) {
	c.t.Helper()
	c.also("inner", "", "label: work, block: work, runOn: KIND")
	c.define("", "label: call, workflowReference: {workflow: 'WF-inner:1', mode: "+mode+", executeOnParameters: {ids: '${parameters.ids}'}}, parameters: {from: '${execution.id}'}",
		"label: after, block: after, runOn: global, parameters: {status: '${steps.call.status}'}")
}

// N20, dispatched: a run of its own, with its own locks; the parent waits for it.
func dispatch(c *scene) {
	ids := c.entities(c.kind(), 3)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.block("after", workflow.Block{Pure: true}, func(k call) answer { return ok(k.Parameters) })
	c.calling("dispatch")
	id := c.run(fmt.Sprintf(`{"ids":[%q,%q]}`, ids[1], ids[2]), ids[0])
	child := <-g.entered
	x := c.waitsFor(id, views.WaitChild)
	if child == id || x.State != sm.ExecutionWaiting || x.Status != sm.StatusRunning || value(x.Waiting.Child) != child || value(x.Waiting.Step) != "call" || fmt.Sprint(x.Children) != "["+child+"]" {
		c.t.Errorf("child %s; the parent is %s with children %v and waits for %+v", child, x.State, x.Children, x.Waiting)
	}
	y := c.look(child)
	if value(y.Parent) != id || y.Workflow.Name != "w-"+c.name+"-inner" || y.Entities[c.kind()] != 2 || string(y.Parameters) != fmt.Sprintf(`{"from":%q}`, id) {
		c.t.Errorf("the child is %+v", y)
	}
	if got := c.childrenOf(id); fmt.Sprint(got) != "["+child+"]" {
		c.t.Errorf("the list of its children is %v", got)
	}
	for i, holder := range []string{id, child, child} {
		if l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: ids[i]}); err != nil || value(l.HeldBy) != holder {
			c.t.Errorf("lock of %s: %+v, %v, want %s", ids[i], l, err, holder)
		}
	}
	for v, err := range c.Steps(c.t.Context(), id) {
		if err != nil || v.Step != "call" || v.Child == nil || v.Child.ID != child || v.Child.Mode != workflow.ModeDispatch || v.Child.Workflow.Version != "1.0.0" {
			c.t.Errorf("step %+v, %v", v, err)
		}
	}
	close(g.open)
	c.ends(child, sm.ExecutionCompletedAck)
	c.ends(id, sm.ExecutionCompletedAck)
	if r, err := c.Result(c.t.Context(), id); err != nil || string(r.Steps["after"].Result) != `{"status":"COMPLETED"}` || c.of("after", "EXECUTE") != 1 {
		c.t.Errorf("after: %s, %v", r.Steps["after"].Result, err)
	}
}

// A child that fails fails the step that waits for it; what comes next does not run.
func dispatchFails(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.block("work", workflow.Block{Pure: true}, func(call) answer { return failed("BROKEN", false) })
	c.block("after", workflow.Block{Pure: true}, nil)
	c.calling("dispatch")
	id := c.run(fmt.Sprintf(`{"ids":[%q]}`, ids[0]))
	x := c.ends(id, sm.ExecutionFailedSafeAck)
	if len(x.Children) != 1 || value(x.Cause) != value(new(workflow.CauseChildFailed)) || x.Error == nil || value(x.Error.Step) != "call" || c.of("after", "EXECUTE") != 0 {
		c.t.Fatalf("children %v, cause %v, error %+v", x.Children, value(x.Cause), x.Error)
	}
	c.failedBy(c.ends(x.Children[0], sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "BROKEN", "work")
}

// A run that is started and forgotten is known to its parent, which neither waits
// for it nor minds how it ends.
func fireAndForget(c *scene) {
	ids := c.entities(c.kind(), 1)
	g := newGate()
	c.block("work", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		g.pass(k)
		return failed("BROKEN", false)
	})
	c.block("after", workflow.Block{Pure: true}, nil)
	c.calling("fireAndForget")
	id := c.run(fmt.Sprintf(`{"ids":[%q]}`, ids[0]))
	x := c.ends(id, sm.ExecutionCompletedAck)
	child := <-g.entered
	if y := c.look(child); fmt.Sprint(x.Children) != "["+child+"]" || value(y.Parent) != id || y.State != sm.ExecutionRunning {
		c.t.Errorf("children %v; child %s of %v is %s", x.Children, child, value(y.Parent), y.State)
	}
	close(g.open)
	c.ends(child, sm.ExecutionFailedSafeAck)
	if y := c.look(id); y.Version != x.Version || y.State != x.State {
		c.t.Errorf("the parent has changed: %s, version %d after %d", y.State, y.Version, x.Version)
	}
}

// family is a run with a child that it has forgotten, and a child that it waits
// for, which waits for a grandchild; all that work are at the gate.
func (c *scene) family(g *gate) (all []string) {
	c.t.Helper()
	ids := c.entities(c.kind(), 3)
	c.block("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.Operation == "EXECUTE" {
			g.pass(k)
		}
		return nil
	})
	c.also("leaf", "", "label: work, block: work, runOn: KIND")
	c.also("middle", "", "label: call, workflowReference: {workflow: WF-leaf, mode: dispatch, executeOnParameters: {ids: [e-0002]}}")
	c.define("", "label: forget, workflowReference: {workflow: WF-leaf, mode: fireAndForget, executeOnParameters: {ids: [e-0001]}}",
		"label: call, workflowReference: {workflow: WF-middle, mode: dispatch}", "label: after, block: work, runOn: KIND")
	id := c.run("{}", ids[2])
	<-g.entered
	<-g.entered
	x := c.until(id, "two children", func(x views.ExecutionView) bool { return len(x.Children) == 2 })
	y := c.until(x.Children[1], "a grandchild", func(y views.ExecutionView) bool { return len(y.Children) == 1 })
	return []string{id, x.Children[0], x.Children[1], y.Children[0]}
}

// N50: cancelling a run ends the one that it waits for, and what that waits for.
// What it has started and forgotten goes on.
func cascade(c *scene) {
	g := newGate()
	all := c.family(g)
	if _, err := c.Cancel(c.t.Context(), all[0], views.CancelRequest{Reason: "all of it"}); err != nil {
		c.t.Fatal(err)
	}
	forgotten := all[1]
	for _, id := range []string{all[2], all[3]} {
		c.until(id, id+" is told", func(x views.ExecutionView) bool { return x.Cancellation != nil })
	}
	close(g.open)
	c.ends(forgotten, sm.ExecutionCompletedAck)
	for i, source := range map[int]string{0: "user", 2: "parent", 3: "parent"} {
		if x := c.ends(all[i], sm.ExecutionCancelledAck); x.Cancellation.Source != source || x.RolledBack != (i == 3) {
			c.t.Errorf("run %d: cancelled by %+v, rolled back %v", i, x.Cancellation, x.RolledBack)
		}
	}
	if e, r := c.of("work", "EXECUTE"), c.of("work", "ROLLBACK"); e != 2 || r != 1 {
		c.t.Errorf("%d jobs, %d undone", e, r)
	}
}

// N50: without cascade, what it has started goes on.
func withoutCascade(c *scene) {
	g := newGate()
	all := c.family(g)
	no := false
	if _, err := c.Cancel(c.t.Context(), all[0], views.CancelRequest{Cascade: &no}); err != nil {
		c.t.Fatal(err)
	}
	c.ends(all[0], sm.ExecutionCancelledAck)
	for _, id := range all[1:] {
		if x := c.look(id); sm.StatusOf(x.State) != sm.StatusRunning || x.Cancellation != nil {
			c.t.Errorf("%s, cancelled by %+v", x.State, x.Cancellation)
		}
	}
	close(g.open)
	for _, id := range all[1:] {
		c.ends(id, sm.ExecutionCompletedAck)
	}
}
