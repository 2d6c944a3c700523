package definitions

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Results are what earlier steps returned: by label, then by entity id; the
// result of a global step is under the empty id.
type Results = expr.Results

// Bindings is what the expressions of one visit see besides the entity.
type Bindings struct {
	Parameters json.RawMessage                    // of the definition the step stands in
	Results    map[int]map[string]json.RawMessage // by node, then as in [Results]
	Statuses   map[int]string                     // by node
}

// Expressions are those of one node of a program, bound to one visit. It is how
// the decider evaluates what authors write.
type Expressions struct {
	program *Program
	blocks  map[string]workflow.Block // by reference as written
	context *expr.StepContext
}

var _ plan.Expressions = (*Expressions)(nil)

// Bind binds a node's expressions to what a visit of it sees.
func (p *Program) Bind(node int, blocks map[string]workflow.Block, v Bindings, x *workflow.Execution) *Expressions {
	origin := p.Nodes[node].Origin
	results, statuses := Results{}, map[string]string{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Origin != origin {
			continue
		}
		if r, ok := v.Results[i]; ok {
			results[n.Step.Label] = r
		}
		if s, ok := v.Statuses[i]; ok {
			statuses[n.Step.Label] = s
		}
	}
	labels := map[string]any{}
	for k, v := range x.Labels {
		labels[k] = v
	}
	return &Expressions{p, blocks, expr.NewStepContext(v.Parameters, results, statuses, map[string]any{
		"id": x.ID, "workflow": x.Workflow.String(), "createdBy": x.CreatedBy,
		"createdAt": x.CreatedAt.Format(time.RFC3339Nano), "labels": labels,
	})}
}

func (x *Expressions) scope(e *workflow.ScopeEntity) expr.Scope {
	s := expr.Scope{Context: x.context}
	if e != nil {
		s.Entity = &expr.Entity{Type: e.Key.Type, ID: e.Key.ID, Attributes: e.Attributes}
	}
	return s
}

// compiledStep is a node's compiled definition with its step's index there.
func (x *Expressions) compiledStep(node int) (*definition.Compiled, int) {
	n := &x.program.Nodes[node]
	return x.program.Definitions[n.Origin].compiled, n.LocalIndex
}

// Condition is the step's condition for the entity.
func (x *Expressions) Condition(node int, e *workflow.ScopeEntity) (bool, error) {
	c, step := x.compiledStep(node)
	return c.Condition(step, x.scope(e))
}

// FailedAssertion is the first assertion that is not true.
func (x *Expressions) FailedAssertion(node int, e *workflow.ScopeEntity) (string, error) {
	c, step := x.compiledStep(node)
	return c.FailedAssertion(step, x.scope(e))
}

// Parameters are the step's resolved parameters.
func (x *Expressions) Parameters(node int, e *workflow.ScopeEntity) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	return c.Parameters(step, x.scope(e))
}

// ShouldRepeat is true if the step is to be visited once more.
func (x *Expressions) ShouldRepeat(node int, e *workflow.ScopeEntity) (bool, error) {
	c, step := x.compiledStep(node)
	return c.RepeatWhile(step, x.scope(e))
}

// ExecuteOnParameters is the executeOnParameters of a step that starts a run.
func (x *Expressions) ExecuteOnParameters(node int) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	return c.Selector(step, x.scope(nil))
}

// ValidateParameters validates resolved parameters against the schema of the block, or of the
// definition that the step embeds. Those of a run of its own are checked when it
// is started.
func (x *Expressions) ValidateParameters(node int, parameters json.RawMessage) error {
	n := &x.program.Nodes[node]
	if n.IsContainer() && n.Reference != nil {
		return definition.ValidateParameters(x.program.Embedded(node).Definition, parameters)
	}
	b := x.blocks[n.FunctionBlock]
	if len(b.ParameterSchema) == 0 {
		return nil
	}
	issues := schema.Validate(b.ParameterSchema, parameters, "parameters")
	return workflow.Invalid(fmt.Sprintf("the parameters do not fit block %s", b.Ref()), issues)
}

// Embedded is the definition that a node embeds.
func (p *Program) Embedded(node int) *Definition {
	for i, s := range p.Origins {
		if s.NodeIndex == node {
			return p.Definitions[i]
		}
	}
	return nil
}

// HasRetryWhen reports whether the node's retry has a condition, RetryWhen what it
// says of a failed attempt.
func (p *Program) HasRetryWhen(node int) bool {
	n := &p.Nodes[node]
	return p.Definitions[n.Origin].compiled.HasRetryWhen(n.LocalIndex)
}

// RetryWhen is the retry's condition. One that cannot be evaluated is not true.
func (p *Program) RetryWhen(node, attempt int, f *workflow.Failure) bool {
	n := &p.Nodes[node]
	retry, err := p.Definitions[n.Origin].compiled.RetryWhen(n.LocalIndex, attempt, f)
	return err == nil && retry
}
