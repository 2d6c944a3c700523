package definition

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// withoutOnResume are the fields of a step whose block cannot ask to wait.
var withoutOnResume = []string{"foreach", "repeat", "callback"}

// checkOnResume checks a step that says where the execution goes on after a wait that its block has
// asked for: such a step has one job.
func (r *reader) checkOnResume(s *spec.Step, path string) {
	if s.RunOn != workflow.RunOnGlobal {
		r.ReportAt(path+".onResume", "conflict", "only the block of a step with runOn: global can ask to wait")
	}
	for _, name := range withoutOnResume {
		if r.Has(path+"."+name) && (name != "foreach" || s.RunOn == workflow.RunOnGlobal) {
			r.ReportAt(path+".onResume", "conflict", "the block of a step with %s cannot ask to wait", name)
		}
	}
}
