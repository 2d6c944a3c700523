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

// wantRejected checks that an execution rejects verbs, naming its state, and does not
// change.
func (c *fixture) wantRejected(id string, in sm.ExecutionState, verbs ...string) {
	c.t.Helper()
	before := len(c.history(id))
	for _, verb := range verbs {
		status, body := c.sendRaw("POST", "/workflow-execution/"+id+"/"+verb, "application/json", `{"reason":"because"}`)
		if status != http.StatusConflict || !strings.Contains(body, `"illegal_transition"`) || !strings.Contains(body, string(in)) {
			c.t.Errorf("%s in %s: %d %s", verb, in, status, body)
		}
	}
	if x, after := c.getExecution(id), len(c.history(id)); x.State != in || after != before {
		c.t.Errorf("in %s after the rejected %v: state %s, %d events after %d", in, verbs, x.State, after, before)
	}
}

// mustRequest sends a verb that must be accepted.
func (c *fixture) mustRequest(id, verb, body string) {
	c.t.Helper()
	if status, text := c.sendRaw("POST", "/workflow-execution/"+id+"/"+verb, "application/json", body); status != http.StatusAccepted || !strings.Contains(text, id) {
		c.t.Fatalf("%s: %d %s", verb, status, text)
	}
}

// N4: in every state in which an execution can wait or end, a verb without a transition
// is rejected and changes nothing.
func illegalTransitions(c *fixture) {
	ids := c.importEntities(c.entityType(), 4)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		g.wait(k)
		if k.Parameters["fail"] == true {
			return errorAnswer("NO", false)
		}
		return nil
	})
	c.registerBlock("inspect", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	work := c.publishExtra("work", "", "label: work, block: work, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	readOnlyRef := c.publishExtra("inspect", "", "label: inspect, block: inspect, runOn: KIND")
	slow := c.publishExtra("slow", "", "label: inspect, block: inspect, runOn: KIND, delay: 30m")
	later := c.publishExtra("later", "config: {notBefore: '2099-01-01T00:00:00Z'}\n", "label: inspect, block: inspect, runOn: KIND")

	running := c.startRef(work, `{"fail":false}`, ids[0])
	unsafe := c.startRef(work, `{"fail":true}`, ids[1])
	cancelled := c.startRef(work, `{"fail":false}`, ids[2])
	for range 3 {
		<-g.entered
	}
	scheduled := c.startRef(work, `{"fail":false}`, ids[0])
	c.waitForKind(scheduled, workflow.WaitLock)
	blocked := c.startRef(later, "{}", ids[0])
	waiting := c.startRef(slow, "{}", ids[3])
	c.waitForKind(waiting, workflow.WaitTimer)
	c.mustRequest(cancelled, "cancel", "{}")

	c.wantRejected(blocked, sm.ExecutionBlockedWaiting, "acknowledge", "retry", "unlock")
	c.wantRejected(scheduled, sm.ExecutionScheduled, "acknowledge", "retry", "unlock", "resume")
	c.wantRejected(running, sm.ExecutionRunning, "acknowledge", "retry", "unlock", "resume")
	c.wantRejected(waiting, sm.ExecutionWaiting, "acknowledge", "retry", "unlock")
	c.wantRejected(cancelled, sm.ExecutionCancelling, "acknowledge", "retry", "unlock", "resume", "cancel")
	for _, id := range []string{blocked, waiting, scheduled} {
		c.mustRequest(id, "cancel", "{}")
		c.waitEnded(id, sm.ExecutionCancelledAck)
	}
	close(g.open)
	c.waitEnded(unsafe, sm.ExecutionFailedUnsafe)
	c.wantRejected(unsafe, sm.ExecutionFailedUnsafe, "resume", "cancel")
	c.waitForState(cancelled, sm.ExecutionCancelled)
	c.wantRejected(cancelled, sm.ExecutionCancelled, "retry", "resume", "cancel")
	c.waitEnded(running, sm.ExecutionCompletedAck)
	safe := c.startRef(readOnlyRef, "{}", ids[3])
	c.waitEnded(safe, sm.ExecutionFailedSafeAck)
	c.mustRequest(unsafe, "acknowledge", "{}")
	c.mustRequest(cancelled, "acknowledge", "{}")
	c.wantRejected(running, sm.ExecutionCompletedAck, "acknowledge", "retry", "unlock", "resume", "cancel")
	c.wantRejected(safe, sm.ExecutionFailedSafeAck, "acknowledge", "unlock", "resume", "cancel")
	c.wantRejected(c.waitEnded(unsafe, sm.ExecutionFailedUnsafeAck).ID, sm.ExecutionFailedUnsafeAck, "acknowledge", "unlock", "resume", "cancel")
	c.wantRejected(c.waitEnded(cancelled, sm.ExecutionCancelledAck).ID, sm.ExecutionCancelledAck, "acknowledge", "retry", "unlock", "resume", "cancel")
}

// N4: during resource discovery only a cancel is accepted, and during rollback nothing.
func illegalTransitionsUnderWay(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	find, rollbackGate := newBlockGate(), newBlockGate()
	c.registerBlock("find", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		find.wait(k)
		return blockAnswer{"outcome": "OK", "entities": []any{map[string]string{"type": c.entityType(), "id": ids[0]}}}
	})
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" {
			rollbackGate.wait(k)
		}
		return nil
	})
	c.registerBlock("fail", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("NO", false) })
	finds := c.publishExtra("finds", "acquire: [{type: "+c.entityType()+", block: 'test/"+c.name+"-find:1'}]\n", "label: work, block: work, runOn: KIND")
	fails := c.publishExtra("fails", "", "label: work, block: work, runOn: KIND", "label: fail, block: fail, runOn: global")
	discovery, rollback := c.startRef(finds, "{}"), c.startRef(fails, "{}", ids[1])
	<-find.entered
	<-rollbackGate.entered
	c.wantRejected(discovery, sm.ExecutionResourceDiscovery, "acknowledge", "retry", "unlock", "resume")
	c.wantRejected(rollback, sm.ExecutionRollback, "acknowledge", "retry", "unlock", "resume", "cancel")
	c.mustRequest(discovery, "cancel", "{}")
	close(find.open)
	close(rollbackGate.open)
	c.waitEnded(discovery, sm.ExecutionCancelledAck)
	if x := c.waitEnded(rollback, sm.ExecutionFailedSafeAck); !x.RolledBack {
		c.t.Error("not rolled back")
	}
	if c.executedEntities(discovery) != "" {
		c.t.Errorf("the cancelled execution ran on %s", c.executedEntities(discovery))
	}
}

// A retry starts from the named step, under new locks; the step must have been reached.
func retryFromAStep(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var fixed atomic.Bool
	c.registerBlock("inspect", workflow.Block{Pure: true}, func(k call) blockAnswer {
		if k.Job.Step == "third" && !fixed.Load() {
			return errorAnswer("NO", false)
		}
		return okAnswer(k.Job.Step)
	})
	c.publishWorkflow("", "label: first, block: inspect, runOn: KIND", "label: second, block: inspect, runOn: KIND",
		"label: third, block: inspect, runOn: KIND, parameters: {of: '${second.result}', and: '${first.result}'}", "label: fourth, block: inspect, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	c.wantFailure(c.waitEnded(id, sm.ExecutionFailedSafeAck), workflow.CauseStepFailed, "NO", "third")
	for from, want := range map[string]int{"fourth": 400, "missing": 400} {
		if status, body := c.sendRaw("POST", "/workflow-execution/"+id+"/retry", "application/json", fmt.Sprintf(`{"from":%q}`, from)); status != want || !strings.Contains(body, from) {
			c.t.Errorf("from %s: %d %s", from, status, body)
		}
	}
	fixed.Store(true)
	c.mustRequest(id, "retry", `{"from":"second","reason":"it is fixed"}`)
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantAudit(id, sm.EventExecutionRetried, "it is fixed")
	if x.Try != 2 || x.Error != nil || x.Cause != nil {
		c.t.Errorf("try %d, error %+v, cause %v", x.Try, x.Error, deref(x.Cause))
	}
	got := map[string]int{}
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id {
			got[k.Job.Step]++
		}
	}
	// The first failure may have stopped the other entity's job of the third step.
	if got["first"] != 2 || got["second"] != 2 && got["second"] != 4 || got["third"] < 3 || got["fourth"] != 2 {
		c.t.Errorf("calls %v", got)
	}
}

// A retry of the failed entities keeps completed jobs; a retry of all repeats them. Both
// use the locks that the execution still holds.
func retryFailedOrAll(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	var fixed atomic.Bool
	c.registerBlock("work", workflow.Block{}, func(k call) blockAnswer {
		if k.entityID() == ids[1] && !fixed.Load() {
			return errorAnswer("NO", false)
		}
		return okAnswer(k.entityID())
	})
	c.registerBlock("sum", workflow.Block{Pure: true}, func(k call) blockAnswer { return okAnswer(k.Parameters["n"]) })
	c.publishWorkflow("config: {maxInFlight: 3}\n", "label: work, block: work, runOn: KIND", "label: sum, block: sum, runOn: global, parameters: {n: '${size(work.results)}'}")
	token := func() int64 {
		l, err := c.Lock(c.t.Context(), workflow.EntityKey{Type: c.entityType(), ID: ids[0]})
		if err != nil {
			c.t.Fatal(err)
		}
		return l.Token
	}
	for entities, want := range map[string]int{"failed": 4, "all": 6} {
		fixed.Store(false)
		before := c.countCalls("work", "EXECUTE")
		id := c.startWorkflow("{}", ids...)
		c.waitEnded(id, sm.ExecutionFailedUnsafe)
		held := token()
		c.wantRejected(id, sm.ExecutionFailedUnsafe, "resume")
		fixed.Store(true)
		c.mustRequest(id, "retry", fmt.Sprintf(`{"entities":%q,"reason":"once more"}`, entities))
		c.waitEnded(id, sm.ExecutionCompletedAck)
		c.wantAudit(id, sm.EventExecutionRetried, "once more")
		r, err := c.Result(c.t.Context(), id)
		if err != nil || len(r.Steps["work"].Results) != 3 || string(r.Steps["sum"].Result) != "3" {
			c.t.Errorf("%s: results %+v, %v", entities, r.Steps, err)
		}
		if n := c.countCalls("work", "EXECUTE") - before; n != want {
			c.t.Errorf("%s: %d calls, want %d", entities, n, want)
		}
		for _, k := range c.blocks.allCalls() {
			if k.Job.Execution == id && k.entityID() == ids[0] && *k.Token != held {
				c.t.Errorf("%s: token %d after %d although the lock was held", entities, *k.Token, held)
			}
		}
	}
	if status, body := c.sendRaw("POST", "/workflow-execution/"+c.startWorkflow("{}", ids...)+"/retry", "application/json", `{"entities":"some"}`); status != 400 || !strings.Contains(body, "entities") {
		c.t.Errorf("%d %s", status, body)
	}
}

// A retry in a pipeline does not repeat jobs of entities that were ahead: a block that is
// not idempotent runs once, however often the execution is retried.
func retryInPipelines(c *fixture) {
	ids := c.importEntities(c.entityType(), 4)
	g := newBlockGate()
	var tries atomic.Int32
	c.registerBlock("work", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		switch try := tries.Load(); {
		case k.entityID() != ids[1]:
		case k.Job.Step == "two" && try == 0:
			g.wait(k)
			return errorAnswer("NO", false)
		case k.Job.Step == "three" && try == 1:
			return errorAnswer("NO", false)
		}
		return okAnswer(map[string]any{"on": k.entityID(), "given": k.Parameters["given"]})
	})
	c.publishWorkflow("config: {executionStrategy: {parallel: true}}\n", "label: one, block: work, runOn: KIND",
		"label: two, block: work, runOn: KIND, assert: size(one.result.on) > 0", "label: three, block: work, runOn: KIND, parameters: {given: '${two.result.on}'}",
		"label: four, block: work, runOn: KIND, parameters: {given: '${three.result.given}'}",
		"label: sum, block: work, runOn: global, assert: size(four.results) == 4, parameters: {given: '${size(four.results)}'}")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	eventually(c.t, "the others are ahead", func() bool { return len(c.listJobs(id, views.JobFilter{Step: "four", State: sm.JobCompleted})) == 3 })
	close(g.open)
	for try, failing := range []string{"two", "three"} {
		c.wantFailure(c.waitEnded(id, sm.ExecutionFailedUnsafe), workflow.CauseStepFailed, "NO", failing)
		tries.Store(int32(try) + 1)
		c.mustRequest(id, "retry", `{"reason":"fixed"}`)
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	calls := map[string]int{}
	for _, stepCall := range c.listCalls(id, "EXECUTE") {
		calls[stepCall]++
	}
	for stepCall, n := range calls {
		want := 1
		if stepCall == "two "+ids[1] || stepCall == "three "+ids[1] {
			want = 2
		}
		if n != want {
			c.t.Errorf("%s was called %d times, want %d", stepCall, n, want)
		}
	}
	r, err := c.Result(c.t.Context(), id)
	if err != nil || len(calls) != 4*4+1 || len(r.Steps["four"].Results) != 4 {
		c.t.Errorf("calls %v, results %v, %v", calls, r.Steps["four"].Results, err)
	}
	for on, got := range r.Steps["four"].Results {
		if string(got) != fmt.Sprintf(`{"given":%q,"on":%q}`, on, on) {
			c.t.Errorf("%s has %s", on, got)
		}
	}
}

// A retry repeats every job that a rollback has touched, whether or not the rollback was
// completed: a job that was rolled back must not count as completed.
func retryRolledBackStep(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	var fixed atomic.Bool
	c.registerBlock("work", workflow.Block{Reversible: true}, func(k call) blockAnswer {
		if k.Operation == "ROLLBACK" && k.Job.Step == "two" && k.Parameters["stuck"] == true {
			return errorAnswer("STUCK", false)
		}
		return nil
	})
	c.registerBlock("fail", workflow.Block{Pure: true}, func(call) blockAnswer {
		if fixed.Load() {
			return nil
		}
		return errorAnswer("NO", false)
	})
	c.publishWorkflow("config: {rollback: {mode: auto, onFailure: continue}}\n", "label: one, block: work, runOn: KIND",
		"label: two, block: work, runOn: KIND, parameters: {stuck: '${parameters.stuck}'}", "label: fail, block: fail, runOn: global")
	for stuck, in := range map[bool]sm.ExecutionState{true: sm.ExecutionFailedUnsafe, false: sm.ExecutionFailedSafeAck} {
		fixed.Store(false)
		id := c.startWorkflow(fmt.Sprintf(`{"stuck":%v}`, stuck), ids...)
		c.waitEnded(id, in)
		if undone := len(c.listCalls(id, "ROLLBACK")); undone != 4 {
			c.t.Errorf("%d rollback jobs, want 4", undone)
		}
		body := `{"entities":"failed","from":"two"}`
		if status, text := c.sendRaw("POST", "/workflow-execution/"+id+"/retry", "application/json", body); status != http.StatusBadRequest || !strings.Contains(text, `"from"`) {
			c.t.Errorf("%s: %d %s", body, status, text)
		}
		fixed.Store(true)
		if in == sm.ExecutionFailedSafeAck {
			c.blocks.allowRelock(id)
		}
		c.mustRequest(id, "retry", `{"reason":"fixed","entities":"failed"}`)
		c.waitEnded(id, sm.ExecutionCompletedAck)
		calls := map[string]int{}
		for _, stepCall := range c.listCalls(id, "EXECUTE") {
			calls[stepCall]++
		}
		for _, step := range []string{"one ", "two "} {
			for _, on := range ids {
				if calls[step+on] != 2 {
					c.t.Errorf("retried from %s: calls %v, want each step once more", in, calls)
				}
			}
		}
	}
}

// An operator ends the delay of a step early.
func resumeADelay(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerBlock("inspect", workflow.Block{Pure: true}, nil)
	c.publishWorkflow("", "label: first, block: inspect, runOn: KIND", "label: later, block: inspect, runOn: KIND, delay: 2h")
	id := c.startWorkflow("{}", ids...)
	x := c.waitForKind(id, workflow.WaitTimer)
	if x.State != sm.ExecutionWaiting || deref(x.Waiting.Step) != "later" || x.Waiting.Until == nil || x.Waiting.Until.Sub(x.Waiting.Since).Hours() < 1.9 || c.countCalls("inspect", "EXECUTE") != 1 {
		c.t.Errorf("%s, waits for %+v after %d calls", x.State, x.Waiting, c.countCalls("inspect", "EXECUTE"))
	}
	c.mustRequest(id, "resume", `{"reason":"long enough"}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantAudit(id, sm.EventExecutionResumed, "long enough")
	if c.countCalls("inspect", "EXECUTE") != 2 {
		c.t.Errorf("%d calls", c.countCalls("inspect", "EXECUTE"))
	}
}

// Unlock releases the entities of an unsafe execution before it is acknowledged. Another
// execution takes them with a higher token.
func unlockExecution(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	c.registerBlock("work", workflow.Block{}, func(k call) blockAnswer {
		if k.Parameters["fail"] == true {
			return errorAnswer("NO", false)
		}
		return nil
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND, parameters: {fail: '${parameters.fail}'}")
	id := c.startWorkflow(`{"fail":true}`, ids...)
	c.waitEnded(id, sm.ExecutionFailedUnsafe)
	next := c.startWorkflow(`{"fail":false}`, ids...)
	if x := c.waitForKind(next, workflow.WaitLock); len(x.Waiting.Blockers) != 1 || deref(x.Waiting.Blockers[0].HeldBy) != id {
		c.t.Errorf("waits for %+v", x.Waiting)
	}
	c.mustRequest(id, "unlock", `{"reason":"needed elsewhere"}`)
	c.waitEnded(next, sm.ExecutionCompletedAck)
	c.wantAudit(id, sm.EventLockReleased, "needed elsewhere")
	c.wantNoLocks(id)
	c.wantRejected(id, sm.ExecutionFailedUnsafe, "unlock")
	c.mustRequest(id, "acknowledge", `{"reason":"checked"}`)
	c.waitEnded(id, sm.ExecutionFailedUnsafeAck)
	c.wantAudit(id, sm.EventExecutionAcknowledged, "checked")
}

// An execution that waits for a lock ends at once when it is cancelled, and does not take
// the lock later.
func cancelWaitingExecution(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	first := c.startWorkflow("{}", ids...)
	<-g.entered
	second := c.startWorkflow("{}", ids...)
	c.waitForKind(second, workflow.WaitLock)
	c.mustRequest(second, "cancel", `{"reason":"never mind"}`)
	x := c.waitEnded(second, sm.ExecutionCancelledAck)
	c.wantAudit(second, sm.EventCancelRequested, "never mind")
	if x.RolledBack || x.StartedAt != nil || x.Cancellation == nil || x.Cancellation.Source != "user" || x.Cancellation.By != "local" {
		c.t.Errorf("started %v, rolled back %v, cancelled by %+v", x.StartedAt, x.RolledBack, x.Cancellation)
	}
	close(g.open)
	c.waitEnded(first, sm.ExecutionCompletedAck)
	if c.countCalls("work", "EXECUTE") != 1 {
		c.t.Error("the cancelled execution called the block")
	}
}

// N48: a cancelled execution that ran only pure blocks releases its locks and ends without
// a rollback.
func cancelPureJobs(c *fixture) {
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("inspect", workflow.Block{Pure: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("config: {maxInFlight: 1}\n", "label: inspect, block: inspect, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	c.mustRequest(id, "cancel", `{"reason":"seen enough"}`)
	close(g.open)
	x := c.waitEnded(id, sm.ExecutionCancelledAck)
	if x.RolledBack || len(c.listJobs(id, views.JobFilter{Kind: workflow.JobRollback})) != 0 || c.countCalls("inspect", "EXECUTE") != 1 || x.Reason == "" {
		c.t.Errorf("rolled back %v, reason %q, %d calls", x.RolledBack, x.Reason, c.countCalls("inspect", "EXECUTE"))
	}
	c.waitEnded(c.startWorkflow("{}", ids...), sm.ExecutionCompletedAck)
}
