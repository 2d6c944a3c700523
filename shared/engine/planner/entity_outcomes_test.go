package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The result of a try has the entities that it did not work on as the last one has left them, and
// counts each entity once.
func TestNewResult_KeepsOutcomesOfEarlierTries(t *testing.T) {
	x := &workflow.Execution{}
	if r := newResult(x, nil, nil, nil); r != nil {
		t.Errorf("without failures: %+v", r)
	}
	first := newResult(x, nil, map[workflow.EntityOutcome][]int{workflow.EntitySkipped: {1, 3, 5}, workflow.EntityFailedUnsafe: {2, 4, 6}}, nil)
	only := workflow.NewPlaces(2, 4, 5)
	x.Result, x.Scope.Only = first, &only
	again := newResult(x, nil, map[workflow.EntityOutcome][]int{workflow.EntityFailedSafe: {4}, workflow.EntitySkipped: {5}}, nil)
	want := map[workflow.EntityOutcome]int{workflow.EntitySkipped: 3, workflow.EntityFailedSafe: 1, workflow.EntityFailedUnsafe: 1}
	if diff := cmp.Diff(want, again.Count); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for place, want := range map[int]workflow.EntityOutcome{1: workflow.EntitySkipped, 2: workflow.EntitySucceeded, 4: workflow.EntityFailedSafe, 5: workflow.EntitySkipped, 6: workflow.EntityFailedUnsafe} {
		if got := again.Sets.Of(place); got != want {
			t.Errorf("place %d is %s, want %s", place, got, want)
		}
	}
}
