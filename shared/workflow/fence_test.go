package workflow_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Devices compare fences as texts: a later step run has the greater one, up to the last.
func TestFence_GrowsWithEveryStepRun(t *testing.T) {
	previous := workflow.Fence(7, 1, 99, 99)
	for _, seq := range []int{2, 9, 10, 9_999, 10_000, 99_999, 100_000, workflow.MaxStepRunSeq} {
		next := workflow.Fence(7, seq, 1, 1)
		if next <= previous {
			t.Errorf("the fence %s of step run %d is not above %s", next, seq, previous)
		}
		previous = workflow.Fence(7, seq, 99, 99)
	}
	if next := workflow.Fence(8, 1, 1, 1); next <= previous {
		t.Errorf("the fence %s of the next holder is not above %s", next, previous)
	}
}
