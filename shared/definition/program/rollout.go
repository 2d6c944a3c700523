package program

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// compileRollout compiles the expression by which a rollout divides the entities, and checks the
// rollout's position.
func (c *compiler) compileRollout(i int) {
	s, path := c.flat[i], c.positions[i].path
	if around := c.rolloutAround(i); around >= 0 && s.Parallel != nil {
		c.ReportAt(path+".parallel", string(workflow.CodeNotImplemented), "the steps of a wave are executed one after the other: rollout %q cannot have branches yet", c.flat[around].Label)
	}
	if s.Rollout == nil {
		return
	}
	for _, around := range c.positions[i].ancestors {
		if why := RepeatsOrHandles(c.flat[around]); why != "" {
			c.ReportAt(path+".rollout", string(workflow.CodeNotImplemented), "a rollout cannot be in step %q, which %s", c.flat[around].Label, why)
			break
		}
	}
	c.divides = true
	c.steps[i].rolloutBy = c.compileExpr(i, s.Rollout.By, path+".rollout.by", c.language.Compile, false)
	c.divides = false
	if p := c.steps[i].rolloutBy; p != nil && !p.References().Entity {
		c.ReportAt(path+".rollout.by", "reference", "want an expression over entity, such as entity.site")
	}
}

// RepeatsOrHandles returns why a rollout cannot be in a step: its waves would have to be undone, or
// to start anew, while the execution continues. It is empty if the rollout can.
func RepeatsOrHandles(s *spec.Step) string {
	switch {
	case s.Rollout != nil:
		return "is a rollout itself"
	case s.Loop != nil || s.Repeat != nil:
		return "is executed several times"
	case s.Parallel != nil:
		return "has branches"
	case s.ContinueOnError:
		return "has continueOnError"
	case len(s.OnFailure) > 0:
		return "has onFailure"
	}
	return ""
}

// rolloutAround returns the rollout that executes a step in one of its waves, -1 for none.
func (c *compiler) rolloutAround(i int) int {
	for _, around := range slices.Backward(c.positions[i].ancestors) {
		if c.flat[around].Rollout != nil {
			return around
		}
	}
	return -1
}

// RolloutBy evaluates the expression by which a rollout divides the entities: the name of an
// entity's wave.
func (c *Compiled) RolloutBy(step int, s expr.Scope) (string, error) {
	value, err := c.steps[step].rolloutBy.Eval(s)
	if err != nil {
		return "", err
	}
	name := ""
	switch v := value.(type) {
	case string:
		name = v
	case bool:
		name = strconv.FormatBool(v)
	case int64:
		name = strconv.FormatInt(v, 10)
	case float64:
		name = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return "", fmt.Errorf("want a text, a number or true or false, not %s", expr.KindOf(value))
	}
	if name == "" || len(name) > spec.MaxWaveName {
		return "", fmt.Errorf("want 1 to %d bytes, not %d", spec.MaxWaveName, len(name))
	}
	return name, nil
}
