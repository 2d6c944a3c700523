package definition

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func (r *reader) compensation(c *spec.Compensation) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"functionBlock": r.block(&c.FunctionBlock).Required("name the block that undoes the step"),
		"parameters":    r.Raw(&c.Parameters, true),
		"rawParameters": r.Raw(&c.RawParameters, true),
		"undoHarmless":  r.Bool(&c.UndoHarmless),
		"retry":         yamldoc.Optional(&c.Retry, r.retry),
	}).Finally(func(_ ast.Node, path string) {
		if at := path + ".retry.when"; r.Has(at) {
			r.ReportAt(at, "conflict", "a compensation is retried by the codes in on, or by what its block says of its failures")
		}
	})
}
