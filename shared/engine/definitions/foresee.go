package definitions

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Foreseen are the expressions of one node as far as they can be evaluated before the
// execution exists. A part that reads results or the status of steps is taken for true, or
// for valid, and named in Unknown.
type Foreseen struct {
	*Expressions
	Unknown []string // of "condition", "assert" and "parameters"

	condition, parameters bool  // can be told
	assertions            []int // positions of those that cannot be told
}

var _ plan.Expressions = (*Foreseen)(nil)

// Foresee binds a node's expressions to what is known before the execution exists: root,
// which are its parameters, and the entities as they are now. All evaluations together may
// cost up to maxCost and end with ctx.
func (p *Program) Foresee(ctx context.Context, node int, blocks map[string]workflow.Block, root json.RawMessage, x *workflow.Execution, maxCost uint64) *Foreseen {
	n := &p.Nodes[node]
	parameters, known := p.foreseeParameters(n.Origin, root)
	refs := p.Definitions[n.Origin].compiled.PartReferences(n.LocalIndex)
	told := func(r expr.References) bool {
		return len(r.Labels) == 0 && len(r.Steps) == 0 && !r.AllSteps && (known || !r.Parameters)
	}
	f := &Foreseen{
		Expressions: p.Bind(node, blocks, Bindings{Parameters: parameters}, x).ForPlan(ctx, maxCost),
		condition:   told(refs.Condition), parameters: told(refs.Parameters),
	}
	for i, r := range refs.Assertions {
		if !told(r) {
			f.assertions = append(f.assertions, i)
		}
	}
	for _, part := range []struct {
		name string
		told bool
	}{{"condition", f.condition}, {"assert", len(f.assertions) == 0}, {"parameters", f.parameters}} {
		if !part.told {
			f.Unknown = append(f.Unknown, part.name)
		}
	}
	return f
}

// foreseeParameters are the parameters of one of the program's definitions. They are not
// known if a step that embeds it computes them from results, or cannot compute them.
func (p *Program) foreseeParameters(origin int, root json.RawMessage) (json.RawMessage, bool) {
	for at := p.Origins[origin].NodeIndex; at >= 0; at = p.Origins[p.Nodes[at].Origin].NodeIndex {
		n := &p.Nodes[at]
		r := p.Definitions[n.Origin].compiled.PartReferences(n.LocalIndex).Parameters
		if len(r.Labels) > 0 || len(r.Steps) > 0 || r.AllSteps || r.Execution {
			return nil, false
		}
	}
	parameters, err := p.parametersOf(origin, root)
	return parameters, err == nil
}

// ConditionKnown reports whether the condition can be told.
func (f *Foreseen) ConditionKnown() bool { return f.condition }

// Cost is what the evaluations so far have cost.
func (f *Foreseen) Cost() uint64 { return f.cost }

// Condition is true if it cannot be told.
func (f *Foreseen) Condition(node int, e *workflow.ScopeEntity) (bool, error) {
	if !f.condition {
		return true, nil
	}
	return f.Expressions.Condition(node, e)
}

// FailedAssertion returns the first assertion that can be told and is not true.
func (f *Foreseen) FailedAssertion(node int, e *workflow.ScopeEntity) (*plan.Assertion, error) {
	return f.failedAssertionAmong(node, f.assertions, e)
}

// Parameters are an empty object if they cannot be told.
func (f *Foreseen) Parameters(node int, e *workflow.ScopeEntity) (json.RawMessage, error) {
	if !f.parameters {
		return json.RawMessage("{}"), nil
	}
	return f.Expressions.Parameters(node, e)
}

// ValidateParameters accepts parameters that cannot be told.
func (f *Foreseen) ValidateParameters(node int, parameters json.RawMessage) error {
	if !f.parameters {
		return nil
	}
	return f.Expressions.ValidateParameters(node, parameters)
}
