package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// values are the values of a test's devices: steps named read return the value, steps named change
// write it, and undo that with what had been read.
func values(s *harness.Harness, fails *string) map[string]string {
	has := map[string]string{}
	for _, id := range harness.DeviceIDs(3) {
		has[id] = "first"
	}
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		var p struct{ To, Was string }
		if len(c.Parameters) > 0 {
			if err := json.Unmarshal(c.Parameters, &p); err != nil {
				s.Fatal(err)
			}
		}
		switch {
		case c.Kind == workflow.JobExecute && c.Step == *fails:
			return &harness.Outcome{FailCode: "REFUSED"}
		case c.Step == "read":
			return &harness.Outcome{Result: json.RawMessage(fmt.Sprintf(`{"value":%q}`, has[c.Entity]))}
		case c.Step == "change" && c.Kind == workflow.JobRollback:
			has[c.Entity] = p.Was
		case c.Step == "change":
			has[c.Entity] = p.To
		}
		return nil
	}
	return has
}

const (
	readChangeCheck = "steps: [{label: read, functionBlock: p/pure:1, runOn: device}, {label: change, functionBlock: p/again:1, runOn: device, parameters: {to: mine, was: '${read.result.value}'}}, {label: check, functionBlock: p/pure:1, runOn: device}]\n"
	changeOnly      = "steps: [{label: change, functionBlock: p/again:1, runOn: device, parameters: {to: other}}]\n"
)

// An execution has failed, was undone, and has released its device, which another execution has
// changed since. If a retry that continues with what was read before failed again, it would set the
// device back to that.
func TestRetry_UndoesNothingOfOthers(t *testing.T) {
	s := newHarness(t, 3)
	fails := "check"
	has := values(s, &fails)
	s.Publish("w", readChangeCheck)
	s.Publish("other", changeOnly)
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	other := s.Start("other", "d000")
	settle(s)
	s.ExpectState(other, sm.ExecutionCompletedAck)
	if err := retryError(s, id, views.RetryRequest{}); err == nil {
		t.Error("the retry was accepted")
	}
	settle(s)
	if has["d000"] != "other" {
		t.Errorf("the device has %q, which it had before another execution changed it", has["d000"])
	}
}

// expectOutdated requires that a retry is refused for what it would keep for d000, which another
// execution has held, and that nothing has changed.
func expectOutdated(s *harness.Harness, id string, req views.RetryRequest, by string) {
	s.Helper()
	before := s.Load(id)
	err := retryError(s, id, req)
	var coded *workflow.Error
	if !errors.As(err, &coded) || coded.Code != workflow.CodeConflict || len(coded.Issues) != 1 || coded.Issues[0].Code != lifecycle.IssueOutdated ||
		!strings.Contains(coded.Issues[0].Message, "device/d000") || !strings.Contains(err.Error(), by) {
		s.Fatalf("the retry: %v", err)
	}
	if x := s.Load(id); x.Version != before.Version {
		s.Error("the refused retry has changed the execution")
	}
}

// A retry that repeats everything for the entity, and has nothing to undo, may continue. So may a
// forced one, which is in the history. Nothing is outdated if nobody has changed anything: another
// execution has only read, has shared the lock, or had another entity.
func TestRetry_GoesOnWhereNothingIsOutdated(t *testing.T) {
	for name, test := range map[string]struct {
		other   string // the workflow that another execution has executed
		on      string
		request views.RetryRequest
		refused bool
		want    string // the calls of the retry
	}{
		"another one has changed it":       {"other", "d000", views.RetryRequest{}, true, ""},
		"from a later step":                {"other", "d000", views.RetryRequest{From: "change"}, true, ""},
		"the step that reads, for some":    {"other", "d000", views.RetryRequest{From: "read", Entities: views.RetryFailed}, true, ""},
		"everything again":                 {"other", "d000", views.RetryRequest{From: "read", Entities: views.RetryAll}, false, "read change check"},
		"forced":                           {"other", "d000", views.RetryRequest{Force: true, Reason: "seen"}, false, "change check"},
		"another device":                   {"other", "d001", views.RetryRequest{}, false, "change check"},
		"it has only looked":               {"look", "d000", views.RetryRequest{}, false, "change check"},
		"it shared the lock":               {"share", "d000", views.RetryRequest{}, false, "change check"},
		"its updates are in the inventory": {"update", "d000", views.RetryRequest{}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 3)
			fails := "check"
			has := values(s, &fails)
			plain := s.Script
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "found" {
					return &harness.Outcome{SetAttributes: map[string]any{"n": 1}}
				}
				return plain(c)
			}
			s.Publish("w", readChangeCheck)
			s.Publish("other", changeOnly)
			s.Publish("look", stepsYAML("look pure device"))
			s.Publish("share", sharedLockMode+stepsYAML("look pure device"))
			s.Publish("update", stepsYAML("found pure device"))
			id := s.Start("w", "d000")
			settle(s)
			s.ExpectState(id, sm.ExecutionFailedSafeAck)
			other := s.Start(test.other, test.on)
			settle(s)
			s.ExpectState(other, sm.ExecutionCompletedAck)
			if test.refused {
				expectOutdated(s, id, test.request, other)
				return
			}
			fails, s.BlockCalls = "", nil
			retry(s, id, test.request)
			settle(s)
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			var calls []string
			for _, c := range s.BlockCalls {
				calls = append(calls, c.Step)
			}
			if got := strings.Join(calls, " "); got != test.want || has["d000"] != "mine" {
				t.Errorf("called %s, and the device has %q", got, has["d000"])
			}
			forced := slices.ContainsFunc(x.Events, func(e workflow.Event) bool {
				return e.Type == string(sm.EventExecutionRetried) && e.Actor == harness.Caller.Actor && strings.Contains(string(e.Data), `"force":true`) && strings.Contains(string(e.Data), `"reason":"seen"`)
			})
			if forced != test.request.Force {
				t.Errorf("the history says forced: %v", forced)
			}
		})
	}
}

// Others change an entity after the request, before the try has its locks. It ends as it began, and
// executes nothing. The next retry is refused at once, and continues if it is forced.
func TestRetry_SeesUnderItsLocksWhatIsOutdated(t *testing.T) {
	for _, shared := range []bool{false, true} {
		s := newHarness(t, 3)
		fails := "check"
		has := values(s, &fails)
		steps := readChangeCheck
		if shared {
			steps = sharedLockMode + stepsYAML("read pure device", "check pure device")
		}
		s.Publish("w", steps)
		s.Publish("slow", "steps: [{label: ask, wait: {signal: {name: go, deadline: 2h}}}, {label: change, functionBlock: p/again:1, runOn: device, parameters: {to: other}}]\n")
		id := s.Start("w", "d000", "d001")
		settle(s)
		s.ExpectState(id, sm.ExecutionFailedSafeAck)
		slow := s.Start("slow", "d000")
		s.Drain()
		s.ExpectState(slow, sm.ExecutionWaiting)
		retry(s, id, views.RetryRequest{})
		s.Drain()
		s.ExpectState(id, sm.ExecutionScheduled)
		s.BlockCalls = nil
		s.WithoutFaults(func() {
			if _, err := s.Engine.Signal(s.Context(), harness.Caller, slow, "go", nil, "", ""); err != nil {
				t.Fatal(err)
			}
		})
		settle(s)
		s.ExpectState(slow, sm.ExecutionCompletedAck)
		x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
		if x.Cause != workflow.CauseOutdated || x.Error == nil || x.Error.Code != workflow.FailureOutdated || x.Error.Entity != "device/d000" || !strings.Contains(x.Error.Message, slow) {
			t.Errorf("it ended with %s: %+v", x.Cause, x.Error)
		}
		for _, c := range s.BlockCalls {
			if c.Execution == id {
				t.Errorf("it has executed %s", c.Step)
			}
		}
		expectOutdated(s, id, views.RetryRequest{}, slow)
		fails = ""
		retry(s, id, views.RetryRequest{Force: true})
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		if !shared && has["d000"] != "mine" {
			t.Errorf("the device has %q", has["d000"])
		}
	}
}

// A later try that fails would also undo what an earlier try has done that was not undone, even if
// it executes all steps again.
func TestRetry_WouldUndoWhatIsOutdated(t *testing.T) {
	s := newHarness(t, 3)
	fails := "check"
	values(s, &fails)
	s.Publish("w", "config: {rollback: never}\n"+readChangeCheck)
	s.Publish("other", changeOnly)
	id := s.Start("w", "d000", "d001")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	acknowledge(s, id)
	other := s.Start("other", "d000")
	settle(s)
	expectOutdated(s, id, views.RetryRequest{From: "read", Entities: views.RetryAll}, other)
}

// An entity for which the execution keeps nothing may have had any holders: a retry of the failed
// entities continues with what it has for the others.
func TestRetry_OutdatedAreOnlyResultsThatAreKept(t *testing.T) {
	s := newHarness(t, 2)
	mended := false
	s.Script = failUntil("one", "d001", &mended)
	s.Publish("w", stepsYAML("one pure device", "two pure device"))
	s.Publish("other", changeOnly)
	id := s.Start("w", "d000", "d001")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	s.Start("other", "d001")
	settle(s)
	mended = true
	if got := strings.Join(retryToEnd(s, id, views.RetryRequest{}), "|"); got != "one EXECUTE d001|two EXECUTE d000|two EXECUTE d001" {
		t.Errorf("executed %s", got)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// An acknowledged try has left something behind, and another execution has changed the entity
// before the retry has its locks: it ends unsafely, and somebody has to look again. The locks stay
// released meanwhile.
func TestRetry_OutdatedWithChangesThatRemainNeedsAPerson(t *testing.T) {
	s := newHarness(t, 2)
	mended := false
	s.Script = failUntil("two", "d000", &mended)
	s.Publish("w", stepsYAML("one forever device", "two pure device"))
	s.Publish("slow", "steps: [{label: ask, wait: {signal: {name: go, deadline: 2h}}}, {label: change, functionBlock: p/again:1, runOn: device}]\n")
	s.Publish("other", changeOnly)
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	acknowledge(s, id)
	slow := s.Start("slow", "d000")
	s.Drain()
	retry(s, id, views.RetryRequest{})
	s.Drain()
	waiting := s.Start("other", "d000")
	s.WithoutFaults(func() {
		if _, err := s.Engine.Signal(s.Context(), harness.Caller, slow, "go", nil, "", ""); err != nil {
			t.Fatal(err)
		}
	})
	s.RunFor(10 * time.Minute)
	if x := s.ExpectState(id, sm.ExecutionFailedUnsafe); x.Cause != workflow.CauseOutdated {
		t.Errorf("it ended with %s: %+v", x.Cause, x.Error)
	}
	settle(s)
	s.ExpectState(waiting, sm.ExecutionCompletedAck)
	acknowledge(s, id)
	expectOutdated(s, id, views.RetryRequest{}, slow)
	mended = true
	retry(s, id, views.RetryRequest{Force: true})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// After a restore nobody knows who has held an entity since.
func TestRetry_AfterARestoreResultsMayBeOutdated(t *testing.T) {
	s := newHarness(t, 1)
	fails := "check"
	values(s, &fails)
	s.Publish("w", readChangeCheck)
	id := s.Start("w", "d000")
	settle(s)
	s.Engine.Policy.MinFencingToken = 1_800_000_000
	expectOutdated(s, id, views.RetryRequest{}, "not known any more")
	fails = ""
	retry(s, id, views.RetryRequest{From: "read", Entities: views.RetryAll})
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}
