package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A compensating execution may still run, or may have completed, after the engine has given up on
// the rollback that waited for it. Another one would do the same once more.
func TestNoRollbackToRetry_WhereAnUndoWasGivenUp(t *testing.T) {
	x := &workflow.Execution{ID: "x", State: sm.ExecutionFailedUnsafe, Try: 1, Epoch: 1, Scope: workflow.Scope{HeldEpoch: 1}}
	undo := workflow.StepRun{Seq: 2, Try: 1, Label: "hotel", Kind: workflow.JobRollback, Undoes: 1, Status: sm.StepFailed, Child: &workflow.Child{ID: "u"}, Counts: workflow.Counts{Failed: 1}}
	x.StepRuns = []workflow.StepRun{{Seq: 1, Try: 1, Label: "hotel", Reversible: true, Status: sm.StepCompleted, Child: &workflow.Child{ID: "h"}, Counts: workflow.Counts{OK: 1}}, undo}
	if why := lifecycle.NoRollbackToRetry(x); why != "" {
		t.Errorf("one that has ended: %s", why)
	}
	x.StepRuns[1].Status, x.StepRuns[1].Counts = sm.StepCancelled, workflow.Counts{}
	if why := lifecycle.NoRollbackToRetry(x); !strings.Contains(why, "whether execution u has undone") {
		t.Errorf("one that was given up: %q", why)
	}
}
