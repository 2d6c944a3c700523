package planner

import (
	"slices"
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

// Undoing the work on single entities takes room in the state item. A set that would need more than
// 24 KiB is not undone.
func TestNewUndo_IsBounded(t *testing.T) {
	x := &workflow.Execution{StepRuns: []workflow.StepRun{{Seq: 1}, {Seq: 2}, {Seq: 3}}}
	everyOther := func(last int) (places []int) {
		for p := 1; p <= last; p += 2 {
			places = append(places, p)
		}
		return places
	}
	for last, undone := range map[int]bool{9: true, 147_001: true, 147_601: false} {
		entities := workflow.NewPlaces(everyOther(last)...)
		undo := newUndo(x, entities, map[int]bool{1: true, 3: true})
		if (undo != nil) != undone || undone && (!undo.Entities.Equal(entities) || !slices.Equal(undo.StepRuns, []int{3, 1})) {
			t.Errorf("every other one of %d entities, %d bytes: undone %t", last, len(entities.String()), undo != nil)
		}
	}
	if undo := newUndo(x, workflow.NewPlaces(1), nil); undo != nil {
		t.Errorf("nothing was executed, and to be undone is %+v", undo)
	}
}
