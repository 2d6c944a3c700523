package definition

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func (r *reader) rollout(s *spec.Step) yamldoc.Field {
	return yamldoc.Optional(&s.Rollout, func(o *spec.Rollout) yamldoc.Field {
		atATime := 1
		return r.Object(yamldoc.Fields{
			"by":      r.expr(&o.By),
			"order":   yamldoc.List(r.Reader, &o.Order, spec.MaxWaves, r.waveName),
			"batches": r.batches(&o.Batches),
			"maxParallel": r.Integer(&atATime, 1, spec.MaxWaves).Then(r.Reader, func(n ast.Node, path string) {
				if atATime > 1 {
					r.Report(n, path, string(workflow.CodeNotImplemented), "waves are executed one after the other: want 1")
				}
			}),
			"pause": r.duration(&o.Pause, 0, workflow.MaxStepWait),
			"approve": yamldoc.Optional(&o.Approve, r.waitApproval).Then(r.Reader, func(n ast.Node, path string) {
				r.IndexAs(n, strings.TrimSuffix(path, "approve")+"between[0].wait.approval") // where the compiler reports errors
			}),
			"failureTolerance": yamldoc.Optional(&o.FailureTolerance, r.tolerance),
			"onFailure":        choice(r, &o.OnFailure, spec.OnWaveFailureStop, spec.OnWaveFailureRollbackAll),
		}).Finally(func(n ast.Node, path string) { r.checkRollout(n, path, o) }).WithSchema(yamldoc.Schema{
			"oneOf":             []yamldoc.Schema{{"required": []string{"by"}}, {"required": []string{"batches"}}},
			"dependentRequired": map[string][]string{"order": {"by"}},
			"not":               yamldoc.Schema{"required": []string{"pause", "approve"}},
		})
	})
}

// checkRollout checks that a rollout defines how to divide the entities, and that at most one thing
// happens between two waves.
func (r *reader) checkRollout(n ast.Node, path string, o *spec.Rollout) {
	by, batches := r.Has(path+".by"), r.Has(path+".batches")
	switch {
	case !by && !batches:
		r.Report(n, path, "required", "say how to divide the entities into waves: by or batches")
	case by && batches:
		r.ReportAt(path+".batches", "conflict", "a rollout has by or batches, not both")
	}
	if r.Has(path+".order") && !by {
		r.ReportAt(path+".order", "conflict", "order is that of the values of by, and there is no by")
	}
	if r.Has(path+".pause") && r.Has(path+".approve") {
		r.ReportAt(path+".approve", "conflict", "between two waves there is pause or approve, not both")
	}
	first := map[string]int{}
	for i, name := range o.Order {
		if other, taken := first[name]; taken {
			r.ReportAt(fmt.Sprintf("%s.order[%d]", path, i), "duplicate", "%q is value %d already", name, other+1)
		}
		first[name] = i
	}
	var last spec.Share
	for i, s := range o.Batches {
		at := fmt.Sprintf("%s.batches[%d]", path, i)
		if s.Count > 0 && s.Count <= last.Count || s.Percent > 0 && s.Percent <= last.Percent {
			r.ReportAt(at, "order", "want shares that grow: each says how many entities have had their turn after its wave")
		}
		last.Count, last.Percent = max(last.Count, s.Count), max(last.Percent, s.Percent)
	}
}

// setBetween makes the step between two waves of a rollout, where the compiler looks for it.
func (r *reader) setBetween(s *spec.Step, n ast.Node, path string) {
	if s.Rollout == nil {
		return
	}
	s.SetBetween()
	if len(s.Rollout.Between) == 0 {
		return
	}
	at := path + ".rollout.between[0]"
	r.AddPath(at, n)
	r.AddPath(at+".label", n)
	if len(s.Label) > spec.MaxRolloutLabel {
		r.ReportAt(path+".label", "format", "the step between two waves has a label that is made from this one: want at most %d characters", spec.MaxRolloutLabel)
	}
}

// batches reads shares of the entities.
func (r *reader) batches(into *[]spec.Share) yamldoc.Field {
	return yamldoc.List(r.Reader, into, spec.MaxWaves-1, r.share).WithSchema(yamldoc.Schema{"minItems": 1}).Then(r.Reader, func(n ast.Node, path string) {
		if len(*into) == 0 {
			r.Report(n, path, "required", "1 to %d shares", spec.MaxWaves-1)
		}
	})
}

// share reads a count, or a percentage such as 10%.
func (r *reader) share(s *spec.Share) yamldoc.Field {
	return r.countOrPercent(&s.Count, &s.Percent, 1, func(n ast.Node, path string) {
		if s.Percent <= 0 || s.Percent > 100 {
			r.Report(n, path, "range", "want more than 0%%, at most 100%%")
		}
	})
}

// waveName reads one of the values by which entities are divided.
func (r *reader) waveName(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"minLength": 1, "maxLength": spec.MaxWaveName}, "format", "want 1 to 64 characters",
		func(s string) bool { return s != "" && len(s) <= spec.MaxWaveName })
}
