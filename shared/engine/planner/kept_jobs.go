package planner

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// KeptJobs finds the step runs in which an entity has failed that the execution still holds, and
// the rollbacks that were executed on such an entity.
func (p *Planner) KeptJobs(ctx context.Context, x *workflow.Execution) (map[int]bool, error) {
	scope := x.Scope
	scope.Only = x.Kept
	kept, err := p.Entities(ctx, scope)
	if err != nil {
		return nil, err
	}
	in := map[int]bool{}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		rollback := r.Kind == workflow.JobRollback
		if rollback && r.Counts.Executed() == 0 || !rollback && (r.Kind != workflow.JobExecute || r.Counts.Failed+r.Counts.Unknown+r.Unmet == 0) || !p.Program.Nodes[r.StepIndex].OnEntities() {
			continue
		}
		got, err := p.loadOutcome(ctx, x, r)
		if err != nil {
			return nil, err
		}
		for j := range kept {
			key := kept[j].Key
			if rollback && got.ok[key] || got.failed[key] && !(rollback && got.notExecuted[key]) {
				in[r.Seq] = true
			}
		}
	}
	return in, nil
}
