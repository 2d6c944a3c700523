package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// With onLocked skip, entities that others hold are left out and reported.
func skipLockedEntities(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	c.registerBlock("hold", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.registerBlock("work", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("", "label: hold, block: hold, runOn: KIND")
	first := c.startWorkflow("{}", ids[1])
	<-g.entered
	skip := c.publishExtra("skip", "config: {onLocked: skip}\n", "label: work, block: work, runOn: KIND")
	id := c.startRef(skip, "{}", ids...)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	if got := c.executedEntities(id); got != "e-0001 e-0003" || x.Entities[c.entityType()] != 2 || x.Dropped.Count != 1 || len(x.Dropped.Blockers) != 1 ||
		deref(x.Dropped.Blockers[0].Entity) != c.entityType()+"/"+ids[1] || deref(x.Dropped.Blockers[0].HeldBy) != first {
		c.t.Errorf("executed on %s, entities %v, dropped %+v", got, x.Entities, x.Dropped)
	}
	fail := c.publishExtra("fail", "config: {onLocked: fail}\n", "label: work, block: work, runOn: KIND")
	id = c.startRef(fail, "{}", ids...)
	if x := c.waitEnded(id, sm.ExecutionFailedSafeAck); !strings.Contains(x.Reason, first) || !strings.Contains(x.Reason, ids[1]) || c.executedEntities(id) != "" {
		c.t.Errorf("reason %q, executed on %s", x.Reason, c.executedEntities(id))
	}
	close(g.open)
	c.waitEnded(first, sm.ExecutionCompletedAck)
}

// Executions that share an entity run concurrently; one that needs it exclusively waits
// for all of them.
func sharedLocks(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	g := newBlockGate()
	c.registerBlock("inspect", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.registerBlock("work", workflow.Block{Idempotent: true}, nil)
	c.publishWorkflow("config: {lockMode: shared}\n", "label: inspect, block: inspect, runOn: KIND")
	alone := c.publishExtra("alone", "", "label: work, block: work, runOn: KIND")
	a, b := c.startWorkflow("{}", ids...), c.startWorkflow("{}", ids...)
	if one, other := <-g.entered, <-g.entered; one == other {
		c.t.Error("two executions that share an entity did not run concurrently")
	}
	if l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[0]}); err != nil || l.Mode != "shared" {
		c.t.Errorf("lock %+v, %v", l, err)
	}
	id := c.startRef(alone, "{}", ids...)
	c.waitForKind(id, workflow.WaitLock)
	close(g.open)
	c.waitEnded(a, sm.ExecutionCompletedAck)
	c.waitEnded(b, sm.ExecutionCompletedAck)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	bad := c.startRef(c.publishExtra("bad", "config: {lockMode: shared}\n", "label: work, block: work, runOn: KIND"), "{}", ids...)
	if x := c.waitEnded(bad, sm.ExecutionFailedSafeAck); !strings.Contains(x.Reason, "pure") || c.executedEntities(bad) != "" {
		c.t.Errorf("shared lock with a block that is not pure: reason %q", x.Reason)
	}
}

// registerHangingBlock registers a block whose jobs end with the test.
func (c *fixture) registerHangingBlock() {
	never := make(chan struct{})
	c.registerBlock("stuck", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(call) blockAnswer {
		<-never
		return nil
	})
	c.t.Cleanup(func() { close(never) })
}

// A step fails at its timeout, which continueOnError tolerates like any failure.
func stepTimeout(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerHangingBlock()
	c.registerBlock("after", workflow.Block{Pure: true}, nil)
	id := c.startRef(c.publishExtra("fails", "", "label: stuck, block: stuck, runOn: KIND, timeout: 4s, stepTimeout: 1s", "label: after, block: after, runOn: KIND"), "{}", ids...)
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseTimeout, "TIMEOUT", "stuck")
	if c.countCalls("after", "EXECUTE") != 0 {
		c.t.Error("the next step ran")
	}
	id = c.startRef(c.publishExtra("goes-on", "", "label: stuck, block: stuck, runOn: KIND, timeout: 4s, stepTimeout: 1s, continueOnError: true", "label: after, block: after, runOn: KIND"), "{}", ids...)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	if c.countCalls("after", "EXECUTE") != 1 {
		c.t.Error("the next step did not run")
	}
	id = c.startRef(c.publishExtra("job", "", "label: stuck, block: stuck, runOn: KIND, timeout: 500ms"), "{}", ids...)
	if x := c.waitEnded(id, sm.ExecutionFailedSafeAck); deref(x.Cause) != workflow.CauseJobTimeout || x.Error == nil || deref(x.Error.Entity) != c.entityType()+"/"+ids[0] {
		c.t.Errorf("cause %v, error %+v", deref(x.Cause), x.Error)
	}
}

// An execution fails at its timeout in every state: running, waiting for a timer, or
// waiting for its locks.
func executionTimeout(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	c.registerHangingBlock()
	executionIDs := map[string]string{
		"running":             c.startRef(c.publishExtra("works", "config: {timeout: 3s}\n", "label: stuck, block: stuck, runOn: KIND, timeout: 6s"), "{}", ids[0]),
		"waiting for a timer": c.startRef(c.publishExtra("rests", "config: {timeout: 2s}\n", "label: stuck, block: stuck, runOn: KIND, delay: 1h"), "{}", ids[1]),
	}
	c.waitForKind(executionIDs["waiting for a timer"], workflow.WaitTimer)
	executionIDs["waiting for a lock"] = c.startRef(c.publishExtra("waits", "config: {timeout: 1s}\n", "label: stuck, block: stuck, runOn: KIND"), "{}", ids[0])
	for what, id := range executionIDs {
		x := c.waitEnded(id, sm.ExecutionFailedSafeAck)
		if deref(x.Cause) != workflow.CauseTimeout || !strings.Contains(x.Reason, "s") || x.Status != sm.StatusFailed || (x.StartedAt == nil) != (what == "waiting for a lock") {
			c.t.Errorf("%s: cause %v, reason %q, started %v", what, deref(x.Cause), x.Reason, x.StartedAt)
		}
	}
}

// N7: a PUT of an entity starts the execution whose condition waits for it.
func startWhenEntityIsPut(c *fixture) {
	c.importEntities(c.entityType(), 1)
	c.registerBlock("go", workflow.Block{Pure: true}, nil)
	c.publishWorkflow(fmt.Sprintf("config: {startWhen: 'entity(%q, \"door\").open && parameters.n > 0'}\n", c.entityType()), "label: go, block: go, runOn: KIND")
	put := func(attributes string) {
		status, body := c.sendRaw("PUT", "/entities/"+c.entityType()+"/door", "application/json", `{"attributes":`+attributes+`}`)
		if status != 200 && status != 201 {
			c.t.Fatalf("%d %s", status, body)
		}
	}
	put(`{"open":false}`)
	id := c.startWorkflow(`{"n":1}`, "e-0001")
	x := c.waitForKind(id, workflow.WaitCondition)
	if x.State != sm.ExecutionBlockedWaiting || x.Status != sm.StatusPending || !strings.Contains(deref(x.Waiting.Condition).(string), "door") || x.Waiting.Until == nil {
		c.t.Errorf("state %s, waits for %+v", x.State, x.Waiting)
	}
	resumed := c.startWorkflow(`{"n":1}`, "e-0001")
	c.mustRequest(resumed, "resume", `{"reason":"now"}`)
	c.waitEnded(resumed, sm.ExecutionCompletedAck)
	c.wantAudit(resumed, sm.EventExecutionReady, "now")
	if x := c.getExecution(id); x.State != sm.ExecutionBlockedWaiting {
		c.t.Errorf("state %s although the condition is still false", x.State)
	}
	put(`{"open":true}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
}

// N33: as soon as an execution reads COMPLETED_ACK or FAILED_SAFE_ACK, no lock names it,
// in the list or on the entity.
func locksReleased(c *fixture) {
	ids := c.importEntities(c.entityType(), 12)
	c.registerBlock("undo", workflow.Block{Reversible: true}, nil)
	c.registerBlock("maybe", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.Parameters["fail"] == true {
			return errorAnswer("NO", false)
		}
		return nil
	})
	c.publishWorkflow("", "label: undo, block: undo, runOn: KIND", "label: maybe, block: maybe, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			id := c.startWorkflow(fmt.Sprintf(`{"fail":%v}`, i%2 == 0), ids...)
			x := c.waitUntil(id, "the execution has ended", func(x views.ExecutionView) bool {
				return x.State == sm.ExecutionCompletedAck || x.State == sm.ExecutionFailedSafeAck
			})
			code, body := c.sendPlain(c.t, "GET", "/locks?limit=1000")
			var page struct{ Items []views.LockView }
			if err := json.Unmarshal([]byte(body), &page); err != nil || code != 200 {
				c.t.Errorf("%d %.300s", code, body)
			}
			for _, l := range page.Items {
				if deref(l.HeldBy) == id {
					c.t.Errorf("the execution is %s and holds %s", x.State, l.Entity)
				}
			}
			for _, e := range []string{ids[0], ids[11]} {
				l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: e})
				if err != nil || deref(l.HeldBy) == id {
					c.t.Errorf("the execution is %s and holds %s, %v", x.State, e, err)
				}
			}
			c.waitEnded(id, x.State)
		})
	}
	all.Wait()
}
