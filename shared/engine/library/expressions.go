package library

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Results are what earlier steps returned: by label, then by entity id; the
// result of a global step is under the empty id.
type Results = expr.Results

// Expressions is a definition with the blocks of one run, bound to what all jobs
// of one step see alike. It is how the decider evaluates what authors write.
type Expressions struct {
	definition *Definition
	blocks     map[string]workflow.Block // by reference as written
	context    *expr.Context
}

var _ lifecycle.Expressions = (*Expressions)(nil)

// References are the labels of the steps whose results a step's expressions
// refer to.
func (d *Definition) References(step int) []string { return d.compiled.References(step).Labels }

// Bind binds the definition to a run: its blocks, its parameters, what its steps
// have returned, and the run itself.
func (d *Definition) Bind(blocks map[string]workflow.Block, parameters json.RawMessage, results Results, x *workflow.Execution) *Expressions {
	steps := map[string]string{}
	for i := range x.Runs {
		if r := &x.Runs[i]; r.Kind == workflow.JobExecute {
			steps[r.Label] = string(r.Status)
		}
	}
	labels := map[string]any{}
	for k, v := range x.Labels {
		labels[k] = v
	}
	return &Expressions{d, blocks, expr.NewContext(parameters, results, steps, map[string]any{
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

// Condition is the step's condition for the entity.
func (x *Expressions) Condition(step int, e *workflow.Held) (bool, error) {
	return x.definition.compiled.Condition(step, x.scope(e))
}

// Assertion is the first assertion that is not true.
func (x *Expressions) Assertion(step int, e *workflow.Held) (string, error) {
	return x.definition.compiled.Assertion(step, x.scope(e))
}

// Parameters are the step's resolved parameters.
func (x *Expressions) Parameters(step int, e *workflow.Held) (json.RawMessage, error) {
	return x.definition.compiled.Parameters(step, x.scope(e))
}

// Check validates resolved parameters against the block's schema.
func (x *Expressions) Check(step int, parameters json.RawMessage) error {
	b := x.blocks[x.definition.Steps[step].FunctionBlock]
	if len(b.ParameterSchema) == 0 {
		return nil
	}
	issues := definition.ValidateAgainst(b.ParameterSchema, parameters, "parameters")
	return workflow.Invalid(fmt.Sprintf("the parameters do not fit block %s", b.Ref()), issues)
}
