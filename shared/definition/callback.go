package definition

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// withoutCallback are the fields that a step with callback must not have.
var withoutCallback = []string{"foreach", "repeat", "stepTimeout"}

// checkCallback checks a step that waits for the answer to what its block sends. It must have
// exactly one job, since there is one answer.
func (r *reader) checkCallback(s *spec.Step, path string) {
	if s.RunOn != workflow.RunOnGlobal {
		r.ReportAt(path+".callback", "conflict", "a callback has one answer: it needs runOn: global. For many, start an execution for each (workflowReference with mode: dispatch)")
	}
	for _, name := range withoutCallback {
		if name == "foreach" && s.RunOn != workflow.RunOnGlobal {
			continue // reported already
		}
		if r.Has(path + "." + name) {
			why := "a step with callback has no %s"
			if name == "stepTimeout" {
				why += ": its deadline is that of callback"
			}
			r.ReportAt(path+"."+name, "conflict", why, name)
		}
	}
}

// requires returns schemas of objects that have one of the fields.
func requires(names ...string) (all []yamldoc.Schema) {
	for name := range slices.Values(names) {
		all = append(all, yamldoc.Schema{"required": []string{name}})
	}
	return all
}
