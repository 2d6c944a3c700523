package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// refuses demands that a run refuses verbs, naming its state, and that nothing of
// it changes.
func (c *scene) refuses(id string, in sm.ExecutionState, verbs ...string) {
	c.t.Helper()
	before := len(c.events(id))
	for _, verb := range verbs {
		status, body := c.post("POST", "/workflow-execution/"+id+"/"+verb, "application/json", `{"reason":"because"}`)
		if status != http.StatusConflict || !strings.Contains(body, `"illegal_transition"`) || !strings.Contains(body, string(in)) {
			c.t.Errorf("%s in %s: %d %s", verb, in, status, body)
		}
	}
	if x, after := c.look(id), len(c.events(id)); x.State != in || after != before {
		c.t.Errorf("in %s it refuses %v, and then is %s with %d events after %d", in, verbs, x.State, after, before)
	}
}

// ask sends a verb that must be taken.
func (c *scene) ask(id, verb, body string) {
	c.t.Helper()
	if status, text := c.post("POST", "/workflow-execution/"+id+"/"+verb, "application/json", body); status != http.StatusAccepted || !strings.Contains(text, id) {
		c.t.Fatalf("%s: %d %s", verb, status, text)
	}
}

// N4: in every state in which a run can be found resting or waiting, what the law
// has no edge for is refused and changes nothing.
func noEdge(c *scene) {
	ids := c.entities(c.kind(), 4)
	g := newGate()
	c.block("work", workflow.Block{Timeout: workflow.Duration(patience)}, func(k call) answer {
		g.pass(k)
		if k.Parameters["fail"] == true {
			return failed("NO", false)
		}
		return nil
	})
	c.block("look", workflow.Block{Pure: true}, func(call) answer { return failed("NO", false) })
	work := c.also("work", "", "label: work, block: work, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	looks := c.also("look", "", "label: look, block: look, runOn: KIND")
	slow := c.also("slow", "", "label: look, block: look, runOn: KIND, delay: 30m")
	later := c.also("later", "config: {notBefore: '2099-01-01T00:00:00Z'}\n", "label: look, block: look, runOn: KIND")

	running := c.launch(work, `{"fail":false}`, ids[0])
	unsafe := c.launch(work, `{"fail":true}`, ids[1])
	cancelled := c.launch(work, `{"fail":false}`, ids[2])
	for range 3 {
		<-g.entered
	}
	scheduled := c.launch(work, `{"fail":false}`, ids[0])
	c.waitsFor(scheduled, views.WaitLock)
	blocked := c.launch(later, "{}", ids[0])
	waiting := c.launch(slow, "{}", ids[3])
	c.waitsFor(waiting, views.WaitTimer)
	c.ask(cancelled, "cancel", "{}")

	c.refuses(blocked, sm.ExecutionBlockedWaiting, "acknowledge", "retry", "unlock")
	c.refuses(scheduled, sm.ExecutionScheduled, "acknowledge", "retry", "unlock", "resume")
	c.refuses(running, sm.ExecutionRunning, "acknowledge", "retry", "unlock", "resume")
	c.refuses(waiting, sm.ExecutionWaiting, "acknowledge", "retry", "unlock")
	c.refuses(cancelled, sm.ExecutionCancelling, "acknowledge", "retry", "unlock", "resume", "cancel")
	for _, id := range []string{blocked, waiting, scheduled} {
		c.ask(id, "cancel", "{}")
		c.ends(id, sm.ExecutionCancelledAck)
	}
	close(g.open)
	c.ends(unsafe, sm.ExecutionFailedUnsafe)
	c.refuses(unsafe, sm.ExecutionFailedUnsafe, "resume", "cancel")
	c.rests(cancelled, sm.ExecutionCancelled)
	c.refuses(cancelled, sm.ExecutionCancelled, "retry", "resume", "cancel")
	c.ends(running, sm.ExecutionCompletedAck)
	safe := c.launch(looks, "{}", ids[3])
	c.ends(safe, sm.ExecutionFailedSafeAck)
	c.ask(unsafe, "acknowledge", "{}")
	c.ask(cancelled, "acknowledge", "{}")
	c.refuses(running, sm.ExecutionCompletedAck, "acknowledge", "retry", "unlock", "resume", "cancel")
	c.refuses(safe, sm.ExecutionFailedSafeAck, "acknowledge", "unlock", "resume", "cancel")
	c.refuses(c.ends(unsafe, sm.ExecutionFailedUnsafeAck).ID, sm.ExecutionFailedUnsafeAck, "acknowledge", "unlock", "resume", "cancel")
	c.refuses(c.ends(cancelled, sm.ExecutionCancelledAck).ID, sm.ExecutionCancelledAck, "acknowledge", "retry", "unlock", "resume", "cancel")
}

// N4: nor is there an edge from a run that finds out what it is about, but to
// cancel it, and none at all from one that undoes what it has done.
func noEdgeFromWhatIsDone(c *scene) {
	ids := c.entities(c.kind(), 2)
	find, undo := newGate(), newGate()
	c.block("find", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		find.pass(k)
		return answer{"outcome": "OK", "entities": []any{map[string]string{"type": c.kind(), "id": ids[0]}}}
	})
	c.block("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(patience)}, func(k call) answer {
		if k.Operation == "ROLLBACK" {
			undo.pass(k)
		}
		return nil
	})
	c.block("fail", workflow.Block{Pure: true}, func(call) answer { return failed("NO", false) })
	finds := c.also("finds", "acquire: [{type: "+c.kind()+", block: 'test/"+c.name+"-find:1'}]\n", "label: work, block: work, runOn: KIND")
	fails := c.also("fails", "", "label: work, block: work, runOn: KIND", "label: fail, block: fail, runOn: global")
	discovery, rollback := c.launch(finds, "{}"), c.launch(fails, "{}", ids[1])
	<-find.entered
	<-undo.entered
	c.refuses(discovery, sm.ExecutionResourceDiscovery, "acknowledge", "retry", "unlock", "resume")
	c.refuses(rollback, sm.ExecutionRollback, "acknowledge", "retry", "unlock", "resume", "cancel")
	c.ask(discovery, "cancel", "{}")
	close(find.open)
	close(undo.open)
	c.ends(discovery, sm.ExecutionCancelledAck)
	if x := c.ends(rollback, sm.ExecutionFailedSafeAck); !x.RolledBack {
		c.t.Error("not rolled back")
	}
	if c.visited(discovery) != "" {
		c.t.Errorf("what was cancelled has run on %s", c.visited(discovery))
	}
}

// A retry begins with the step that is named, under new locks, and not with one
// that was never reached.
func retryFromAStep(c *scene) {
	ids := c.entities(c.kind(), 2)
	var mended atomic.Bool
	c.block("look", workflow.Block{Pure: true}, func(k call) answer {
		if k.Job.Step == "third" && !mended.Load() {
			return failed("NO", false)
		}
		return ok(k.Job.Step)
	})
	c.define("", "label: first, block: look, runOn: KIND", "label: second, block: look, runOn: KIND",
		"label: third, block: look, runOn: KIND, parameters: {of: '${second.result}', and: '${first.result}'}", "label: fourth, block: look, runOn: KIND")
	id := c.run("{}", ids...)
	c.failedBy(c.ends(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "NO", "third")
	for from, want := range map[string]int{"fourth": 400, "nobody": 400} {
		if status, body := c.post("POST", "/workflow-execution/"+id+"/retry", "application/json", fmt.Sprintf(`{"from":%q}`, from)); status != want || !strings.Contains(body, from) {
			c.t.Errorf("from %s: %d %s", from, status, body)
		}
	}
	mended.Store(true)
	c.ask(id, "retry", `{"from":"second","reason":"it is mended"}`)
	x := c.ends(id, sm.ExecutionCompletedAck)
	c.audited(id, sm.EventExecutionRetried, "it is mended")
	if x.Try != 2 || x.Error != nil || x.Cause != nil {
		c.t.Errorf("try %d, error %+v, cause %v", x.Try, x.Error, value(x.Cause))
	}
	got := map[string]int{}
	for _, k := range c.b.all() {
		if k.Job.Execution == id {
			got[k.Job.Step]++
		}
	}
	// What failed first may have stopped the other entity's job of the third step.
	if got["first"] != 2 || got["second"] != 2 && got["second"] != 4 || got["third"] < 3 || got["fourth"] != 2 {
		c.t.Errorf("called %v", got)
	}
}

// A retry of what has failed keeps what has come to OK; a retry of all does it all
// again. Both go on under the locks that the run still holds.
func retryFailedOrAll(c *scene) {
	ids := c.entities(c.kind(), 3)
	var mended atomic.Bool
	c.block("work", workflow.Block{}, func(k call) answer {
		if k.on() == ids[1] && !mended.Load() {
			return failed("NO", false)
		}
		return ok(k.on())
	})
	c.block("sum", workflow.Block{Pure: true}, func(k call) answer { return ok(k.Parameters["n"]) })
	c.define("config: {maxInFlight: 3}\n", "label: work, block: work, runOn: KIND", "label: sum, block: sum, runOn: global, parameters: {n: '${size(work.results)}'}")
	token := func() int64 {
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.kind(), ID: ids[0]})
		if err != nil {
			c.t.Fatal(err)
		}
		return l.Token
	}
	for entities, want := range map[string]int{"failed": 4, "all": 6} {
		mended.Store(false)
		before := c.of("work", "EXECUTE")
		id := c.run("{}", ids...)
		c.ends(id, sm.ExecutionFailedUnsafe)
		held := token()
		c.refuses(id, sm.ExecutionFailedUnsafe, "resume")
		mended.Store(true)
		c.ask(id, "retry", fmt.Sprintf(`{"entities":%q,"reason":"once more"}`, entities))
		c.ends(id, sm.ExecutionCompletedAck)
		c.audited(id, sm.EventExecutionRetried, "once more")
		r, err := c.Result(c.t.Context(), id)
		if err != nil || len(r.Steps["work"].Results) != 3 || string(r.Steps["sum"].Result) != "3" {
			c.t.Errorf("%s: results %+v, %v", entities, r.Steps, err)
		}
		if n := c.of("work", "EXECUTE") - before; n != want {
			c.t.Errorf("%s: %d calls, want %d", entities, n, want)
		}
		for _, k := range c.b.all() {
			if k.Job.Execution == id && k.on() == ids[0] && *k.Token != held {
				c.t.Errorf("%s: token %d after %d, although the lock was held", entities, *k.Token, held)
			}
		}
	}
	if status, body := c.post("POST", "/workflow-execution/"+c.run("{}", ids...)+"/retry", "application/json", `{"entities":"some"}`); status != 400 || !strings.Contains(body, "entities") {
		c.t.Errorf("%d %s", status, body)
	}
}

// A retry of what has failed in a pipeline does not touch those who were ahead of
// it: nothing that must not run twice does, however often it is tried.
func retryInPipelines(c *scene) {
	ids := c.entities(c.kind(), 4)
	g := newGate()
	var tries atomic.Int32
	c.block("work", workflow.Block{Timeout: workflow.Duration(patience)}, func(k call) answer {
		switch try := tries.Load(); {
		case k.on() != ids[1]:
		case k.Job.Step == "two" && try == 0:
			g.pass(k)
			return failed("NO", false)
		case k.Job.Step == "three" && try == 1:
			return failed("NO", false)
		}
		return ok(map[string]any{"on": k.on(), "given": k.Parameters["given"]})
	})
	c.define("config: {executionStrategy: {parallel: true}}\n", "label: one, block: work, runOn: KIND",
		"label: two, block: work, runOn: KIND, assert: size(one.result.on) > 0", "label: three, block: work, runOn: KIND, parameters: {given: '${two.result.on}'}",
		"label: four, block: work, runOn: KIND, parameters: {given: '${three.result.given}'}",
		"label: sum, block: work, runOn: global, assert: size(four.results) == 4, parameters: {given: '${size(four.results)}'}")
	id := c.run("{}", ids...)
	<-g.entered
	eventually(c.t, "the others are ahead", func() bool { return len(c.jobs(id, views.JobFilter{Step: "four", State: sm.JobCompleted})) == 3 })
	close(g.open)
	for try, failing := range []string{"two", "three"} {
		c.failedBy(c.ends(id, sm.ExecutionFailedUnsafe), workflow.CauseStepFailed, "NO", failing)
		tries.Store(int32(try) + 1)
		c.ask(id, "retry", `{"reason":"mended"}`)
	}
	c.ends(id, sm.ExecutionCompletedAck)
	times := map[string]int{}
	for _, made := range c.callsOf(id, "EXECUTE") {
		times[made]++
	}
	for made, n := range times {
		want := 1
		if made == "two "+ids[1] || made == "three "+ids[1] {
			want = 2
		}
		if n != want {
			c.t.Errorf("%s was called %d times, want %d", made, n, want)
		}
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || len(times) != 4*4+1 || len(r.Steps["four"].Results) != 4 {
		c.t.Errorf("called %v, results %v, %v", times, r.Steps["four"].Results, err)
	}
	for on, got := range r.Steps["four"].Results {
		if string(got) != fmt.Sprintf(`{"given":%q,"on":%q}`, on, on) {
			c.t.Errorf("%s has %s", on, got)
		}
	}
}

// What a rollback was at is done again by a retry, whether or not the rollback
// came to its end: to keep it would call done what has been undone.
func retryOfWhatIsUndone(c *scene) {
	ids := c.entities(c.kind(), 2)
	var mended atomic.Bool
	c.block("work", workflow.Block{Reversible: true}, func(k call) answer {
		if k.Operation == "ROLLBACK" && k.Job.Step == "two" && k.Parameters["stuck"] == true {
			return failed("STUCK", false)
		}
		return nil
	})
	c.block("fail", workflow.Block{Pure: true}, func(call) answer {
		if mended.Load() {
			return nil
		}
		return failed("NO", false)
	})
	c.define("config: {rollback: {mode: auto, onFailure: continue}}\n", "label: one, block: work, runOn: KIND",
		"label: two, block: work, runOn: KIND, parameters: {stuck: '${parameters.stuck}'}", "label: fail, block: fail, runOn: global")
	for stuck, in := range map[bool]sm.ExecutionState{true: sm.ExecutionFailedUnsafe, false: sm.ExecutionFailedSafeAck} {
		mended.Store(false)
		id := c.run(fmt.Sprintf(`{"stuck":%v}`, stuck), ids...)
		c.ends(id, in)
		if undone := len(c.callsOf(id, "ROLLBACK")); undone != 4 {
			c.t.Errorf("%d jobs undo", undone)
		}
		body := `{"entities":"failed","from":"two"}`
		if status, text := c.post("POST", "/workflow-execution/"+id+"/retry", "application/json", body); status != http.StatusBadRequest || !strings.Contains(text, `"from"`) {
			c.t.Errorf("%s: %d %s", body, status, text)
		}
		mended.Store(true)
		if in == sm.ExecutionFailedSafeAck {
			c.b.locksAnew(id)
		}
		c.ask(id, "retry", `{"reason":"mended","entities":"failed"}`)
		c.ends(id, sm.ExecutionCompletedAck)
		times := map[string]int{}
		for _, made := range c.callsOf(id, "EXECUTE") {
			times[made]++
		}
		for _, step := range []string{"one ", "two "} {
			for _, on := range ids {
				if times[step+on] != 2 {
					c.t.Errorf("in %s: called %v, want each of the steps once more", in, times)
				}
			}
		}
	}
}

// An operator ends the delay of a step before its time.
func resumeADelay(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.block("look", workflow.Block{Pure: true}, nil)
	c.define("", "label: first, block: look, runOn: KIND", "label: later, block: look, runOn: KIND, delay: 2h")
	id := c.run("{}", ids...)
	x := c.waitsFor(id, views.WaitTimer)
	if x.State != sm.ExecutionWaiting || value(x.Waiting.Step) != "later" || x.Waiting.Until == nil || x.Waiting.Until.Sub(x.Waiting.Since).Hours() < 1.9 || c.of("look", "EXECUTE") != 1 {
		c.t.Errorf("%s, waits for %+v after %d calls", x.State, x.Waiting, c.of("look", "EXECUTE"))
	}
	c.ask(id, "resume", `{"reason":"long enough"}`)
	c.ends(id, sm.ExecutionCompletedAck)
	c.audited(id, sm.EventExecutionResumed, "long enough")
	if c.of("look", "EXECUTE") != 2 {
		c.t.Errorf("%d calls", c.of("look", "EXECUTE"))
	}
}

// Unlocking frees the entities and leaves the run to be looked at; another run
// takes them under a higher token.
func unlock(c *scene) {
	ids := c.entities(c.kind(), 1)
	c.block("work", workflow.Block{}, func(k call) answer {
		if k.Parameters["fail"] == true {
			return failed("NO", false)
		}
		return nil
	})
	c.define("", "label: work, block: work, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	id := c.run(`{"fail":true}`, ids...)
	c.ends(id, sm.ExecutionFailedUnsafe)
	next := c.run(`{"fail":false}`, ids...)
	if x := c.waitsFor(next, views.WaitLock); len(x.Waiting.For) != 1 || value(x.Waiting.For[0].HeldBy) != id {
		c.t.Errorf("waits for %+v", x.Waiting)
	}
	c.ask(id, "unlock", `{"reason":"needed elsewhere"}`)
	c.ends(next, sm.ExecutionCompletedAck)
	c.audited(id, sm.EventLockReleased, "needed elsewhere")
	c.unlocked(id)
	c.refuses(id, sm.ExecutionFailedUnsafe, "unlock")
	c.ask(id, "acknowledge", `{"reason":"looked"}`)
	c.ends(id, sm.ExecutionFailedUnsafeAck)
	c.audited(id, sm.EventExecutionAcknowledged, "looked")
}

// A run that waits its turn ends at once when it is cancelled, and does not take
// the lock later.
func cancelledWhileItWaits(c *scene) {
	ids := c.entities(c.kind(), 1)
	g := newGate()
	c.block("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.define("", "label: work, block: work, runOn: KIND")
	first := c.run("{}", ids...)
	<-g.entered
	second := c.run("{}", ids...)
	c.waitsFor(second, views.WaitLock)
	c.ask(second, "cancel", `{"reason":"never mind"}`)
	x := c.ends(second, sm.ExecutionCancelledAck)
	c.audited(second, sm.EventCancelRequested, "never mind")
	if x.RolledBack || x.StartedAt != nil || x.Cancellation == nil || x.Cancellation.Source != "user" || x.Cancellation.By != "local" {
		c.t.Errorf("started %v, rolled back %v, cancelled by %+v", x.StartedAt, x.RolledBack, x.Cancellation)
	}
	close(g.open)
	c.ends(first, sm.ExecutionCompletedAck)
	if c.of("work", "EXECUTE") != 1 {
		c.t.Error("what was cancelled has run")
	}
}

// N48: when only pure work was done there is nothing to undo: the locks are freed
// and it ends.
func cancelledPure(c *scene) {
	ids := c.entities(c.kind(), 2)
	g := newGate()
	c.block("look", workflow.Block{Pure: true, Timeout: workflow.Duration(patience)}, g.pass)
	c.define("config: {maxInFlight: 1}\n", "label: look, block: look, runOn: KIND")
	id := c.run("{}", ids...)
	<-g.entered
	c.ask(id, "cancel", `{"reason":"seen enough"}`)
	close(g.open)
	x := c.ends(id, sm.ExecutionCancelledAck)
	if x.RolledBack || len(c.jobs(id, views.JobFilter{Kind: workflow.JobRollback})) != 0 || c.of("look", "EXECUTE") != 1 || x.Reason == "" {
		c.t.Errorf("rolled back %v, reason %q, %d calls", x.RolledBack, x.Reason, c.of("look", "EXECUTE"))
	}
	c.ends(c.run("{}", ids...), sm.ExecutionCompletedAck)
}
