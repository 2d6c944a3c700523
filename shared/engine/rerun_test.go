package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const rerunnable = "config: {failureTolerance: 2}\nparameters: {type: object, properties: {target: {type: string}}}\nsteps:\n  - {label: b, functionBlock: p/again:1, runOn: device}\n"

func chosen(c views.RerunChoice) views.RerunRequest {
	return views.RerunRequest{Entities: views.RerunEntities{Choice: c}}
}

func rerun(s *harness.Harness, of string, req views.RerunRequest) (string, error) {
	x, _, err := s.Engine.Rerun(context.Background(), harness.Caller, of, req)
	if err != nil {
		return "", err
	}
	return x.ID, nil
}

// wantRefused checks the code of a refusal, and that it says what is wrong.
func wantRefused(t *testing.T, err error, code workflow.Code, text string) {
	t.Helper()
	var e *workflow.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Error(), text) {
		t.Errorf("answered %v, want %s with %q", err, code, text)
	}
}

// TestRerun_RepeatsFailedEntities: a rerun starts the same version with the same parameters
// and labels over the devices that failed, and each of the two executions names the other.
func TestRerun_RepeatsFailedEntities(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", rerunnable)
	var mended bool
	s.Script = failUntil("b", "d001", &mended)
	of := s.StartWith(views.StartRequest{Workflow: "p/w", Parameters: json.RawMessage(`{"target":"2"}`), Labels: map[string]string{"change": "7"}, Metadata: json.RawMessage(`{"ticket":"CHG-7"}`),
		ExecuteOnParameters: &workflow.Selector{IDs: harness.DeviceIDs(4)}})
	_, err := rerun(s, of, chosen(views.RerunAll))
	wantRefused(t, err, workflow.CodeIllegalTransition, "has not ended")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(of, sm.ExecutionCompletedAck)
	mended = true

	_, err = rerun(s, of, chosen(views.RerunUnsafe))
	wantRefused(t, err, workflow.CodeInvalid, "has no unsafe entities; it has: 3 SUCCEEDED, 1 FAILED_SAFE")
	_, err = rerun(s, of, views.RerunRequest{Entities: views.RerunEntities{Keys: devices("d001", "d009")}})
	wantRefused(t, err, workflow.CodeInvalid, "device/d009 is not an entity of execution")

	req := chosen(views.RerunFailed)
	req.Reason = "power is back"
	id, err := rerun(s, of, req)
	if err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.RerunOf != of || x.Outcome() != workflow.OutcomeSucceeded || x.Labels["change"] != "7" || string(x.Input.Parameters) != `{"target":"2"}` || string(x.Input.Metadata) != `{"ticket":"CHG-7"}` || !slices.Equal(x.Input.Selector.IDs, []string{"d001"}) || x.Reason != "" {
		t.Errorf("repeated as %+v, input %s %+v", x, x.Input.Parameters, x.Input.Selector)
	}
	if data := string(s.History(id)[0].Data); !strings.Contains(data, of) || !strings.Contains(data, "power is back") {
		t.Errorf("created with %s", data)
	}
	old := s.ExpectState(of, sm.ExecutionCompletedAck)
	if !slices.Equal(old.RerunBy, []string{id}) {
		t.Errorf("the ended one names %v", old.RerunBy)
	}

	two, err := rerun(s, of, views.RerunRequest{Entities: views.RerunEntities{Keys: devices("d003", "d000")}, Parameters: json.RawMessage(`{"target":"3"}`)})
	if err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	if y := s.ExpectState(two, sm.ExecutionCompletedAck); !slices.Equal(y.Input.Selector.IDs, []string{"d000", "d003"}) || string(y.Input.Parameters) != `{"target":"3"}` {
		t.Errorf("named ones: %+v", y.Input)
	}
	_, err = rerun(s, of, views.RerunRequest{Entities: views.RerunEntities{Choice: views.RerunFailed}, Parameters: json.RawMessage(`{"target":3}`)})
	wantRefused(t, err, workflow.CodeInvalid, "target")
	if _, _, err := s.Engine.Rerun(context.Background(), workflow.Caller{Tenant: "another"}, of, chosen(views.RerunAll)); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	s.CheckInvariants()
}

// TestRerun_IsStartedOnceForItsKey: a key starts one execution, and repeating the request
// makes up for a record that a crash has left out.
func TestRerun_IsStartedOnceForItsKey(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", rerunnable)
	s.Script = failFor("b", "d001")
	of := s.Start("w", harness.DeviceIDs(2)...)
	s.RunUntilIdle(time.Hour)
	req := chosen(views.RerunFailed)
	req.IdempotencyKey = "once"
	id, err := rerun(s, of, req)
	if err != nil {
		t.Fatal(err)
	}
	// As if the process had died before it recorded the rerun.
	old := s.Load(of)
	next := old.Clone()
	next.RerunBy, next.Version = nil, old.Version+1
	if _, ok, err := s.Open().Store.Commit(context.Background(), old.Version, next, workflow.CommitOptions{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for range 2 {
		again, err := rerun(s, of, req)
		if err != nil || again != id {
			t.Errorf("repeated: %s, %v; want %s", again, err, id)
		}
		if by := s.Load(of).RerunBy; !slices.Equal(by, []string{id}) {
			t.Errorf("the ended one names %v", by)
		}
	}
	version := s.Load(of).Version
	if version != next.Version+1 {
		t.Errorf("repeating the request wrote %d times", version-next.Version)
	}
	req.Reason = "another"
	_, err = rerun(s, of, req)
	wantRefused(t, err, workflow.CodeIdempotencyMismatch, "")

	var all []string
	for range workflow.MaxReruns + 2 {
		s.Advance(time.Second)
		by, err := rerun(s, of, chosen(views.RerunFailed))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, by)
	}
	if by := s.Load(of).RerunBy; !slices.Equal(by, all[2:]) {
		t.Errorf("the ended one names %v, want the last ten of %v", by, all)
	}
}

// TestRerun_OfUnsafeEntitiesWaitsForTheirLocks: the ended execution keeps them until they are
// acknowledged.
func TestRerun_OfUnsafeEntitiesWaitsForTheirLocks(t *testing.T) {
	s, of, mended := newUnsafe(t)
	*mended = true
	id, err := rerun(s, of, chosen(views.RerunUnsafe))
	if err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if x := s.ExpectState(id, sm.ExecutionScheduled); len(x.Input.Selector.IDs) != 3 {
		t.Errorf("selected %v", x.Input.Selector)
	}
	acknowledge(s, of)
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
	s.ExpectState(of, sm.ExecutionFailedUnsafeAck)
}

// TestRerun_OfAcquiredEntities: a selector has one type, so entities of other types cannot be
// repeated on their own; all of an execution that acquires everything can.
func TestRerun_OfAcquiredEntities(t *testing.T) {
	s := newHarness(t, 2)
	if _, err := s.Open().Registry.PutEntities(context.Background(), harness.Caller.Tenant, []workflow.Entity{{Type: "link", ID: "l1"}}); err != nil {
		t.Fatal(err)
	}
	s.Publish("w", "config: {failureTolerance: 1}\nacquire: [{type: link, ids: [l1]}]\nsteps:\n  - {label: b, functionBlock: p/pure:1, runOn: link}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "l1" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	of := s.Start("w", "d000")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(of, sm.ExecutionCompletedAck)
	_, err := rerun(s, of, chosen(views.RerunFailed))
	wantRefused(t, err, workflow.CodeInvalid, "can only be started for entities of type device, and acquires link/l1 itself: rerun all, or name")
	id, err := rerun(s, of, chosen(views.RerunAll))
	if err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Scope.Total() != 2 {
		t.Errorf("repeated over %v", x.Scope.Counts)
	}
}

// TestRerun_OfArchivedVersionIsRefused: an archived version allows no new executions.
func TestRerun_OfArchivedVersionIsRefused(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", rerunnable)
	of := s.Start("w", "d000")
	s.RunUntilIdle(time.Hour)
	ref := s.Load(of).Workflow
	if err := s.Catalog.Archive(context.Background(), harness.Caller, ref); err != nil {
		t.Fatal(err)
	}
	_, err := rerun(s, of, chosen(views.RerunAll))
	wantRefused(t, err, workflow.CodeConflict, "is archived or a draft, and allows no new executions")
}

// TestRerun_OfManyEntities: ten thousand ids are stored apart from the state item.
func TestRerun_OfManyEntities(t *testing.T) {
	const n = 10_000
	s := newHarness(t, n)
	s.Publish("w", "steps:\n  - {label: b, functionBlock: p/pure:1, runOn: global}\n")
	of := s.StartWith(views.StartRequest{Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Query: "true"}})
	s.RunUntilIdle(time.Hour)
	id, err := rerun(s, of, chosen(views.RerunAll))
	if err != nil {
		t.Fatal(err)
	}
	if x := s.Load(id); !x.Input.Offloaded {
		t.Error("the ids are in the state item")
	}
	s.RunUntilIdle(time.Hour)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Scope.Total() != n || x.Outcome() != workflow.OutcomeSucceeded {
		t.Errorf("repeated over %v: %s", x.Scope.Counts, x.Outcome())
	}
}

// What has failed in an execution that a step has started is run again by running that one again.
func TestRerun_OfAnExecutionWithChildrenNamesThem(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("child", "steps: [{label: one, functionBlock: p/pure:1, runOn: device}]\n")
	s.Publish("w", "steps: [{label: call, continueOnError: true, workflowReference: {workflow: p/child:1, mode: dispatch}}]\n")
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
	id := s.Start("w", "d000")
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	_, err := rerun(s, id, chosen(views.RerunFailed))
	wantRefused(t, err, workflow.CodeInvalid, "what its steps have started are executions of their own")
}
