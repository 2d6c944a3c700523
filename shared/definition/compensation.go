package definition

import (
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func (r *reader) compensation(c *spec.Compensation) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"functionBlock": r.block(&c.FunctionBlock).Required("name the block that undoes the step"),
		"parameters":    r.Raw(&c.Parameters, true),
		"rawParameters": r.Raw(&c.RawParameters, true),
		"undoHarmless":  r.Bool(&c.UndoHarmless),
	})
}
