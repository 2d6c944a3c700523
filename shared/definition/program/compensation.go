package program

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// compensation undoes a step in place of the rollback of its block.
type compensation struct {
	parameters    *expr.Template
	rawParameters json.RawMessage
	secrets       []workflow.SecretPlace
}

// compileCompensation compiles the parameters of the compensation of step i. They are evaluated
// when the step is over, so they may read its result. What they read is not needed to execute the
// step.
func (c *compiler) compileCompensation(i int) {
	s := c.flat[i]
	if s.Compensate == nil {
		return
	}
	needed := c.steps[i].refs
	c.afterStep = true
	if s.Foreach != nil {
		c.inLoop = i
	}
	path := c.positions[i].path + ".compensate.parameters"
	parameters, secrets := s.Compensate.Parameters, []workflow.SecretPlace(nil)
	if s.Compensate.FunctionBlock != "" { // workers fill in secrets
		var sealed []workflow.SecretPlace
		parameters, sealed = c.takeSealed(parameters)
		parameters, secrets = c.takeSecrets(parameters, path)
		secrets = append(secrets, sealed...)
	}
	t := c.compileTemplate(i, parameters, path)
	c.afterStep, c.inLoop = false, -1
	c.steps[i].refs, c.steps[i].compensation = needed, &compensation{t, s.Compensate.RawParameters, secrets}
}

// CompensationReferences returns what the parameters of a step's compensation read.
func (c *Compiled) CompensationReferences(step int) expr.References {
	if k := c.steps[step].compensation; k != nil && k.parameters != nil {
		return k.parameters.References()
	}
	return expr.References{}
}

// CompensationParameters returns the parameters of the block that undoes a step.
func (c *Compiled) CompensationParameters(step int, s expr.Scope) (json.RawMessage, error) {
	k := c.steps[step].compensation
	return mergeParameters(k.parameters, k.rawParameters, s)
}
