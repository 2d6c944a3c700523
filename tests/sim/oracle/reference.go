package oracle

import "github.com/lockstep-run/lockstep/shared/workflow"

// referenceRule judges steps that reference another definition. What a child is started with is
// compared when it is created, see startedByParent.
type referenceRule struct{}

func (referenceRule) ended(x *execution, r *workflow.StepRun, _ int, p *plan) { checkEntered(x, r, p) }
