package program

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// eachPipeExpression calls visit with the expressions of all pipes and their paths, in order.
func eachPipeExpression(d *spec.Definition, visit func(pipe int, column, path, source string)) {
	for i, p := range d.Pipes {
		for _, column := range slices.Sorted(maps.Keys(p.Map)) {
			visit(i, column, PipePath(i)+".map."+column, p.Map[column])
		}
	}
}

// PipePath returns the path of a pipe in the document.
func PipePath(i int) string { return "pipes[" + strconv.Itoa(i) + "]" }

// compilePipes compiles what pipes make of a job.
func (c *compiler) compilePipes() {
	c.pipes = make([]map[string]*expr.Program, len(c.definition.Pipes))
	eachPipeExpression(c.definition, func(i int, column, path, source string) {
		if p := c.compileOutsideSteps(expr.PipeLanguage, source, path, false); p != nil {
			if c.pipes[i] == nil {
				c.pipes[i] = map[string]*expr.Program{}
			}
			c.pipes[i][column] = p
		}
	})
}

// PipeKinds returns the types of the values that a pipe computes, by column, as
// [expr.Program.Kind].
func (c *Compiled) PipeKinds(pipe int) map[string]string {
	kinds := map[string]string{}
	for column, p := range c.pipes[pipe] {
		kinds[column] = p.Kind()
	}
	return kinds
}

// PipedJob is what a pipe sees of a job.
type PipedJob struct {
	Result    json.RawMessage
	Failure   *workflow.Failure
	Entity    *workflow.EntityKey
	Item      json.RawMessage
	Execution map[string]any
	Job       map[string]any
}

// scope returns what the expressions of pipes see.
func (j *PipedJob) scope() (expr.Scope, error) {
	variables := map[string]any{"result": expr.ValueOf(j.Result), "item": expr.ValueOf(j.Item), "execution": j.Execution, "job": j.Job, "entity": nil, "error": nil}
	if j.Entity != nil {
		variables["entity"] = map[string]any{"type": j.Entity.Type, "id": j.Entity.ID}
	}
	if j.Failure != nil {
		raw, err := workflow.EncodeJSON(j.Failure)
		if err != nil {
			return expr.Scope{}, err
		}
		variables["error"] = expr.ValueOf(raw)
	}
	return expr.Scope{Variables: variables}, nil
}

// PipeValues evaluates what a pipe computes from a job: JSON by column. An expression that cannot
// be evaluated is CodeInvalid.
func (c *Compiled) PipeValues(pipe int, j *PipedJob) (map[string]json.RawMessage, error) {
	s, err := j.scope()
	if err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	for _, column := range slices.Sorted(maps.Keys(c.pipes[pipe])) {
		v, err := c.pipes[pipe][column].Eval(s)
		if err != nil {
			return nil, workflow.Invalid("the row cannot be made", []workflow.Issue{{Path: "map." + column, Code: "expression", Message: err.Error()}})
		}
		if values[column], err = workflow.EncodeJSON(v); err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
	}
	return values, nil
}
