package program

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// eachFollowUp calls visit with each workflow that an end of an execution starts, and its path.
func eachFollowUp(d *spec.Definition, visit func(kind workflow.EndKind, path string, f *spec.FollowUp)) {
	for _, kind := range d.OnEnd.Kinds() {
		visit(kind, FollowUpPath(kind), d.OnEnd.Of(kind))
	}
}

// FollowUpPath returns the path of what ends of a kind start.
func FollowUpPath(kind workflow.EndKind) string { return "onEnd." + string(kind) }

// compileOnEnd compiles the parameters of what the ends of an execution start.
func (c *compiler) compileOnEnd() {
	c.onEnd = map[workflow.EndKind]*expr.Template{}
	eachFollowUp(c.definition, func(kind workflow.EndKind, path string, f *spec.FollowUp) {
		if len(f.Parameters) > 0 {
			c.onEnd[kind] = c.compileTemplateOutsideSteps(expr.EndLanguage, f.Parameters, path+".parameters")
		}
	})
}

// EndedExecution is what the parameters of a follow-up read of the execution that has ended.
type EndedExecution struct {
	Parameters json.RawMessage
	Execution  map[string]any
	Failure    *workflow.Failure
	Output     json.RawMessage
}

// FollowUpParameters returns the parameters of what an end of a kind starts.
func (c *Compiled) FollowUpParameters(kind workflow.EndKind, x *EndedExecution) (json.RawMessage, error) {
	t := c.onEnd[kind]
	if t == nil {
		return json.RawMessage("{}"), nil
	}
	s := expr.ParameterScope(x.Parameters)
	s.Variables = map[string]any{"execution": x.Execution, "error": nil, "output": expr.ValueOf(x.Output)}
	if x.Failure != nil {
		raw, err := workflow.EncodeJSON(x.Failure)
		if err != nil {
			return nil, err
		}
		s.Variables["error"] = expr.ValueOf(raw)
	}
	parameters, err := t.Eval(s)
	if err != nil {
		return nil, workflow.Invalid("the follow-up cannot be started", []workflow.Issue{{Path: FollowUpPath(kind) + ".parameters", Code: "expression", Message: err.Error()}})
	}
	return parameters, nil
}
