package chaos

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// validObservations are those of three correct executions: a completed, b failed and was
// rolled back, c completed.
func validObservations() observations {
	at := func(seq int, o simulator.Operation, from, to, fence, key string) simulator.LogEntry {
		return simulator.LogEntry{
			Seq: seq, Operation: o, From: from, To: to, Requested: to, Fence: fence, Token: simulator.FenceLockToken(fence), IdempotencyKey: key,
			Accepted: true, Applied: true, Effective: true, Outcome: simulator.OutcomeAnswered,
		}
	}
	job := func(id, step string, kind workflow.JobKind, token int64) workflow.Job {
		return workflow.Job{ID: id, Kind: kind, Step: step, Entity: &workflow.EntityKey{Type: "device", ID: "d"}, State: sm.JobCompleted, Token: &token}
	}
	execution := func(id string, state sm.ExecutionState, target, terminal string, jobs ...workflow.Job) observedExecution {
		return observedExecution{
			ExecutionView: views.ExecutionView{ID: id, State: state, Try: 1}, target: target, jobs: jobs,
			events: []workflow.Event{{Sequence: 1, Type: "execution.created"}, {Sequence: 2, Type: terminal}},
		}
	}
	e := observations{
		calls: []blockCall{{"touch", "EXECUTE", "a.1", "d"}, {"install", "EXECUTE", "a.2", "d"}, {"install", "EXECUTE", "a.2", "d"}},
		logs: map[string][]simulator.LogEntry{"d": {
			at(1, simulator.OpTouch, "1.0.0", "1.0.0", "0000000001-01", "a.1"), at(2, simulator.OpUpgrade, "1.0.0", "2.0.0", "0000000001-02", "a.2"),
			at(3, simulator.OpUpgrade, "2.0.0", "3.0.0", "0000000002-01", "b.1"), at(4, simulator.OpRollback, "3.0.0", "2.0.0", "0000000002-02", "b.2"),
			at(5, simulator.OpUpgrade, "2.0.0", "4.0.0", "0000000003-01", "c.1"),
		}},
		versions: map[string]string{"d": "4.0.0"},
		executions: []observedExecution{
			execution("a", sm.ExecutionCompletedAck, "2.0.0", "execution.completed", job("a.1", "touch", workflow.JobExecute, 1), job("a.2", "set", workflow.JobExecute, 1)),
			execution("b", sm.ExecutionFailedSafeAck, "3.0.0", "execution.failed_safe", job("b.1", "set", workflow.JobExecute, 2), job("b.2", "set", workflow.JobRollback, 2)),
			execution("c", sm.ExecutionCompletedAck, "4.0.0", "execution.completed", job("c.1", "set", workflow.JobExecute, 3)),
		},
	}
	e.executions[0].Workflow = workflow.Ref{Package: "chaos", Name: "once"}
	return e
}

// retriedForOthers makes the execution that was rolled back one that an operator has retried, and
// that has completed without the device: another one was unsafe.
func retriedForOthers(e *observations) {
	x := &e.executions[1]
	x.State, x.Try = sm.ExecutionCompletedAck, 2
	x.failed = map[string]workflow.EntityOutcome{"device/d": workflow.EntityFailedSafe}
	x.events = []workflow.Event{
		{Sequence: 1, Type: "execution.created"}, {Sequence: 2, Type: "execution.failed_unsafe"},
		{Sequence: 3, Type: "execution.retried"}, {Sequence: 4, Type: "execution.completed"},
	}
}

// A retry of the entities that an unsafe end has kept leaves the others as they are: what was
// undone stays undone.
func TestFindViolations_AllowsRetryOfSome(t *testing.T) {
	e := validObservations()
	retriedForOthers(&e)
	if found := findViolations(e); len(found) > 0 {
		t.Errorf("violations %q", found)
	}
}

// Valid observations have no violation, and each single fault is found.
func TestFindViolations_FindsEveryFault(t *testing.T) {
	if found := findViolations(validObservations()); len(found) > 0 {
		t.Fatalf("valid observations have the violations %q", found)
	}
	holder := "a"
	for name, c := range map[string]struct {
		change func(*observations)
		want   string
	}{
		"a block that is not idempotent ran twice": {func(e *observations) {
			again := e.logs["d"][0]
			again.Seq, again.Repeat, again.Fence = 6, true, "0000000001-03"
			e.logs["d"] = append(e.logs["d"][:2:2], again)
		}, "started_twice"},
		"a fence decreases":                    {func(e *observations) { e.logs["d"][1].Fence = "0000000001-00" }, "fence_decreased"},
		"two executions alternate on a device": {func(e *observations) { e.logs["d"][3].IdempotencyKey = "a.2" }, "had been followed by"},
		"change by an unknown job":             {func(e *observations) { e.logs["d"][2].IdempotencyKey = "x" }, "is unknown"},
		"change under another lock":            {func(e *observations) { e.logs["d"][4].Token = 9 }, "has token 9"},
		"change on another device":             {func(e *observations) { e.executions[2].jobs[0].Entity = &workflow.EntityKey{Type: "device", ID: "x"} }, "which belongs to"},
		"change by a cancelled job":            {func(e *observations) { e.executions[2].jobs[0].State = sm.JobCancelled }, "which is CANCELLED"},
		"completed job without a change":       {func(e *observations) { e.logs["d"] = e.logs["d"][:4] }, "has no record of it"},
		"rollback is missing":                  {func(e *observations) { e.logs["d"] = e.logs["d"][:3]; e.executions = e.executions[:2] }, "is FAILED_SAFE_ACK and left 3.0.0"},
		"final version is wrong":               {func(e *observations) { e.versions["d"] = "2.0.0" }, "runs 2.0.0, want one of [4.0.0]"},
		"version changed between executions":   {func(e *observations) { e.logs["d"][4].From = "7.0.0" }, "found 7.0.0"},
		"a job is not final":                   {func(e *observations) { e.executions[0].jobs[0].State = sm.JobClaimed }, "is CLAIMED"},
		"completed without a step":             {func(e *observations) { e.executions[2].jobs[0].State = sm.JobFailed }, "completed without"},
		"completed and rolled back":            {func(e *observations) { e.executions[1].State = sm.ExecutionCompletedAck }, "was rolled back on d"},
		"completed without an entity, and nobody retried": {func(e *observations) {
			retriedForOthers(e)
			e.executions[1].Try = 1
		}, "completed in try 1, and tells that device/d is FAILED_SAFE"},
		"completed with an unsafe entity": {func(e *observations) {
			retriedForOthers(e)
			e.executions[1].failed["device/d"] = workflow.EntityFailedUnsafe
		}, "tells that device/d is FAILED_UNSAFE"},
		"told as undone, and not rolled back": {func(e *observations) {
			retriedForOthers(e)
			e.logs["d"] = e.logs["d"][:3]
		}, "set was not rolled back"},
		"told as undone, and left with the new version": {func(e *observations) {
			retriedForOthers(e)
			e.logs["d"][3].To = "3.0.0"
		}, "left 3.0.0"},
		"a call of an unknown job":        {func(e *observations) { e.calls[0].job = "x" }, "job \"x\", which is unknown"},
		"a call for another device":       {func(e *observations) { e.calls[0].entity = "x" }, "was called for x by job a.1"},
		"a call to undo what is executed": {func(e *observations) { e.calls[1].operation = "ROLLBACK" }, "was called to ROLLBACK by job a.2"},
		"a call of another step":          {func(e *observations) { e.calls[0].job = "c.1" }, "was called for job c.1 of set"},
		"a call of a cancelled job":       {func(e *observations) { e.executions[0].jobs[1].State = sm.JobCancelled }, "install was called for job a.2, which is CANCELLED"},
		"a job that was never called":     {func(e *observations) { e.calls = e.calls[:1] }, "job a.2, EXECUTE of set on device/d, is COMPLETED and was never called"},
		"a failure that nobody answered": {func(e *observations) {
			e.calls, e.executions[0].jobs[1].State, e.executions[0].jobs[1].Error = e.calls[:1], sm.JobFailed, &workflow.Failure{Code: "DEVICE"}
		}, "is FAILED and was never called"},
		"a call that is not idempotent comes twice": {func(e *observations) { e.calls = append(e.calls, e.calls[0]) }, "was called twice for job a.1"},
		"a gap in the history":                      {func(e *observations) { e.executions[0].events[1].Sequence = 3 }, "event 3 is at position 2"},
		"two ends":                                  {func(e *observations) { e.executions[0].events[0].Type = "execution.cancelled" }, "2 terminal events"},
		"no terminal event":                         {func(e *observations) { e.executions[0].events = e.executions[0].events[:1] }, "0 terminal events"},
		"retried before the end":                    {func(e *observations) { e.executions[0].events[0].Type = "execution.retried" }, "retried after 0"},
		"an execution waits with a reason": {func(e *observations) {
			e.executions[0].State, e.executions[0].Waiting = sm.ExecutionScheduled, &views.Waiting{Kind: workflow.WaitLock}
		}, "still waits for LOCK"},
		"an execution waits without a reason": {func(e *observations) { e.executions[0].State = sm.ExecutionScheduled }, "waits without a reason"},
		"a lock is not released":              {func(e *observations) { e.locks = []views.LockView{{HeldBy: &holder}} }, "is still locked by a"},
		"rolled back to another version":      {func(e *observations) { e.logs["d"][3].To = "3.0.0" }, "left 3.0.0"},
		"unsafe, with a job reported as rolled back": {func(e *observations) {
			e.executions[1].State = sm.ExecutionFailedUnsafeAck
			e.logs["d"][3].To = "3.0.0"
		}, "left 3.0.0"},
		"unsafe, with a job reported as completed": {func(e *observations) { e.executions[2].State = sm.ExecutionFailedUnsafeAck; e.versions["d"] = "2.0.0" }, "runs 2.0.0"},
		"cancelled, reported as rolled back": {func(e *observations) {
			e.executions[2].State, e.executions[2].RolledBack = sm.ExecutionCancelledAck, true
		}, "left 4.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			e := validObservations()
			c.change(&e)
			found := findViolations(e)
			if !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("violations %q, want %q", found, c.want)
			}
		})
	}
}
