package library

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Results are what earlier steps returned: by label, then by entity id; the
// result of a global step is under the empty id.
type Results = expr.Results

// View is what the expressions of one visit see besides the entity.
type View struct {
	Parameters json.RawMessage                    // of the definition the step stands in
	Results    map[int]map[string]json.RawMessage // by node, then as in [Results]
	Statuses   map[int]string                     // by node
}

// Expressions are those of one node of a program, bound to one visit. It is how
// the decider evaluates what authors write.
type Expressions struct {
	program *Program
	blocks  map[string]workflow.Block // by reference as written
	context *expr.Context
}

var _ plan.Expressions = (*Expressions)(nil)

// Bind binds a node's expressions to what a visit of it sees.
func (p *Program) Bind(node int, blocks map[string]workflow.Block, v View, x *workflow.Execution) *Expressions {
	space := p.Nodes[node].Space
	results, statuses := Results{}, map[string]string{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Space != space {
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
	return &Expressions{p, blocks, expr.NewContext(v.Parameters, results, statuses, map[string]any{
		"id": x.ID, "workflow": x.Workflow.String(), "createdBy": x.CreatedBy,
		"createdAt": x.CreatedAt.Format(time.RFC3339Nano), "labels": labels,
	})}
}

func (x *Expressions) scope(e *workflow.Held) expr.Scope {
	s := expr.Scope{Context: x.context}
	if e != nil {
		s.Entity = &expr.Entity{Type: e.Key.Type, ID: e.Key.ID, Attributes: e.Attributes}
	}
	return s
}

// of is a node's compiled definition with its step's index there.
func (x *Expressions) of(node int) (*definition.Compiled, int) {
	n := &x.program.Nodes[node]
	return x.program.Definitions[n.Space].compiled, n.Local
}

// Condition is the step's condition for the entity.
func (x *Expressions) Condition(node int, e *workflow.Held) (bool, error) {
	c, step := x.of(node)
	return c.Condition(step, x.scope(e))
}

// Assertion is the first assertion that is not true.
func (x *Expressions) Assertion(node int, e *workflow.Held) (string, error) {
	c, step := x.of(node)
	return c.Assertion(step, x.scope(e))
}

// Parameters are the step's resolved parameters.
func (x *Expressions) Parameters(node int, e *workflow.Held) (json.RawMessage, error) {
	c, step := x.of(node)
	return c.Parameters(step, x.scope(e))
}

// Again is true if the step is to be visited once more.
func (x *Expressions) Again(node int, e *workflow.Held) (bool, error) {
	c, step := x.of(node)
	return c.Again(step, x.scope(e))
}

// On is the executeOnParameters of a step that starts a run.
func (x *Expressions) On(node int) (json.RawMessage, error) {
	c, step := x.of(node)
	return c.On(step, x.scope(nil))
}

// Check validates resolved parameters against the schema of the block, or of the
// definition that the step embeds. Those of a run of its own are checked when it
// is started.
func (x *Expressions) Check(node int, parameters json.RawMessage) error {
	n := &x.program.Nodes[node]
	if n.Container() && n.Reference != nil {
		return definition.ValidateParameters(x.program.Embedded(node).Definition, parameters)
	}
	b := x.blocks[n.FunctionBlock]
	if len(b.ParameterSchema) == 0 {
		return nil
	}
	issues := definition.ValidateAgainst(b.ParameterSchema, parameters, "parameters")
	return workflow.Invalid(fmt.Sprintf("the parameters do not fit block %s", b.Ref()), issues)
}

// Embedded is the definition that a node embeds.
func (p *Program) Embedded(node int) *Definition {
	for i, s := range p.Spaces {
		if s.Node == node {
			return p.Definitions[i]
		}
	}
	return nil
}

// HasRetryWhen reports whether the node's retry has a condition, RetryWhen what it
// says of a failed attempt.
func (p *Program) HasRetryWhen(node int) bool {
	n := &p.Nodes[node]
	return p.Definitions[n.Space].compiled.HasRetryWhen(n.Local)
}

// RetryWhen is the retry's condition. One that cannot be evaluated is not true.
func (p *Program) RetryWhen(node, attempt int, f *workflow.Failure) bool {
	n := &p.Nodes[node]
	again, err := p.Definitions[n.Space].compiled.RetryWhen(n.Local, attempt, f)
	return err == nil && again
}
