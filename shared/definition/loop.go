package definition

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxTimes is the largest max of a loop.
const maxTimes = 10_000

func (r *reader) loop(l *spec.Loop) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"over":  r.listToken(&l.Over),
		"while": r.expr(&l.While),
		"as":    r.itemName(&l.As),
		"max":   r.Integer(&l.Max, 1, maxTimes),
		"onMax": choice(r, &l.OnMax, spec.OnMaxFail, spec.OnMaxStop),
	}).Finally(func(n ast.Node, path string) {
		over, while := r.Has(path+".over"), r.Has(path+".while")
		switch {
		case !over && !while:
			r.Report(n, path, "required", "say what to go through, or how long: over or while")
		case over && while:
			r.ReportAt(path+".while", "conflict", "a loop has over or while, not both")
		}
		if !over && r.Has(path+".as") {
			r.ReportAt(path+".as", "conflict", "only a loop over a list has items")
		}
		if r.Has(path+".onMax") && !r.Has(path+".max") {
			r.ReportAt(path+".onMax", "conflict", "onMax needs max")
		}
	}).WithSchema(yamldoc.Schema{
		"oneOf":             []yamldoc.Schema{{"required": []string{"over"}}, {"required": []string{"while"}}},
		"dependentRequired": map[string][]string{"as": {"over"}, "onMax": {"max"}},
	})
}

// foreach reads the list for whose items a block is called.
func (r *reader) foreach(f *spec.Foreach) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"items":            r.listToken(&f.Items).Required("say what to go through"),
		"as":               r.itemName(&f.As),
		"maxInFlight":      r.Integer(&f.MaxInFlight, 1, maxInFlight),
		"failureTolerance": r.tolerance(&f.FailureTolerance),
	})
}

// checkForeach checks the fields of a step with foreach.
func (r *reader) checkForeach(s *spec.Step, path string) {
	if s.RunOn != "" && s.RunOn != workflow.RunOnItem {
		r.ReportAt(path+".runOn", "conflict", "a step with foreach runs on item, not on %s", s.RunOn)
	}
	if s.Reference != nil && s.Reference.Mode != workflow.ModeDispatch && s.Reference.Mode != workflow.ModeFireAndForget {
		r.ReportAt(path+".workflowReference.mode", "conflict", "foreach starts an execution for each item: want dispatch or fireAndForget")
	}
	if s.Reference != nil && len(s.Reference.Among) > 0 {
		r.ReportAt(path+".workflowReference.among", "conflict", "foreach starts executions of one workflow")
	}
	if r.Has(path + ".repeat") {
		r.ReportAt(path+".repeat", "conflict", "a step has foreach or repeat, not both")
	}
	if r.Has(path + ".failureTolerance") {
		r.ReportAt(path+".failureTolerance", "conflict", "the tolerance of items is written in foreach")
	}
}

// listToken reads one ${...} that returns a list.
func (r *reader) listToken(into *string) yamldoc.Field {
	return r.tokenOf(into, "want one ${...} that returns a list")
}

// itemName reads the name of an item in expressions.
func (r *reader) itemName(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": labelRE.String()}, "format", "want a lower-case letter, then letters, digits and _", labelRE.MatchString).
		Then(r.Reader, func(n ast.Node, path string) {
			if *into != spec.ItemName && (expr.IsReserved(*into) || expr.IsFlowName(*into)) {
				r.Report(n, path, "reserved", "%q means something else in expressions", *into)
			}
		})
}
