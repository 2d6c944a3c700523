package e2e

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func unsafeFailure(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	c.registerBlock("undo", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.registerBlock("fire", workflow.Block{}, nil)
	c.registerBlock("after", workflow.Block{Idempotent: true, Reversible: true}, func(call) blockAnswer { return errorAnswer("BROKEN", false) })
	c.publishWorkflow("", "label: undo, block: undo, runOn: KIND", "label: fire, block: fire, runOn: KIND", "label: after, block: after, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	x := c.waitEnded(id, sm.ExecutionFailedUnsafe)
	if x.RolledBack || x.Waiting == nil || x.Waiting.Kind != workflow.WaitAcknowledge {
		c.t.Errorf("rolled back %v, waiting %+v", x.RolledBack, x.Waiting)
	}
	if c.countCalls("undo", "EXECUTE") != 2 || c.countCalls("undo", "ROLLBACK") != 0 || c.countCalls("after", "ROLLBACK") != 0 || len(c.listJobs(id, views.JobFilter{Kind: workflow.JobRollback})) != 0 {
		c.t.Error("some jobs were rolled back")
	}
	l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[0]})
	if err != nil || deref(l.HeldBy) != id {
		c.t.Errorf("an unsafe execution does not keep its locks: %+v, %v", l, err)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, "checked by hand"); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
	events := c.history(id)
	if last := events[len(events)-1]; last.Type != "execution.acknowledged" || last.Actor != "local" || !strings.Contains(string(last.Data), "checked by hand") {
		c.t.Errorf("no audit entry: %+v", last)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, ""); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("acknowledged twice: %v", err)
	}
}

// An operator acknowledges one entity of an execution that ended unsafely: it is free, and the
// other stays locked. A retry works on the other one.
func acknowledgeSomeEntities(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var mu sync.Mutex
	broken := true
	c.registerBlock("fire", workflow.Block{}, func(k call) blockAnswer {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			return errorAnswer("BROKEN", false)
		}
		return nil
	})
	c.registerBlock("look", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("config: {failureTolerance: 1}\n", "label: fire, block: fire, runOn: KIND")
	other := c.publishExtra("other", "", "label: look, block: look, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	c.waitEnded(id, sm.ExecutionFailedUnsafe)
	first, second := c.startRef(other, "{}", ids[0]), c.startRef(other, "{}", ids[1])
	c.waitForKind(first, workflow.WaitLock)
	c.waitForKind(second, workflow.WaitLock)
	path := c.entityType() + "/" + ids[0]
	x, err := c.Acknowledge(c.t.Context(), id, "checked by hand", path)
	if err != nil || x.State != sm.ExecutionFailedUnsafe || len(x.FailedEntities) != 2 {
		c.t.Fatalf("%+v, %v", x, err)
	}
	for _, f := range x.FailedEntities {
		if f.Released != (f.Entity == path) {
			c.t.Errorf("after %s was acknowledged: %+v", path, f)
		}
	}
	c.waitEnded(first, sm.ExecutionCompletedAck)
	c.waitForKind(second, workflow.WaitLock)
	if _, err := c.Acknowledge(c.t.Context(), id, "", path); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("acknowledged twice: %v", err)
	}
	if _, err := c.Unlock(c.t.Context(), id, "", c.entityType()+"/nobody"); !workflow.Is(err, workflow.CodeInvalid) {
		c.t.Errorf("an entity that is not of the execution: %v", err)
	}
	for i, key := range ids {
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: key})
		if err != nil || (deref(l.HeldBy) == id) != (i == 1) {
			c.t.Errorf("lock of %s: %+v, %v", key, l, err)
		}
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	before := c.countCalls("fire", "EXECUTE")
	if _, err := c.Retry(c.t.Context(), id, views.RetryRequest{Reason: "mended", Entities: views.RetryAll}); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.waitEnded(second, sm.ExecutionCompletedAck)
	if n := c.countCalls("fire", "EXECUTE") - before; n != 1 {
		c.t.Errorf("the retry called the block %d times", n)
	}
}

func emptySelection(c *fixture) {
	c.importEntities(c.entityType(), 2)
	c.registerBlock("work", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("assertNotEmpty: true\nacquire: [{type: "+c.entityType()+", query: 'entity.n > 100'}]\n", "label: work, block: work, runOn: KIND")
	x := c.waitEnded(c.startWorkflow("{}"), sm.ExecutionFailedSafeAck)
	for _, e := range c.history(x.ID) {
		if e.Type == "lock.requested" {
			c.t.Error("something was locked")
		}
	}
}

func pureFailure(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("inspect", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.entityID() == ids[1] {
			return errorAnswer("BLIND", false)
		}
		return nil
	})
	c.publishWorkflow("", "label: inspect, block: inspect, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if x.RolledBack || *x.Error.Entity != c.entityType()+"/"+ids[1] || len(c.listJobs(id, views.JobFilter{Kind: workflow.JobRollback})) != 0 {
		c.t.Errorf("rolled back %v, error %+v", x.RolledBack, x.Error)
	}
}

func rollbackInReverse(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var mu sync.Mutex
	var order []string
	record := func(step string) func(call) blockAnswer {
		return func(k call) blockAnswer {
			mu.Lock()
			order = append(order, k.Operation+" "+step)
			mu.Unlock()
			if step == "second" && k.Operation == "EXECUTE" && k.entityID() == ids[1] {
				return errorAnswer("NO", false)
			}
			return okAnswer(map[string]any{"did": step})
		}
	}
	c.registerBlock("first", workflow.Block{Idempotent: true, Reversible: true}, record("first"))
	c.registerBlock("second", workflow.Block{Idempotent: true, Reversible: true}, record("second"))
	c.publishWorkflow("", "label: first, block: first, runOn: KIND", "label: second, block: second, runOn: KIND")
	x := c.waitEnded(c.startWorkflow("{}", ids...), sm.ExecutionFailedSafeAck)
	if !x.RolledBack {
		c.t.Error("not rolled back")
	}
	mu.Lock()
	defer mu.Unlock()
	rollbacks := []string{}
	for _, o := range order {
		if strings.HasPrefix(o, "ROLLBACK") {
			rollbacks = append(rollbacks, o)
		}
	}
	if got := strings.Join(rollbacks, ","); !strings.HasPrefix(got, "ROLLBACK second") || !strings.HasSuffix(got, "ROLLBACK first,ROLLBACK first") || strings.Contains(got, "first,ROLLBACK second") {
		c.t.Errorf("rolled back in the order %s", got)
	}
	for _, k := range c.blocks.allCalls() {
		if k.Operation == "ROLLBACK" && strings.HasPrefix(k.Block, "test/"+c.name+"-first:") && string(k.Result) != `{"did":"first"}` {
			c.t.Errorf("a rollback got the result %s", k.Result)
		}
	}
}

func rollbackFails(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerBlock("first", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.registerBlock("second", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			return errorAnswer("STUCK", false)
		}
		return nil
	})
	c.registerBlock("third", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	c.publishWorkflow("", "label: first, block: first, runOn: KIND", "label: second, block: second, runOn: KIND", "label: third, block: third, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	c.waitEnded(id, sm.ExecutionFailedUnsafe)
	if c.countCalls("second", "ROLLBACK") != 1 || c.countCalls("first", "ROLLBACK") != 0 {
		c.t.Error("a rollback wave after the failed one ran")
	}
	if _, err := c.Acknowledge(c.t.Context(), id, ""); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
}

// A rollback that has failed is tried again: it undoes what is left, and nothing twice.
func rollbackRetried(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var mended atomic.Bool
	c.registerBlock("first", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.registerBlock("second", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" && k.Entity.ID == ids[0] && !mended.Load() {
			return errorAnswer("STUCK", false)
		}
		return nil
	})
	c.registerBlock("third", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	c.publishWorkflow("", "label: first, block: first, runOn: KIND", "label: second, block: second, runOn: KIND", "label: third, block: third, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	c.waitEnded(id, sm.ExecutionFailedUnsafe)
	c.wantRefused(id, "retry", `{"rollback":true,"from":"first"}`, 400, "")
	mended.Store(true)
	if _, err := c.Retry(c.t.Context(), id, views.RetryRequest{Rollback: true, Reason: "mended"}); err != nil {
		c.t.Fatal(err)
	}
	x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
	if !x.RolledBack || x.Try != 2 || c.countCalls("second", "ROLLBACK") != 3 || c.countCalls("first", "ROLLBACK") != 2 {
		c.t.Errorf("rolled back %v, try %d, %d and %d calls", x.RolledBack, x.Try, c.countCalls("second", "ROLLBACK"), c.countCalls("first", "ROLLBACK"))
	}
	c.wantRefused(id, "retry", `{"rollback":true}`, 409, "")
}

func cancelMidway(c *fixture) {
	ids := c.importEntities(c.entityType(), 4)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			return nil
		}
		return g.wait(k)
	})
	c.publishWorkflow("config: {maxInFlight: 1}\n", "label: work, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	x, err := c.Cancel(c.t.Context(), id, views.CancelRequest{Reason: "not today"})
	if err != nil || x.Status != sm.StatusRunning || x.Cancellation == nil || x.Cancellation.Reason != "not today" {
		c.t.Fatalf("cancelled: %+v, %v", x, err)
	}
	if _, err := c.Cancel(c.t.Context(), id, views.CancelRequest{}); !workflow.Is(err, workflow.CodeIllegalTransition) {
		c.t.Errorf("cancelled twice: %v", err)
	}
	close(g.open)
	end := c.waitEnded(id, sm.ExecutionCancelledAck)
	if !end.RolledBack || c.countCalls("work", "EXECUTE") != 1 || c.countCalls("work", "ROLLBACK") != 1 {
		c.t.Errorf("rolled back %v, %d executed, %d rolled back; want one each, pending jobs must not run", end.RolledBack, c.countCalls("work", "EXECUTE"), c.countCalls("work", "ROLLBACK"))
	}
}
