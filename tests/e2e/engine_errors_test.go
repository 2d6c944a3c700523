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

// DynamoDB rejects requests with unexpected errors. An execution that has not started
// fails safely. A running one is closed as soon as possible, and its end depends on what
// it has done; if that is unknown, it ends FAILED_UNSAFE.
func TestEngine_UnexpectedErrorsFailExecution(t *testing.T) {
	t.Parallel()
	d := serveTables(t)
	s := startStack(t, stackOptions{config: longLeaseConfig, env: []string{d.env()}})
	c := newFixture(t, s, "broken")
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	c.registerBlock("inspect", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.registerBlock("fire", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, g.wait)
	readOnly := c.publishExtra("inspects", "", "label: one, block: inspect, runOn: KIND", "label: two, block: inspect, runOn: KIND")
	fires := c.publishExtra("fires", "", "label: one, block: fire, runOn: KIND", "label: two, block: inspect, runOn: KIND")
	internal := func(x views.ExecutionView) {
		if deref(x.Cause) != workflow.CauseInternal || x.Reason == "" || x.Error == nil || x.Error.Code != "INTERNAL" || strings.Contains(x.Reason, "injected by the test") {
			t.Errorf("%s: cause %v, reason %q, error %+v", x.ID, deref(x.Cause), x.Reason, x.Error)
		}
	}

	d.rejectWhen(func(operation, body string) bool {
		return strings.Contains(operation, "Write") && strings.Contains(body, `"lockstep-locks"`) || operation == "UpdateItem" && strings.Contains(body, `"lockstep-locks"`)
	})
	id := c.startRef(fires, "{}", ids...)
	internal(c.waitEnded(id, sm.ExecutionFailedSafeAck))
	if len(c.listJobs(id, views.JobFilter{})) != 0 || c.countCalls("fire", "EXECUTE") != 0 {
		t.Error("an execution without its locks called a block")
	}
	d.rejectWhen(nil)

	// The jobs cannot be read, once or permanently. What is read ahead, beside the execution, is read
	// again if that fails.
	pure, unsafe, never := c.startRef(readOnly, "{}", ids[0]), c.startRef(fires, "{}", ids[1]), c.startRef(readOnly, "{}", ids[2])
	for range 3 {
		<-g.entered
	}
	var mu sync.Mutex
	failures := map[string]int{pure: 2, unsafe: 2, never: math.MaxInt}
	d.rejectWhen(func(operation, body string) bool {
		if operation != "GetItem" && operation != "BatchGetItem" && operation != "Query" || !strings.Contains(body, `"lockstep-jobs"`) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		for id, n := range failures {
			if n > 0 && strings.Contains(body, id) {
				failures[id]--
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
	d.rejectWhen(nil)
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
			t.Errorf("%s left RUNNING through an unexpected error %d times, want once", id, broken)
		}
	}
	if c.countCalls("fire", "EXECUTE") != 1 || c.countCalls("inspect", "EXECUTE") != 2 {
		t.Errorf("%d and %d calls: no job may start after the error", c.countCalls("fire", "EXECUTE"), c.countCalls("inspect", "EXECUTE"))
	}
}

// An idempotent pack is dispatched again to other workers up to the configured number of
// takeovers; then its jobs fail.
func TestWorker_TakeoverLimit(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: strings.Replace(shortLivenessConfig, "job: {", "job: {maxTakeovers: 2, ", 1)})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("fragile", workflow.Block{Idempotent: true})
	id := s.startExecution("test/fragile", `{}`, "e-0001")
	for n := range 2 {
		if o := s.pollUntilPack(fmt.Sprint("w", n), "fragile"); o.Token != n+1 {
			t.Errorf("claim %d has token %d", n+1, o.Token)
		}
	}
	for n, ended := 0, false; !ended; n++ { // a new worker each time, so that none is unreachable
		if o := s.pollOnce(fmt.Sprint("late", n), "fragile", time.Second); o != nil {
			t.Fatalf("dispatched a third time: %+v", o)
		}
		x, err := s.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		ended = x.TerminalEvent != nil
	}
	x := s.waitForState(id, sm.ExecutionFailedUnsafe)
	if deref(x.Cause) != workflow.CauseWorkerCrash {
		t.Errorf("cause %v", deref(x.Cause))
	}
	if j := s.onlyJob(id); j.State != sm.JobUnknown || j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
}

// A block that could not be called has changed nothing, even if it is neither pure nor
// reversible: the execution fails safely and names the setting that allows the call.
func TestHTTPBlock_UnreachableFailsSafely(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := workflow.Block{Package: "test", Name: "hello", Version: "1.0.0", HTTP: &workflow.Endpoint{URL: "http://192.0.2.1/"}}
	if _, err := s.RegisterBlock(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s.publish(globalWorkflow)
	x := s.waitForState(s.startExecution("test/hello", "{}"), sm.ExecutionFailedSafeAck)
	if x.Error == nil || !strings.Contains(x.Error.Message, "worker.allowHosts") || x.Progress.Jobs.Failed != 1 {
		t.Errorf("error %+v, jobs %+v", x.Error, x.Progress.Jobs)
	}
}
