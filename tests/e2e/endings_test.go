package e2e

import (
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func unsafeFailure(c *scene) {
	ids := c.entities(c.kind(), 2)
	c.block("undo", workflow.Block{Idempotent: true, Reversible: true}, nil)
	c.block("fire", workflow.Block{}, nil)
	c.block("after", workflow.Block{Idempotent: true, Reversible: true}, func(call) answer { return failed("BROKEN", false) })
	c.define("", "label: undo, block: undo, runOn: KIND", "label: fire, block: fire, runOn: KIND", "label: after, block: after, runOn: KIND")
	id := c.run("{}", ids...)
	x := c.ends(id, sm.ExecutionFailedUnsafe)
	if x.RolledBack || x.Waiting == nil || x.Waiting.Kind != views.WaitAcknowledge {
		c.t.Errorf("rolled back %v, waiting %+v", x.RolledBack, x.Waiting)
	}
	if c.of("undo", "EXECUTE") != 2 || c.of("undo", "ROLLBACK") != 0 || c.of("after", "ROLLBACK") != 0 || len(c.jobs(id, views.JobFilter{Kind: workflow.JobRollback})) != 0 {
		c.t.Error("half of it was undone")
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
	x, err := c.Cancel(c.t.Context(), id, views.CancelRequest{Reason: "not today"})
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
