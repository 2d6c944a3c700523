package definition

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func (r *reader) compensation(c *spec.Compensation) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"functionBlock": r.block(&c.FunctionBlock),
		"workflow":      r.reference(&c.Workflow),
		"parameters":    r.Raw(&c.Parameters, true),
		"rawParameters": r.Raw(&c.RawParameters, true),
		"undoHarmless":  r.Bool(&c.UndoHarmless),
		"retry":         yamldoc.Optional(&c.Retry, r.retry),
	}).WithSchema(yamldoc.Schema{"oneOf": []yamldoc.Schema{
		{"required": []string{"functionBlock"}},
		{"required": []string{"workflow"}, "not": yamldoc.Schema{"anyOf": []yamldoc.Schema{{"required": []string{"retry"}}, {"required": []string{"undoHarmless"}}}}},
	}}).Finally(func(n ast.Node, path string) {
		r.checkCompensation(n, path)
		if at := path + ".retry.when"; r.Has(at) {
			r.ReportAt(at, "conflict", "a compensation is retried by the codes in on, or by what its block says of its failures")
		}
	})
}

// checkCompensation requires that a compensation fits the kind of its step.
func (r *reader) checkCompensation(n ast.Node, path string) {
	byBlock, byWorkflow := r.Has(path+".functionBlock"), r.Has(path+".workflow")
	starts := r.Has(strings.TrimSuffix(path, ".compensate") + ".workflowReference")
	switch {
	case byBlock && byWorkflow:
		r.ReportAt(path+".workflow", "conflict", "a block or a workflow undoes the step, not both")
	case starts && !byWorkflow:
		r.Report(n, path+".workflow", "required", "name the workflow that undoes what the execution has done")
	case !starts && !byBlock:
		r.Report(n, path+".functionBlock", "required", "name the block that undoes the step")
	}
	for _, name := range []string{"retry", "undoHarmless"} {
		if byWorkflow && r.Has(path+"."+name) {
			r.ReportAt(path+"."+name, "conflict", "only a block that undoes a step has %s: a workflow says itself what it tries again", name)
		}
	}
}
