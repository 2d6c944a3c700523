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

// Entities that others hold are left out, and told.
func lockedSkipped(c *scene) {
	ids := c.entities(c.kind(), 3)
	g := newGate()
	c.block("hold", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.block("work", workflow.Block{Idempotent: true}, nil)
	c.define("", "label: hold, block: hold, runOn: KIND")
	first := c.run("{}", ids[1])
	<-g.entered
	skip := c.also("skip", "config: {onLocked: skip}\n", "label: work, block: work, runOn: KIND")
	id := c.launch(skip, "{}", ids...)
	x := c.ends(id, sm.ExecutionCompletedAck)
	if got := c.visited(id); got != "e-0001 e-0003" || x.Entities[c.kind()] != 2 || x.Dropped.Count != 1 || len(x.Dropped.For) != 1 ||
		value(x.Dropped.For[0].Entity) != c.kind()+"/"+ids[1] || value(x.Dropped.For[0].HeldBy) != first {
		c.t.Errorf("it was about %s, %v, without %+v", got, x.Entities, x.Dropped)
	}
	fail := c.also("fail", "config: {onLocked: fail}\n", "label: work, block: work, runOn: KIND")
	id = c.launch(fail, "{}", ids...)
	if x := c.ends(id, sm.ExecutionFailedSafeAck); !strings.Contains(x.Reason, first) || !strings.Contains(x.Reason, ids[1]) || c.visited(id) != "" {
		c.t.Errorf("reason %q, visited %s", x.Reason, c.visited(id))
	}
	close(g.open)
	c.ends(first, sm.ExecutionCompletedAck)
}

// Runs that share an entity are at it at the same time; one that wants it for
// itself waits for all of them.
func sharedLocks(c *scene) {
	ids := c.entities(c.kind(), 1)
	g := newGate()
	c.block("look", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.block("work", workflow.Block{Idempotent: true}, nil)
	c.define("config: {lockMode: shared}\n", "label: look, block: look, runOn: KIND")
	alone := c.also("alone", "", "label: work, block: work, runOn: KIND")
	a, b := c.run("{}", ids...), c.run("{}", ids...)
	if one, other := <-g.entered, <-g.entered; one == other {
		c.t.Error("two runs that share did not run side by side")
	}
	if l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: ids[0]}); err != nil || l.Mode != "shared" {
		c.t.Errorf("lock %+v, %v", l, err)
	}
	id := c.launch(alone, "{}", ids...)
	c.waitsFor(id, views.WaitLock)
	close(g.open)
	c.ends(a, sm.ExecutionCompletedAck)
	c.ends(b, sm.ExecutionCompletedAck)
	c.ends(id, sm.ExecutionCompletedAck)
	bad := c.launch(c.also("bad", "config: {lockMode: shared}\n", "label: work, block: work, runOn: KIND"), "{}", ids...)
	if x := c.ends(bad, sm.ExecutionFailedSafeAck); !strings.Contains(x.Reason, "pure") || c.visited(bad) != "" {
		c.t.Errorf("a run that shares and changes: %q", x.Reason)
	}
}

// stuck registers a block whose jobs do not end while the test runs.
func (c *scene) stuck() {
	never := make(chan struct{})
	c.block("stuck", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, func(call) answer {
		<-never
		return nil
	})
	c.t.Cleanup(func() { close(never) })
}

// A step that takes too long has failed, and can be tolerated like any failure.
func stepTimeout(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.stuck()
	c.block("after", workflow.Block{Pure: true}, nil)
	id := c.launch(c.also("fails", "", "label: stuck, block: stuck, runOn: KIND, timeout: 4s, stepTimeout: 1s", "label: after, block: after, runOn: KIND"), "{}", ids...)
	c.failedBy(c.ends(id, sm.ExecutionFailedSafeAck), workflow.CauseTimeout, "TIMEOUT", "stuck")
	if c.of("after", "EXECUTE") != 0 {
		c.t.Error("the next step has run")
	}
	id = c.launch(c.also("goes-on", "", "label: stuck, block: stuck, runOn: KIND, timeout: 4s, stepTimeout: 1s, continueOnError: true", "label: after, block: after, runOn: KIND"), "{}", ids...)
	c.ends(id, sm.ExecutionCompletedAck)
	if c.of("after", "EXECUTE") != 1 {
		c.t.Error("the next step has not run")
	}
	id = c.launch(c.also("job", "", "label: stuck, block: stuck, runOn: KIND, timeout: 500ms"), "{}", ids...)
	if x := c.ends(id, sm.ExecutionFailedSafeAck); value(x.Cause) != workflow.CauseJobTimeout || x.Error == nil || value(x.Error.Entity) != c.kind()+"/"+ids[0] {
		c.t.Errorf("cause %v, error %+v", value(x.Cause), x.Error)
	}
}

// A run that takes too long fails wherever it is: at work, waiting for a moment,
// or for its locks.
func runTimeout(c *scene) {
	ids := c.entities(c.kind(), 3)
	c.stuck()
	runs := map[string]string{
		"at work": c.launch(c.also("works", "config: {timeout: 3s}\n", "label: stuck, block: stuck, runOn: KIND, timeout: 6s"), "{}", ids[0]),
		"resting": c.launch(c.also("rests", "config: {timeout: 2s}\n", "label: stuck, block: stuck, runOn: KIND, delay: 1h"), "{}", ids[1]),
	}
	c.waitsFor(runs["resting"], views.WaitTimer)
	runs["waiting its turn"] = c.launch(c.also("waits", "config: {timeout: 1s}\n", "label: stuck, block: stuck, runOn: KIND"), "{}", ids[0])
	for what, id := range runs {
		x := c.ends(id, sm.ExecutionFailedSafeAck)
		if value(x.Cause) != workflow.CauseTimeout || !strings.Contains(x.Reason, "s") || x.Status != sm.StatusFailed || (x.StartedAt == nil) != (what == "waiting its turn") {
			c.t.Errorf("%s: cause %v, reason %q, started %v", what, value(x.Cause), x.Reason, x.StartedAt)
		}
	}
}

// N7: a PUT of an entity by anybody lets the run go that waits for it.
func startWhenPut(c *scene) {
	c.entities(c.kind(), 1)
	c.block("go", workflow.Block{Pure: true}, nil)
	c.define(fmt.Sprintf("config: {startWhen: 'entity(%q, \"door\").open && parameters.n > 0'}\n", c.kind()), "label: go, block: go, runOn: KIND")
	put := func(attributes string) {
		status, body := c.post("PUT", "/entities/"+c.kind()+"/door", "application/json", `{"attributes":`+attributes+`}`)
		if status != 200 && status != 201 {
			c.t.Fatalf("%d %s", status, body)
		}
	}
	put(`{"open":false}`)
	id := c.run(`{"n":1}`, "e-0001")
	x := c.waitsFor(id, views.WaitCondition)
	if x.State != sm.ExecutionBlockedWaiting || x.Status != sm.StatusPending || !strings.Contains(value(x.Waiting.Condition).(string), "door") || x.Waiting.Until == nil {
		c.t.Errorf("%s, waits for %+v", x.State, x.Waiting)
	}
	early := c.run(`{"n":1}`, "e-0001")
	c.ask(early, "resume", `{"reason":"now"}`)
	c.ends(early, sm.ExecutionCompletedAck)
	c.audited(early, sm.EventExecutionReady, "now")
	if x := c.look(id); x.State != sm.ExecutionBlockedWaiting {
		c.t.Errorf("it is %s although nothing has changed", x.State)
	}
	put(`{"open":true}`)
	c.ends(id, sm.ExecutionCompletedAck)
}

// N33: at the moment at which a run reads COMPLETED_ACK or FAILED_SAFE_ACK, and
// ever after, no lock names it, in the list or on the entity.
func noLockIsLeft(c *scene) {
	ids := c.entities(c.kind(), 12)
	c.block("undo", workflow.Block{Reversible: true}, nil)
	c.block("maybe", workflow.Block{Pure: true}, func(k call) answer {
		if k.Parameters["fail"] == true {
			return failed("NO", false)
		}
		return nil
	})
	c.define("", "label: undo, block: undo, runOn: KIND", "label: maybe, block: maybe, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			id := c.run(fmt.Sprintf(`{"fail":%v}`, i%2 == 0), ids...)
			x := c.until(id, "it rests", func(x views.ExecutionView) bool {
				return x.State == sm.ExecutionCompletedAck || x.State == sm.ExecutionFailedSafeAck
			})
			code, body := c.plain(c.t, "GET", "/locks?limit=1000")
			var page struct{ Items []views.LockView }
			if err := json.Unmarshal([]byte(body), &page); err != nil || code != 200 {
				c.t.Errorf("%d %.300s", code, body)
			}
			for _, l := range page.Items {
				if value(l.HeldBy) == id {
					c.t.Errorf("%s, and %s is held by it", x.State, l.Entity)
				}
			}
			for _, e := range []string{ids[0], ids[11]} {
				l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: e})
				if err != nil || value(l.HeldBy) == id {
					c.t.Errorf("%s, and %s is held by it, %v", x.State, e, err)
				}
			}
			c.ends(id, x.State)
		})
	}
	all.Wait()
}
