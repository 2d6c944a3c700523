package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// waiting starts an execution over three devices, and returns it once it is idle.
func waiting(t *testing.T, definition, parameters string, script func(harness.BlockCall) *harness.Outcome) (*harness.Harness, string) {
	t.Helper()
	s := newHarness(t, 3)
	s.Publish("w", definition)
	s.Script = script
	req := harness.NewStartRequest("w", harness.DeviceIDs(3)...)
	if parameters != "" {
		req.Parameters = []byte(parameters)
	}
	id := s.StartWith(req)
	s.Drain()
	return s, id
}

// expectWait checks the headline of a waiting execution, and that nobody else can take its locks
// meanwhile.
func expectWait(t *testing.T, s *harness.Harness, id string, kind workflow.WaitKind, step string, until time.Duration) *workflow.Execution {
	t.Helper()
	x := s.ExpectState(id, sm.ExecutionWaiting)
	if w := x.Wait; w == nil || w.Kind != kind || w.Step != step || w.Until.Sub(w.Since) != until {
		t.Fatalf("%s waits for %+v, want %s of step %s for %s", id, x.Wait, kind, step, until)
	}
	if x.Schema != workflow.SchemaVersion {
		t.Errorf("an execution that waits has schema %d: a release that knows no waits could drive it", x.Schema)
	}
	if n := len(x.Scope.Inline); n > 0 && len(s.Locks()) != n {
		t.Errorf("%d locks are held while the execution waits, want %d", len(s.Locks()), n)
	}
	return x
}

// R38: a wait for a time ends without a caller, and the execution continues after the step.
func TestWait_TimeComes(t *testing.T) {
	for name, one := range map[string]struct {
		wait  string
		until time.Duration
	}{
		"for":   {"{for: 2h}", 2 * time.Hour},
		"until": {`{until: "${vars.opens}"}`, 0},
	} {
		s, id := waiting(t, `steps:
  - {label: first, set: {opens: "${parameters.opens}"}}
  - {label: before, functionBlock: p/again:1, runOn: device}
  - {label: pause, wait: `+one.wait+`}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {status: "${steps.pause.status}"}}
`, `{"opens":"2026-01-01T14:00:00+02:00"}`, nil)
		x := s.Load(id)
		if x.Wait == nil {
			t.Fatalf("%s: %s %+v", name, x.State, x.Error)
		}
		opens := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		if one.until == 0 {
			if one.until = opens.Sub(x.Wait.Since); one.until <= 0 {
				t.Fatalf("the clock begins at %s", x.Wait.Since)
			}
		}
		expectWait(t, s, id, workflow.WaitTimer, "pause", one.until)
		s.RunFor(x.Wait.Until.Sub(s.Now()) - time.Second)
		expectWait(t, s, id, workflow.WaitTimer, "pause", one.until)
		settle(s)
		x = s.ExpectState(id, sm.ExecutionCompletedAck)
		calls := callsWithParameters(s, id)
		if last := calls[len(calls)-1]; last != `after {"status":"COMPLETED"}` {
			t.Errorf("%s: %v", name, calls)
		}
		if late := x.EndedAt.Sub(x.StepRuns[len(x.StepRuns)-2].Wait.Until); late < 0 || late > 5*time.Second {
			t.Errorf("%s: the wait ended %s after its time", name, late)
		}
	}
}

// A past time is not waited for; an invalid time fails the step before it waits.
func TestWait_TimeThatHasPassed(t *testing.T) {
	definition := "steps:\n  - {label: pause, wait: {until: '${parameters.opens}'}}\n"
	s, id := waiting(t, definition, `{"opens":"2020-01-01T00:00:00Z"}`, nil)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if n := countEvents(s, id, "execution.paused"); n > 0 {
		t.Errorf("the execution has paused %d times", n)
	}
	for _, opens := range []string{`"tomorrow"`, `5`, `null`} {
		s, id := waiting(t, definition, `{"opens":`+opens+`}`, nil)
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error.Code != workflow.FailureParameters || !strings.Contains(x.Error.Message, "until: want a time") {
			t.Errorf("%s: %+v", opens, x.Error)
		}
	}
}

// A wait of a step in a list that a jump returns to waits again.
func TestWait_InACaseAndAgain(t *testing.T) {
	s, id := waiting(t, `steps:
  - {label: count, set: {n: "${has(vars.n) ? vars.n + 1 : 1}"}}
  - label: route
    switch:
      - when: vars.n < 3
        steps: [{label: pause, wait: {for: 10m}, next: count}]
      - {default: end}
`, "", nil)
	expectWait(t, s, id, workflow.WaitTimer, "pause", 10*time.Minute)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if n := countEvents(s, id, "execution.paused"); n != 2 || x.EndedAt.Sub(x.StartedAt) < 20*time.Minute {
		t.Errorf("paused %d times in %s", n, x.EndedAt.Sub(x.StartedAt))
	}
	for _, r := range x.StepRuns {
		if r.Open() {
			t.Errorf("step run %d of %s is open", r.Seq, r.Label)
		}
	}
}

// An operator ends a wait for a time, and no other wait.
func TestWait_ResumeEndsAWaitForATime(t *testing.T) {
	s, id := waiting(t, "steps:\n  - {label: pause, wait: {for: 9000h}}\n  - {label: after, functionBlock: p/pure:1, runOn: global}\n", "", nil)
	expectWait(t, s, id, workflow.WaitTimer, "pause", 9000*time.Hour)
	if _, err := s.Engine.Resume(t.Context(), harness.Caller, id, "go on"); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expectCalls(t, callsWithParameters(s, id), "after {}")

	s, id = waiting(t, "steps:\n  - {label: gate, wait: {when: 'entity(\"site\", \"b\").open == true'}}\n", "", nil)
	if _, err := s.Engine.Resume(t.Context(), harness.Caller, id, "go on"); !workflow.Is(err, workflow.CodeIllegalTransition) || !strings.Contains(err.Error(), "condition") {
		t.Errorf("a wait for a condition: %v", err)
	}
	expectWait(t, s, id, workflow.WaitCondition, "gate", workflow.MaxStepWait)
}

const gatedStep = `steps:
  - {label: site, set: {name: b}}
  - {label: before, functionBlock: p/again:1, runOn: device}
  - label: gate
    wait: {when: 'entity("site", vars.name).open == true && now > timestamp("2020-01-01T00:00:00Z")', deadline: 2h%s}
  - {label: after, functionBlock: p/pure:1, runOn: global, parameters: {status: "${steps.gate.status}"}}
  - {label: closed, functionBlock: p/pure:1, runOn: global, parameters: {code: "${steps.gate.status == 'CASE_HANDLED' ? error.code : ''}"}}
`

// A step waits for a condition over entities. The write that makes it true wakes it, without a
// timer.
func TestWait_ConditionBecomesTrue(t *testing.T) {
	s, id := waiting(t, strings.Replace(gatedStep, "%s", "", 1), "", nil)
	x := expectWait(t, s, id, workflow.WaitCondition, "gate", 2*time.Hour)
	if !strings.Contains(x.Wait.Condition, "entity(") {
		t.Errorf("the wait does not say for which condition: %+v", x.Wait)
	}
	putSite(t, s, "false")
	s.RunFor(10 * time.Minute)
	expectWait(t, s, id, workflow.WaitCondition, "gate", 2*time.Hour)
	putSite(t, s, "true")
	began := s.Now()
	settle(s)
	x = s.ExpectState(id, sm.ExecutionCompletedAck)
	if waited := x.EndedAt.Sub(began); waited >= time.Minute {
		t.Errorf("it took a timer to wake the execution: %s", waited)
	}
	calls := callsWithParameters(s, id)
	expectCalls(t, calls[3:], `after {"status":"COMPLETED"}`, `closed {"code":""}`)
}

// The condition counts before the deadline: whether it was met does not depend on when somebody
// looks.
func TestWait_ConditionIsSeenLate(t *testing.T) {
	s, id := waiting(t, strings.Replace(gatedStep, "%s", "", 1), "", nil)
	putSite(t, s, "false")
	s.Drain()
	s.Advance(3 * time.Hour) // nobody looks
	e := workflow.Entity{Type: "site", ID: "b", Attributes: []byte(`{"open":true}`)}
	if _, err := s.Open().Registry.PutEntities(t.Context(), harness.Caller.Tenant, []workflow.Entity{e}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// R52: at the deadline of a wait the step fails, the failure is handled by its onFailure, or the
// execution continues as onTimeout says.
func TestWait_Deadline(t *testing.T) {
	timeout := func(onTimeout string) (*harness.Harness, *workflow.Execution) {
		s, id := waiting(t, strings.Replace(gatedStep, "%s", onTimeout, 1), "", nil)
		putSite(t, s, "false")
		x := expectWait(t, s, id, workflow.WaitCondition, "gate", 2*time.Hour)
		s.RunFor(x.Wait.Until.Sub(s.Now()) - time.Second)
		expectWait(t, s, id, workflow.WaitCondition, "gate", 2*time.Hour)
		settle(s)
		return s, s.Load(id)
	}
	s, x := timeout("")
	if x.Cause != workflow.CauseTimeout || x.Error.Code != workflow.FailureTimeout || x.Error.Step != "gate" {
		t.Errorf("%s, cause %s, %+v", x.State, x.Cause, x.Error)
	}
	if countEvents(s, x.ID, "execution.expired") != 1 {
		t.Error("the history does not say that the wait has expired")
	}
	for _, onTimeout := range []string{
		", onTimeout: {next: closed}}\n    onFailure: [{when: 'false', next: after}]\n    #",
		"}\n    onFailure: [{when: error.code == \"TIMEOUT\", next: closed}]\n    #",
	} {
		s, x = timeout(onTimeout)
		if x.State != sm.ExecutionCompletedAck {
			t.Fatalf("%s: %s %+v", onTimeout, x.State, x.Error)
		}
		calls := callsWithParameters(s, x.ID)
		expectCalls(t, calls[3:], `closed {"code":"TIMEOUT"}`)
	}
	s, x = timeout(", onTimeout: {next: end}")
	if x.State != sm.ExecutionCompletedAck || len(callsWithParameters(s, x.ID)) != 3 {
		t.Errorf("%s, %v", x.State, callsWithParameters(s, x.ID))
	}
}

// The deadline of the execution comes before that of a wait.
func TestWait_DeadlineOfTheExecutionComesFirst(t *testing.T) {
	s, id := waiting(t, "config: {timeout: 1h}\nsteps:\n  - {label: gate, wait: {when: 'false', deadline: 1h, onTimeout: {next: end}}}\n", "", nil)
	s.Advance(2 * time.Hour)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cancellation == nil || x.Cancellation.Source != "timeout" || x.Cause != workflow.CauseTimeout {
		t.Errorf("%+v, cause %s", x.Cancellation, x.Cause)
	}
	if r := x.StepRuns[0]; r.Open() || r.Waiting() {
		t.Errorf("the step run is %s", r.Status)
	}
}

// R48: a cancel ends a wait at once, in a nested workflow too.
func TestWait_Cancel(t *testing.T) {
	s, id := waiting(t, `steps:
  - label: outer
    workflow:
      steps:
        - {label: before, functionBlock: p/again:1, runOn: device}
        - {label: gate, wait: {when: 'entity("site", "b").open == true', deadline: 1h}}
`, "", nil)
	expectWait(t, s, id, workflow.WaitCondition, "gate", time.Hour)
	if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{Reason: "wrong window"}); err != nil {
		t.Fatal(err)
	}
	settle(s)
	x := s.Load(id)
	for _, r := range x.StepRuns {
		if r.Open() || r.Wait != nil && r.Status != sm.StepCancelled {
			t.Errorf("step run of %s is %s", r.Label, r.Status)
		}
	}

}

// A wait costs one more commit, however long it is: the previous step ends with the pause, and the
// next begins with the end of the wait. On a table with an index that is 4 units: the write, and
// the moves to WAITING and back.
func TestCost_OfAWait(t *testing.T) {
	written := func(wait string) float64 {
		s := newHarness(t, 1)
		s.Publish("w", "steps:\n  - {label: a, functionBlock: p/pure:1, runOn: global}\n"+wait+"  - {label: b, functionBlock: p/pure:1, runOn: global}\n")
		before := s.Consumed().WriteUnits["executions"]
		id := s.StartWith(harness.NewStartRequest("w"))
		s.Drain()
		s.RunFor(200 * time.Hour)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		return s.Consumed().WriteUnits["executions"] - before
	}
	without := written("")
	for _, wait := range []string{"{for: 5s}", "{for: 40m}", "{for: 100h}"} {
		if cost := written("  - {label: pause, wait: "+wait+"}\n") - without; cost != 1 {
			t.Errorf("wait %s costs %v units", wait, cost)
		}
	}
}

// A condition over an entity that does not exist is evaluated again and again, and less often
// the longer it is not true. It is seen within ten minutes after the entity is created.
func TestWait_LongWaitForAConditionCostsLittle(t *testing.T) {
	s, id := waiting(t, "steps:\n  - {label: gate, wait: {when: 'entity(\"site\", \"b\").open == true'}}\n", "", nil)
	writes := func() float64 { return s.Consumed().WriteUnits["executions"] }
	before := writes()
	s.RunFor(10 * time.Hour)
	if n := writes() - before; n < 50 || n > 100 {
		t.Errorf("ten hours of waiting took %v writes", n)
	}
	expectWait(t, s, id, workflow.WaitCondition, "gate", workflow.MaxStepWait)
	putSite(t, s, "true")
	s.RunFor(11 * time.Minute)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}
