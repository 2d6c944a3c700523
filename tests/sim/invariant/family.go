package invariant

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const invChildrenOver = "nothing of a child happens after the end of the step run that waits for it"

// checkFamily compares an execution that was written with its parent, and with its children.
func (w *Checker) checkFamily(x *workflow.Execution) {
	compare := func(parent, child string) {
		p, c := w.executions[parent], w.executions[child]
		if p == nil || c == nil || p.predatesRestore || c.predatesRestore {
			return
		}
		if !p.x.DiscardedAt.IsZero() {
			return // no parent is left that could forbid it to continue
		}
		if problem := harness.FamilyProblem(p.x, c.x); problem != "" {
			w.Failf(invChildrenOver, "%s", problem)
		}
	}
	if x.Awaited() {
		compare(x.Parent.Execution, x.ID)
	}
	for id, child := range w.executions {
		if child.x.Parent != nil && child.x.Parent.Execution == x.ID {
			compare(x.ID, id)
		}
	}
}
