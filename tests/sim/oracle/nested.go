package oracle

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// nestedRule judges steps that contain others.
type nestedRule struct{}

func (nestedRule) ended(x *execution, r *workflow.StepRun, _ int, p *plan) { checkEntered(x, r, p) }

// checkEntered requires that a step without jobs of its own was entered, skipped, or failed at
// once, as its condition and its parameters say.
func checkEntered(x *execution, r *workflow.StepRun, p *plan) {
	switch skipped := r.Status == sm.StepSkipped; {
	case p.problem != "" && r.Status != sm.StepFailed:
		x.Failf(lawTakesPart, "%s: step %s has ended %s, but it has to fail: %s", x.x.ID, r.Label, r.Status, p.problem)
	case p.problem == "" && skipped != (len(p.jobs) == 0):
		x.Failf(lawTakesPart, "%s: step %s has ended %s, but whether it is skipped has to be %v", x.x.ID, r.Label, r.Status, len(p.jobs) == 0)
	}
}
