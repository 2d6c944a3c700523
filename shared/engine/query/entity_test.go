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
	if _, ok, err := s.Open().Store.Commit(ctx, x.Version, next, false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if e := list()[2]; e.ID != failed || e.Workflow != nil || e.State != nil || e.EntityOutcome != nil {
		t.Errorf("removed: %+v", e)
	}
	if _, err := s.Query.EntityExecutions(ctx, workflow.Caller{Tenant: "another"}, d001); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
}
