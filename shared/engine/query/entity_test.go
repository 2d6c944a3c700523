package query_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const tolerant = "config: {failureTolerance: 3}\nsteps:\n  - {label: one, functionBlock: p/again:1, runOn: device}\n"

var d001 = workflow.EntityKey{Type: "device", ID: "d001"}

func refuse(devices ...string) func(harness.BlockCall) *harness.Outcome {
	return func(c harness.BlockCall) *harness.Outcome {
		for _, id := range devices {
			if c.Entity == id && c.Kind == workflow.JobExecute {
				return &harness.Outcome{FailCode: "REFUSED", FailMessage: "no power"}
			}
		}
		return nil
	}
}

// TestService_EntityExecutions: an entity has the executions that locked it, the newest first,
// with what became of the entity in each.
func TestService_EntityExecutions(t *testing.T) {
	s := newHarness(t, 3, tolerant)
	ctx := context.Background()
	list := func() []views.EntityExecutionView {
		t.Helper()
		return must[[]views.EntityExecutionView](s)(s.Query.EntityExecutions(ctx, harness.Caller, d001))
	}
	if got := list(); len(got) != 0 {
		t.Errorf("never locked: %+v", got)
	}
	s.Script = refuse("d001")
	failed := s.Start("w", "d000", "d001")
	s.RunUntilIdle(time.Hour)
	s.Script = nil
	s.Start("w", "d002") // does not touch it
	fine := s.Start("w", "d001", "d002")
	s.RunUntilIdle(time.Hour)
	open := s.Start("w", "d001")
	got := list()
	var ids []string
	for _, e := range got {
		ids = append(ids, e.ID)
	}
	if d := cmp.Diff([]string{open, fine, failed}, ids); d != "" {
		t.Fatal(d)
	}
	if e := got[0]; *e.State != sm.ExecutionRunning || e.Outcome != nil || e.EntityOutcome != nil || e.EndedAt != nil {
		t.Errorf("running: %+v", e)
	}
	if e := got[1]; *e.Outcome != workflow.OutcomeSucceeded || *e.EntityOutcome != workflow.EntitySucceeded || e.EndedAt == nil {
		t.Errorf("succeeded: %+v", e)
	}
	if e := got[2]; *e.Outcome != workflow.OutcomePartial || *e.EntityOutcome != workflow.EntityFailedSafe || e.Workflow.Name != "w" {
		t.Errorf("failed: %+v", e)
	}
	x := s.Load(failed)
	next := x.Clone()
	next.DiscardedAt, next.Version = s.Now(), x.Version+1
	if _, ok, err := s.Open().Store.Commit(ctx, x.Version, next, workflow.CommitOptions{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if e := list()[2]; e.ID != failed || e.Workflow != nil || e.State != nil || e.EntityOutcome != nil {
		t.Errorf("removed: %+v", e)
	}
	if _, err := s.Query.EntityExecutions(ctx, workflow.Caller{Tenant: "another"}, d001); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
}

// TestService_Failures: entities that did not succeed are listed, those of the newest execution
// first, with the reason, and with a later execution in which they succeeded.
func TestService_Failures(t *testing.T) {
	s := newHarness(t, 4, tolerant)
	ctx := context.Background()
	s.Publish("v", tolerant)
	list := func(limit int, f views.FailureFilter) (texts []string) {
		t.Helper()
		for _, e := range readPages(s, limit, func(p workflow.Page) (workflow.List[views.FailedEntityView], error) {
			return s.Query.Failures(ctx, harness.Caller, f, p)
		}) {
			texts = append(texts, e.Execution+" "+e.Entity+" "+string(e.Outcome))
		}
		return texts
	}
	s.Start("w", "d001") // succeeds, before it fails
	s.RunUntilIdle(time.Hour)
	s.Advance(time.Hour)
	s.Script = refuse("d001", "d002", "d003")
	first := s.Start("w", harness.DeviceIDs(4)...)
	s.RunUntilIdle(time.Hour)
	s.Script = refuse("d001")
	s.Advance(time.Hour)
	second := s.Start("v", "d001", "d002")
	s.RunUntilIdle(time.Hour)
	s.Start("w", "d000") // succeeds
	s.RunUntilIdle(time.Hour)

	want := []string{second + " device/d001 FAILED_SAFE", first + " device/d001 FAILED_SAFE", first + " device/d002 FAILED_SAFE", first + " device/d003 FAILED_SAFE"}
	for limit := 1; limit <= 5; limit++ {
		if d := cmp.Diff(want, list(limit, views.FailureFilter{})); d != "" {
			t.Errorf("pages of %d: %s", limit, d)
		}
	}
	l := must[workflow.List[views.FailedEntityView]](s)(s.Query.Failures(ctx, harness.Caller, views.FailureFilter{}, workflow.Page{}))
	if e := l.Items[0]; e.SucceededLater != nil || *e.Step != "one" || *e.Code != "REFUSED" || *e.Message != "no power" || e.Workflow.Name != "v" || e.EndedAt == nil {
		t.Errorf("the newest is %+v", e)
	}
	for i, later := range []string{"", "", second, ""} {
		if got := l.Items[i].SucceededLater; (got == nil) != (later == "") || got != nil && *got != later {
			t.Errorf("%s succeeded later in %v, want %q", l.Items[i].Entity, got, later)
		}
	}
	if d := cmp.Diff(want[1:], list(2, views.FailureFilter{Workflow: workflow.Ref{Package: "p", Name: "w"}})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want[:1], list(2, views.FailureFilter{Since: s.Load(second).EndedAt})); d != "" {
		t.Error(d)
	}
	entity := workflow.Entity{Type: "device", ID: "d003", Groups: []string{"edge"}}
	if _, err := s.Catalog.PutEntity(ctx, harness.Caller, entity); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want[3:], list(2, views.FailureFilter{Groups: []string{"edge", "none"}})); d != "" {
		t.Error(d)
	}
	other := must[workflow.List[views.FailedEntityView]](s)(s.Query.Failures(ctx, workflow.Caller{Tenant: "another"}, views.FailureFilter{}, workflow.Page{}))
	if len(other.Items) != 0 {
		t.Errorf("another tenant: %+v", other)
	}
}

// What an execution left out because it was locked is among the failures, page by page, with who held it.
func TestService_FailuresNameWhatWasLeftOut(t *testing.T) {
	s := newHarness(t, 4, tolerant)
	s.Publish("holds", "steps: [{label: wait, wait: {for: 2h}}, {label: one, functionBlock: p/again:1, runOn: device}]\n")
	s.Publish("skips", "config: {onLocked: skip, failureTolerance: 3}\nsteps: [{label: one, functionBlock: p/again:1, runOn: device}]\n")
	holder := s.Start("holds", "d001", "d002")
	s.Drain()
	s.Script = refuse("d003")
	some := s.Start("skips", harness.DeviceIDs(4)...)
	s.Drain()
	s.Script = nil
	all := s.Start("skips", "d000", "d002")
	s.RunUntilIdle(time.Hour)
	s.ExpectState(some, sm.ExecutionCompletedAck)
	s.ExpectState(all, sm.ExecutionCompletedAck)
	const skipped = " SKIPPED ENTITY_LOCKED left out, since execution "
	want := []string{
		all + " device/d002" + skipped + holder + " had locked it",
		some + " device/d003 FAILED_SAFE REFUSED no power",
		some + " device/d001" + skipped + holder + " had locked it",
		some + " device/d002" + skipped + holder + " had locked it",
	}
	for limit := 1; limit <= 5; limit++ {
		var got []string
		for _, e := range readPages(s, limit, func(p workflow.Page) (workflow.List[views.FailedEntityView], error) {
			return s.Query.Failures(t.Context(), harness.Caller, views.FailureFilter{}, p)
		}) {
			got = append(got, e.Execution+" "+e.Entity+" "+string(e.Outcome)+" "+*e.Code+" "+*e.Message)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("pages of %d: %s", limit, d)
		}
	}
}

// An entity whose turn never came is among the failures, also of an execution that handled what closed
// its step. One for which no step's condition was true is not.
func TestService_FailuresNameWhatNeverBegan(t *testing.T) {
	s := newHarness(t, 3, tolerant)
	s.Publish("timed", "config: {maxInFlight: 1}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: device, stepTimeout: 5s, onFailure: end}]\n")
	s.Publish("some", "steps: [{label: one, functionBlock: p/pure:1, runOn: device, condition: \"entity.id == 'd000'\"}]\n")
	some := s.Start("some", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	s.Script = func(harness.BlockCall) *harness.Outcome {
		s.Advance(4 * time.Second)
		return nil
	}
	timed := s.Start("timed", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	for _, id := range []string{some, timed} {
		if got := s.Load(id).Outcome(); got != workflow.OutcomeSucceeded {
			t.Fatalf("%s: %s", id, got)
		}
	}
	var got []string
	for _, e := range must[workflow.List[views.FailedEntityView]](s)(s.Query.Failures(t.Context(), harness.Caller, views.FailureFilter{}, workflow.Page{})).Items {
		got = append(got, e.Execution+" "+e.Entity+" "+string(e.Outcome))
	}
	if d := cmp.Diff([]string{timed + " device/d002 SKIPPED"}, got); d != "" {
		t.Error(d)
	}
}

// After an acknowledgement of some entities, the view still shows what remains of the others.
func TestService_TellsWhatRemainsAfterSomeWereAcknowledged(t *testing.T) {
	s := newHarness(t, 3, "steps:\n  - {label: one, functionBlock: p/forever:1, runOn: device}\n  - {label: two, functionBlock: p/pure:1, runOn: global}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	before := must[views.ExecutionView](s)(s.Query.Execution(t.Context(), harness.Caller, id))
	if _, err := s.Engine.Acknowledge(t.Context(), harness.Caller, id, "seen", d001); err != nil {
		t.Fatal(err)
	}
	after := must[views.ExecutionView](s)(s.Query.Execution(t.Context(), harness.Caller, id))
	if after.State != sm.ExecutionFailedUnsafe || *after.Kept != 2 || before.Remains == nil || after.Remains == nil || *after.Remains != *before.Remains {
		t.Errorf("%s keeps %d: %v, before %v", after.State, *after.Kept, after.Remains, before.Remains)
	}
}

// A rollback whose block has failed names the entities that are not undone.
func TestService_NamesWhatWasNotUndone(t *testing.T) {
	s := newHarness(t, 3, "steps:\n  - {label: one, functionBlock: p/again:1, runOn: device}\n  - {label: two, functionBlock: p/pure:1, runOn: device}\n")
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" || c.Kind == workflow.JobRollback && c.Entity == "d001" {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.RunUntilIdle(time.Hour)
	v := must[views.ExecutionView](s)(s.Query.Execution(t.Context(), harness.Caller, id))
	if f := v.FailedRollback; f == nil || f.Step != "one" || f.Execution != nil || len(f.Entities) != 1 || f.Entities[0] != "device/d001" {
		t.Errorf("%s: %+v", v.State, f)
	}
}
