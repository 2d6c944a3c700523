package oracle

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// rule judges the steps of one kind. What is the same for all kinds is judged elsewhere: when steps
// are entered, and for whom.
type rule interface {
	// ended judges a step run that has ended, by its plan.
	ended(x *execution, r *workflow.StepRun, n int, p *plan)
}

// ruleFor returns the rule of a kind of step.
func ruleFor(b defgen.Body) rule {
	switch b.(type) {
	case *defgen.Block:
		return blockRule{}
	case *defgen.Nested:
		return nestedRule{}
	case *defgen.Reference:
		return referenceRule{}
	}
	panic("oracle: there is no rule for this kind of step")
}
