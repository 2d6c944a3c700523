package planner

import (
	"maps"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func (s *exprScope) mergeExcluded() {
	for _, lost := range s.excluded {
		maps.Copy(s.request.Excluded, lost)
	}
}

// exclude leaves out entities that failed in an earlier step and were tolerated, unless a later run
// of that step ended OK for them. If the failure was handled, they take part again, and so do those whose job
// was only closed if a later try of that step had none for them, because its condition did not hold. Entities of
// a pipeline that have not passed the earlier step yet are left out too.
func (s *exprScope) exclude(p *Planner, x *workflow.Execution, o *workflow.StepRun, got *outcome) {
	program := p.Program
	excluded := s.excluded[o.StepIndex]
	if excluded == nil {
		excluded = map[workflow.EntityKey]bool{}
		s.excluded[o.StepIndex] = excluded
	}
	for key := range got.ok {
		delete(excluded, key)
	}
	for key, before := range s.unexecuted[o.StepIndex] {
		if before.Try < o.Try && p.placeOf(x, before) == p.placeOf(x, o) && !got.failed[key] && !got.pending[key] {
			delete(excluded, key)
		}
	}
	for key := range got.pending {
		excluded[key] = true
	}
	if o.Handled > 0 || program.ContinuesOnError(o.StepIndex) {
		for key := range got.failed {
			delete(excluded, key) // it has failed before, perhaps in an earlier try in which nothing handled that
		}
		return
	}
	closed := o.Status == sm.StepCancelled && program.InBranch(o.StepIndex) // closed with its branch: what was not executed has not failed
	for key := range got.failed {
		if closed && got.notExecuted[key] {
			continue
		}
		excluded[key] = true
		if delete(s.unexecuted[o.StepIndex], key); got.notExecuted[key] {
			s.addUnexecuted(o.StepIndex, key, o)
		}
	}
}

func (s *exprScope) addUnexecuted(node int, key workflow.EntityKey, closed *workflow.StepRun) {
	if s.unexecuted[node] == nil {
		s.unexecuted[node] = map[workflow.EntityKey]*workflow.StepRun{}
	}
	s.unexecuted[node][key] = closed
}
