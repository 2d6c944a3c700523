package e2e

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestEngine_UnexpectedErrorsFailExecution: the tables refuse what they have never refused. A run
// that has not begun has failed safely; one that is at work is closed as soon as
// that is possible, and judged by what it has done; if that cannot be told,
// somebody has to look.
func TestEngine_UnexpectedErrorsFailExecution(t *testing.T) {
	t.Parallel()
	d := serveTables(t)
	s := startStack(t, stackOptions{config: longLeaseConfig, env: []string{d.env()}})
	c := newFixture(t, s, "broken")
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	c.registerBlock("look", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.registerBlock("fire", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, g.wait)
	readOnly := c.publishExtra("looks", "", "label: one, block: look, runOn: KIND", "label: two, block: look, runOn: KIND")
	fires := c.publishExtra("fires", "", "label: one, block: fire, runOn: KIND", "label: two, block: look, runOn: KIND")
	internal := func(x views.ExecutionView) {
		if deref(x.Cause) != workflow.CauseInternal || x.Reason == "" || x.Error == nil || x.Error.Code != "internal" || strings.Contains(x.Reason, "the test says so") {
			t.Errorf("%s: cause %v, reason %q, error %+v", x.ID, deref(x.Cause), x.Reason, x.Error)
		}
	}

	d.refuseWhen(func(operation, body string) bool {
		return strings.Contains(operation, "Write") && strings.Contains(body, `"lockstep-locks"`) || operation == "UpdateItem" && strings.Contains(body, `"lockstep-locks"`)
	})
	id := c.startRef(fires, "{}", ids...)
	internal(c.waitEnded(id, sm.ExecutionFailedSafeAck))
	if len(c.listJobs(id, views.JobFilter{})) != 0 || c.countCalls("fire", "EXECUTE") != 0 {
		t.Error("a run that could not take its locks has run")
	}
	d.refuseWhen(nil)

	// What has become of the jobs cannot be read: once, or ever again.
	pure, unsafe, never := c.startRef(readOnly, "{}", ids[0]), c.startRef(fires, "{}", ids[1]), c.startRef(readOnly, "{}", ids[2])
	for range 3 {
		<-g.entered
	}
	var mu sync.Mutex
	left := map[string]int{pure: 1, unsafe: 1, never: math.MaxInt}
	d.refuseWhen(func(operation, body string) bool {
		if operation != "GetItem" && operation != "BatchGetItem" && operation != "Query" || !strings.Contains(body, `"lockstep-jobs"`) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		for id, n := range left {
			if n > 0 && strings.Contains(body, id) {
				left[id]--
				return true
			}
		}
		return false
	})
	close(g.open)
	for _, id := range []string{pure, unsafe, never} {
		eventually(t, id+" has ended", func() bool {
			x, err := s.Status(t.Context(), id)
			return err == nil && x.TerminalEvent != nil
		})
	}
	d.refuseWhen(nil)
	internal(c.waitEnded(pure, sm.ExecutionFailedSafeAck))
	for _, id := range []string{unsafe, never} {
		internal(c.waitEnded(id, sm.ExecutionFailedUnsafe))
		c.mustRequest(id, "acknowledge", "{}")
		c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
	}
	for _, id := range []string{pure, unsafe, never} {
		broken := 0
		for _, e := range c.history(id) {
			if e.Type == string(sm.EventExecutionBroken) && e.From == string(sm.ExecutionRunning) {
				broken++
			}
		}
		if broken != 1 {
			t.Errorf("%s has left RUNNING by an unexpected error %d times", id, broken)
		}
	}
	if c.countCalls("fire", "EXECUTE") != 1 || c.countCalls("look", "EXECUTE") != 2 {
		t.Errorf("%d and %d calls: nothing may begin after the error", c.countCalls("fire", "EXECUTE"), c.countCalls("look", "EXECUTE"))
	}
}

// TestWorker_TakeoverLimit: what may run again is given to the next worker as often
// as the configuration says, and then has failed with the last of them.
func TestWorker_TakeoverLimit(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: strings.Replace(shortLivenessConfig, "job: {", "job: {maxTakeovers: 2, ", 1)})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("fragile", workflow.Block{Idempotent: true})
	id := s.startExecution("test/fragile", `{}`, "e-0001")
	for n := range 2 {
		if o := s.pollUntilPack(fmt.Sprint("w", n), "fragile"); o.Token != n+1 {
			t.Errorf("claim %d has the token %d", n+1, o.Token)
		}
	}
	for n, over := 0, false; !over; n++ { // a worker of its own each time, so that none is known to be silent
		if o := s.pollOnce(fmt.Sprint("late", n), "fragile", time.Second); o != nil {
			t.Fatalf("offered a third time: %+v", o)
		}
		x, err := s.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		over = x.TerminalEvent != nil
	}
	x := s.waitForState(id, sm.ExecutionFailedUnsafe)
	if deref(x.Cause) != workflow.CauseWorkerCrash {
		t.Errorf("cause %v", deref(x.Cause))
	}
	if j := s.onlyJob(id); j.State != sm.JobUnknown || j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
}
