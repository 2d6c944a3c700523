package definitions

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Foreseen evaluates the expressions of one node as far as that is possible before the execution
// exists. A part that reads results or the status of steps counts as true, or as valid, and is
// listed in Unknown.
type Foreseen struct {
	*Expressions
	Unknown []string // any of "condition", "assert", "parameters", "set", "switch", "items", "waves" and "wait"

	condition, parameters bool  // known
	set, route            bool  // known
	items, waves, wait    bool  // known
	assertions            []int // positions of the assertions that are unknown
}

var _ plan.Expressions = (*Foreseen)(nil)

// Foresee binds a node's expressions to what is known before the execution exists: its parameters
// (root), and the entities as they are now. All evaluations together may cost up to maxCost, and
// they stop when ctx ends.
func (p *Program) Foresee(ctx context.Context, node int, blocks map[string]workflow.Block, root json.RawMessage, x *workflow.Execution, maxCost uint64) *Foreseen {
	n := &p.Nodes[node]
	parameters, known := p.foreseeParameters(n.Origin, root)
	refs := p.Definitions[n.Origin].compiled.PartReferences(n.LocalIndex)
	variables := p.variablesOf(n.Origin)
	told := func(r expr.References) bool {
		named := slices.ContainsFunc(r.Names, func(name string) bool { return !n.ReadsItem([]string{name}) })
		if len(r.Labels) > 0 || len(r.Steps) > 0 || r.AllSteps || named || !known && (r.Parameters || r.ReadsVars()) {
			return false
		}
		return len(variables) == 0 || !r.AllVars && !slices.ContainsFunc(r.Vars, func(name string) bool { return variables[name] })
	}
	bindings := Bindings{Parameters: parameters, Values: map[string]json.RawMessage{"vars": json.RawMessage("{}")}}
	f := &Foreseen{
		Expressions: p.Bind(node, blocks, bindings, x).ForPlan(ctx, maxCost),
		condition:   told(refs.Condition), parameters: told(refs.Parameters),
		set: told(refs.Set), route: told(refs.Switch), items: n.Foreach == nil || len(refs.Items.Names) == 0 && told(refs.Items),
		waves: told(refs.Rollout), wait: told(refs.Wait),
	}
	ofItem := func(r expr.References) bool { return !f.items && n.ReadsItem(r.Names) }
	f.condition, f.parameters = f.condition && !ofItem(refs.Condition), f.parameters && !ofItem(refs.Parameters)
	for i, r := range refs.Assertions {
		if !told(r) || ofItem(r) {
			f.assertions = append(f.assertions, i)
		}
	}
	for _, part := range []struct {
		name string
		told bool
	}{{"condition", f.condition}, {"assert", len(f.assertions) == 0}, {"parameters", f.parameters}, {"set", f.set}, {"switch", f.route}, {"items", f.items}, {"waves", f.waves}, {"wait", f.wait}} {
		if !part.told {
			f.Unknown = append(f.Unknown, part.name)
		}
	}
	return f
}

// variablesOf returns the names of the variables that one of the program's definitions sets.
func (p *Program) variablesOf(origin int) map[string]bool {
	names := map[string]bool{}
	for i := range p.Nodes {
		if p.Nodes[i].Origin == origin {
			for _, path := range p.Writes(i) {
				names[spec.VariableOf(path)] = true
			}
		}
	}
	return names
}

// foreseeParameters returns the parameters of one of the program's definitions. They are unknown if
// a step that embeds it computes them from results, or cannot compute them.
func (p *Program) foreseeParameters(origin int, root json.RawMessage) (json.RawMessage, bool) {
	for at := p.Origins[origin].NodeIndex; at >= 0; at = p.Origins[p.Nodes[at].Origin].NodeIndex {
		n := &p.Nodes[at]
		r := p.Definitions[n.Origin].compiled.PartReferences(n.LocalIndex).Parameters
		if len(r.Labels) > 0 || len(r.Steps) > 0 || r.AllSteps || r.Execution || r.ReadsVars() || len(r.Names) > 0 {
			return nil, false
		}
	}
	parameters, err := p.parametersOf(origin, root)
	return parameters, err == nil
}

// RouteKnown reports whether the case of a switch is known.
func (f *Foreseen) RouteKnown() bool { return f.route }

// ItemsKnown reports whether the list of a foreach is known.
func (f *Foreseen) ItemsKnown() bool { return f.items }

// WavesKnown reports whether the waves of a rollout are known.
func (f *Foreseen) WavesKnown() bool { return f.waves }

// WaitKnown reports whether it is known until when a step waits, and what it asks.
func (f *Foreseen) WaitKnown() bool { return f.wait }

// SetKnown reports whether the assignments of a step are known.
func (f *Foreseen) SetKnown() bool { return f.set }

// ConditionKnown reports whether the condition is known.
func (f *Foreseen) ConditionKnown() bool { return f.condition }

// Cost returns the cost of the evaluations so far.
func (f *Foreseen) Cost() uint64 { return f.cost }

// Condition evaluates the condition. An unknown condition counts as true.
func (f *Foreseen) Condition(node int, e *workflow.ScopeEntity) (bool, error) {
	if !f.condition {
		return true, nil
	}
	return f.Expressions.Condition(node, e)
}

// FailedAssertion returns the first assertion that is known and not true.
func (f *Foreseen) FailedAssertion(node int, e *workflow.ScopeEntity) (*plan.Assertion, error) {
	return f.failedAssertionAmong(node, f.assertions, e)
}

// Parameters evaluates the parameters. Unknown parameters are an empty object.
func (f *Foreseen) Parameters(node int, e *workflow.ScopeEntity) (json.RawMessage, error) {
	if !f.parameters {
		return json.RawMessage("{}"), nil
	}
	return f.Expressions.Parameters(node, e)
}

// ValidateParameters validates parameters. It accepts unknown ones.
func (f *Foreseen) ValidateParameters(node int, parameters json.RawMessage) error {
	if !f.parameters {
		return nil
	}
	return f.Expressions.ValidateParameters(node, parameters)
}
