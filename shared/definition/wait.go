package definition

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// waitKinds are the fields of a wait of which it has exactly one.
var waitKinds = []string{"for", "until", "when"}

// wait reads what a step waits for.
func (r *reader) wait(w *spec.Wait) yamldoc.Field {
	var oneKind []yamldoc.Schema
	for _, k := range waitKinds {
		oneKind = append(oneKind, yamldoc.Schema{"required": []string{k}})
	}
	return yamldoc.Named("wait", r.Object(yamldoc.Fields{
		"for":       r.duration(&w.For, time.Millisecond, workflow.MaxStepWait),
		"until":     r.notBefore(&w.Until),
		"when":      r.expr(&w.When),
		"deadline":  r.duration(&w.Deadline, time.Millisecond, workflow.MaxStepWait),
		"onTimeout": r.onTimeout(&w.OnTimeout),
	}).Finally(func(n ast.Node, path string) {
		kind := ""
		for _, k := range waitKinds {
			switch {
			case !r.Has(path + "." + k):
			case kind != "":
				r.ReportAt(path+"."+k, "conflict", "a wait has one kind only: it already has %s", kind)
			default:
				kind = k
			}
		}
		switch kind {
		case "":
			r.Report(n, path, "required", "say what to wait for: %s", strings.Join(waitKinds, ", "))
		case "for", "until":
			r.refuse(path, "a wait for a time ends well when the time has come", "deadline", "onTimeout")
		}
	}).WithSchema(yamldoc.Schema{"oneOf": oneKind}))
}

// refuse reports the fields of an object that it must not have.
func (r *reader) refuse(path, why string, fields ...string) {
	for _, name := range fields {
		if r.Has(path + "." + name) {
			r.ReportAt(path+"."+name, "conflict", "%s", why)
		}
	}
}

// onTimeout reads fail, or how to go on instead.
func (r *reader) onTimeout(into **spec.OnTimeout) yamldoc.Field {
	var fail string
	return yamldoc.ScalarOr(yamldoc.Enum(r.Reader, &fail, "fail"), yamldoc.Optional(into, func(o *spec.OnTimeout) yamldoc.Field {
		return r.Object(yamldoc.Fields{"next": r.target(&o.Next).Required("want fail or {next: LABEL}")})
	}))
}
