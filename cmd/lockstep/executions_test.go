package main

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The numbers of entities by type are those of the last try. A status says so where the execution has had more, but
// not where some were left out.
func TestEntitiesTitle(t *testing.T) {
	for name, c := range map[string]struct {
		x    views.ExecutionView
		want string
	}{
		"no end":      {views.ExecutionView{Entities: map[string]int{"switch": 4}}, "entities"},
		"all":         {views.ExecutionView{Entities: map[string]int{"switch": 4, "site": 1}, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 5}}, "entities"},
		"some":        {views.ExecutionView{Entities: map[string]int{"switch": 1}, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 9, workflow.EntityFailedUnsafe: 1}}, "entities of its last try"},
		"some locked": {views.ExecutionView{Entities: map[string]int{"switch": 3}, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 3, workflow.EntitySkipped: 1}, Dropped: views.Dropped{Count: 1}}, "entities"},
	} {
		if got := entitiesTitle(c.x); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
