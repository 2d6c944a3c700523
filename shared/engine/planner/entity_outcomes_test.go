package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// everySecond returns n places beside which there is none.
func everySecond(first, n int) (places []int) {
	for i := range n {
		places = append(places, first+2*i)
	}
	return places
}

// Sets that do not fit into the state item are left out, SKIPPED first. Their entities are counted,
// also after a try that works on a few of the others.
func TestNewResult_LeavesOutWhatDoesNotFit(t *testing.T) {
	const many, few = 50_000, 3
	for name, c := range map[string]struct {
		skipped, failed int
		kept            []workflow.EntityOutcome
		tooLarge        bool
	}{
		"all fit":           {few, few, []workflow.EntityOutcome{workflow.EntitySkipped, workflow.EntityFailedUnsafe}, false},
		"too many skipped":  {many, few, []workflow.EntityOutcome{workflow.EntityFailedUnsafe}, false},
		"only skipped":      {many, 0, nil, false},
		"too many failed":   {few, many, nil, true},
		"too many of both":  {many, many, nil, true},
		"nobody of neither": {},
	} {
		places := map[workflow.EntityOutcome][]int{}
		if c.skipped > 0 {
			places[workflow.EntitySkipped] = everySecond(1, c.skipped)
		}
		failed := everySecond(2, c.failed)
		if c.failed > 0 {
			places[workflow.EntityFailedUnsafe] = failed
		}
		x := &workflow.Execution{}
		r, tooLarge := newResult(x, nil, places, nil)
		if (r == nil) != (c.skipped+c.failed == 0) || tooLarge != c.tooLarge {
			t.Errorf("%s: result %v, too large: %t", name, r != nil, tooLarge)
		}
		if r == nil {
			continue
		}
		if n := r.Count[workflow.EntitySkipped]; n != c.skipped || r.Count[workflow.EntityFailedUnsafe] != c.failed || r.LacksFailed() != c.tooLarge || len(r.Sets) != len(c.kept) {
			t.Errorf("%s: counts %v, %d sets", name, r.Count, len(r.Sets))
		}
		for _, outcome := range c.kept {
			if r.Lacks(outcome) {
				t.Errorf("%s: the set of %s is missing", name, outcome)
			}
		}
		if c.tooLarge || c.failed == 0 {
			continue
		}
		kept := workflow.NewPlaces(failed...)
		x.Result, x.Scope.Only = r, &kept
		again, _ := newResult(x, nil, map[workflow.EntityOutcome][]int{workflow.EntityFailedSafe: failed[:1]}, nil)
		if want := map[workflow.EntityOutcome]int{workflow.EntitySkipped: c.skipped, workflow.EntityFailedSafe: 1}; cmp.Diff(want, again.Count) != "" || again.Lacks(workflow.EntitySkipped) != r.Lacks(workflow.EntitySkipped) {
			t.Errorf("%s: after the next try %v", name, again.Count)
		}
		all := kept.With(workflow.NewPlaces(places[workflow.EntitySkipped]...)) // an operator has retried the skipped, too
		x.Scope.Only = &all
		if again, _ = newResult(x, nil, places, nil); cmp.Diff(r.Count, again.Count) != "" {
			t.Errorf("%s: after the same try %v", name, again.Count)
		}
	}
}
