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

// Expressions is a definition with the blocks of one run, as the decider
// evaluates it: it turns the decider's inputs into what expressions see.
type Expressions struct {
	definition *Definition
	blocks     map[string]workflow.Block
}

// Expressions binds the definition to the blocks of a run, by reference as
// written.
func (d *Definition) Expressions(blocks map[string]workflow.Block) *Expressions {
	return &Expressions{d, blocks}
}

var _ lifecycle.Expressions = (*Expressions)(nil)

// References are the labels of the steps whose results a step's expressions
// refer to.
func (x *Expressions) References(step int) map[string]bool {
	labels := map[string]bool{}
	for _, l := range x.definition.compiled.References(step).Labels {
		labels[l] = true
	}
	return labels
}

// Condition is the step's condition for the inputs.
func (x *Expressions) Condition(step int, in lifecycle.Inputs) (bool, error) {
	return x.definition.compiled.Condition(step, scope(in))
}

// Assertion is the first assertion that is not true.
func (x *Expressions) Assertion(step int, in lifecycle.Inputs) (string, error) {
	return x.definition.compiled.Assertion(step, scope(in))
}

// Parameters are the step's resolved parameters.
func (x *Expressions) Parameters(step int, in lifecycle.Inputs) (json.RawMessage, error) {
	return x.definition.compiled.Parameters(step, scope(in))
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

// scope is what an expression sees of the decider's inputs.
func scope(in lifecycle.Inputs) expr.Scope {
	s := expr.Scope{Parameters: in.Parameters, Results: in.Results}
	if in.Entity != nil {
		s.Entity = &expr.Entity{Type: in.Entity.Key.Type, ID: in.Entity.Key.ID, Attributes: in.Entity.Attributes}
	}
	if x := in.Execution; x != nil {
		s.Steps = map[string]string{}
		for i := range x.Runs {
			if r := &x.Runs[i]; r.Kind == workflow.JobExecute {
				s.Steps[r.Label] = string(r.Status)
			}
		}
		s.Execution = map[string]any{
			"id": x.ID, "workflow": x.Workflow.String(), "createdBy": x.CreatedBy,
			"createdAt": x.CreatedAt.Format(time.RFC3339Nano), "labels": x.Labels,
		}
	}
	return s
}
