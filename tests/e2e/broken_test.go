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

// TestN09_UnexpectedErrors: the tables refuse what they have never refused. A run
// that has not begun has failed safely; one that is at work is closed as soon as
// that is possible, and judged by what it has done; if that cannot be told,
// somebody has to look.
func TestN09_UnexpectedErrors(t *testing.T) {
	t.Parallel()
	d := serveTables(t)
	s := start(t, setup{config: lifecycle, env: []string{d.env()}})
	c := sceneOn(t, s, "broken")
	ids := c.entities(c.kind(), 3)
	g := newGate()
	c.block("look", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.block("fire", workflow.Block{Timeout: workflow.Duration(patience)}, g.pass)
	looks := c.also("looks", "", "label: one, block: look, runOn: KIND", "label: two, block: look, runOn: KIND")
	fires := c.also("fires", "", "label: one, block: fire, runOn: KIND", "label: two, block: look, runOn: KIND")
	internal := func(x views.ExecutionView) {
		if value(x.Cause) != workflow.CauseInternal || x.Reason == "" || x.Error == nil || x.Error.Code != "internal" || strings.Contains(x.Reason, "the test says so") {
			t.Errorf("%s: cause %v, reason %q, error %+v", x.ID, value(x.Cause), x.Reason, x.Error)
		}
	}

	d.onRefuse(func(operation, body string) bool {
		return strings.Contains(operation, "Write") && strings.Contains(body, `"lockstep-locks"`) || operation == "UpdateItem" && strings.Contains(body, `"lockstep-locks"`)
	})
	id := c.launch(fires, "{}", ids...)
	internal(c.ends(id, sm.ExecutionFailedSafeAck))
	if len(c.jobs(id, views.JobFilter{})) != 0 || c.of("fire", "EXECUTE") != 0 {
		t.Error("a run that could not take its locks has run")
	}
	d.onRefuse(nil)

	// What has become of the jobs cannot be read: once, or ever again.
	pure, unsafe, never := c.launch(looks, "{}", ids[0]), c.launch(fires, "{}", ids[1]), c.launch(looks, "{}", ids[2])
	for range 3 {
		<-g.entered
	}
	var mu sync.Mutex
	left := map[string]int{pure: 1, unsafe: 1, never: math.MaxInt}
	d.onRefuse(func(operation, body string) bool {
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
	d.onRefuse(nil)
	internal(c.ends(pure, sm.ExecutionFailedSafeAck))
	for _, id := range []string{unsafe, never} {
		internal(c.ends(id, sm.ExecutionFailedUnsafe))
		c.ask(id, "acknowledge", "{}")
		c.ends(id, sm.ExecutionFailedUnsafeAck)
	}
	for _, id := range []string{pure, unsafe, never} {
		broken := 0
		for _, e := range c.events(id) {
			if e.Type == string(sm.EventExecutionBroken) && e.From == string(sm.ExecutionRunning) {
				broken++
			}
		}
		if broken != 1 {
			t.Errorf("%s has left RUNNING by an unexpected error %d times", id, broken)
		}
	}
	if c.of("fire", "EXECUTE") != 1 || c.of("look", "EXECUTE") != 2 {
		t.Errorf("%d and %d calls: nothing may begin after the error", c.of("fire", "EXECUTE"), c.of("look", "EXECUTE"))
	}
}

// TestN44_TakeOverLimit: what may run again is given to the next worker as often
// as the configuration says, and then has failed with the last of them.
func TestN44_TakeOverLimit(t *testing.T) {
	t.Parallel()
	s := start(t, setup{config: strings.Replace(silent, "job: {", "job: {maxTakeovers: 2, ", 1)})
	s.entities("device", 1)
	s.polled("fragile", workflow.Block{Idempotent: true})
	id := s.begin("test/fragile", `{}`, "e-0001")
	for n := range 2 {
		if o := s.given(fmt.Sprint("w", n), "fragile"); o.Token != n+1 {
			t.Errorf("claim %d has the token %d", n+1, o.Token)
		}
	}
	for n, over := 0, false; !over; n++ { // a worker of its own each time, so that none is known to be silent
		if o := s.poll(fmt.Sprint("late", n), "fragile", time.Second); o != nil {
			t.Fatalf("offered a third time: %+v", o)
		}
		x, err := s.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		over = x.TerminalEvent != nil
	}
	x := s.rests(id, sm.ExecutionFailedUnsafe)
	if value(x.Cause) != workflow.CauseWorkerCrash {
		t.Errorf("cause %v", value(x.Cause))
	}
	if j := s.theJob(id); j.State != sm.JobUnknown || j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
}
