package plan_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestForRollback_SkipsJobsNeverCalled: a job whose call was never made has failed
// without being executed. It needs no undo, unless an earlier attempt was executed.
func TestForRollback_SkipsJobsNeverCalled(t *testing.T) {
	fail := func(i int, unsent bool) workflow.JobRecord {
		return workflow.JobRecord{Index: i, Code: workflow.JobCodeFail, Failure: &workflow.Failure{Code: "HTTP_UNREACHABLE", Unsent: unsent}}
	}
	attempt := func(n int, jobs ...workflow.JobRecord) *workflow.Pack {
		return &workflow.Pack{Key: workflow.PackKey{Attempt: n}, State: workflow.PackFinished, Jobs: jobs}
	}
	latest := plan.LatestRecords([]*workflow.Pack{
		attempt(1, fail(0, true), fail(1, false), fail(2, true), workflow.JobRecord{Index: 3, Code: workflow.JobCodeOK}),
		attempt(2, fail(0, true), fail(1, true), fail(2, false)),
	})
	counts := plan.CountResults(4, latest, func(int) string { return "" })
	if counts.Failed != 3 || counts.Unsent != 1 || counts.OK != 1 || counts.Executed() != 3 || counts.Failure == nil {
		t.Errorf("counts %+v", counts)
	}
	executed := plan.JobPlan{}
	for i := range 4 {
		executed.Jobs = append(executed.Jobs, workflow.JobInput{Index: i, Parameters: []byte{byte('0' + i)}})
	}
	undo := plan.ForRollback(executed, []*workflow.Pack{attempt(1, fail(0, true), fail(1, false), fail(2, true)), attempt(2, fail(1, true), fail(2, false))}, nil)
	got := ""
	for _, j := range undo.Jobs {
		got += string(j.Parameters)
	}
	if got != "12" {
		t.Errorf("undoes %q, want the two jobs that may have been called", got)
	}
}
