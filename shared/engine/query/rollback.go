package query

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// failedRollback returns what could not be undone in an execution that ended unsafely, as far as
// its state item says; nil if nothing failed.
func failedRollback(x *workflow.Execution) *views.FailedRollback {
	r := failedWave(x)
	if r == nil {
		return nil
	}
	f := &views.FailedRollback{Step: r.Label, Entities: []string{}, Obstacle: nonZeroPtr(lifecycle.NoRollbackToRetry(x))}
	if f.Obstacle == nil && x.Awaited() {
		f.Obstacle = ptr(fmt.Sprintf("it was started by execution %s, and nothing of it happens after the end of the step that waited for it: undo by hand what remains, and acknowledge both", x.Parent.Execution))
	}
	if r.Child != nil {
		f.Execution, f.State = &r.Child.ID, nonZeroPtr(r.Child.State)
		return f
	}
	if x.Result != nil {
		for _, n := range x.Result.Named {
			if n.Outcome == workflow.EntityFailedUnsafe && n.Step == r.Label {
				f.Entities = append(f.Entities, n.Entity)
			}
		}
	}
	return f
}

// failedWave returns the first wave that failed in the last rollback of an execution.
func failedWave(x *workflow.Execution) *workflow.StepRun {
	if x.State != sm.ExecutionFailedUnsafe {
		return nil
	}
	last := 0
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; lifecycle.IsLastRollback(x, r) {
			last = max(last, r.Try)
		}
	}
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; lifecycle.IsLastRollback(x, r) && r.Try == last && r.Status != sm.StepCompleted {
			return r
		}
	}
	return nil
}

// addCompensated adds the entities of a failed compensation. These are the entities of the
// execution that it was to undo; if that one has been removed, they are unknown.
func (v *Service) addCompensated(ctx context.Context, x *workflow.Execution, f *views.FailedRollback) error {
	wave := failedWave(x)
	if f == nil || wave == nil || wave.Child == nil {
		return nil
	}
	undone := x.StepRunBySeq(wave.Undoes)
	if undone == nil || undone.Child == nil {
		return nil
	}
	i, err := v.engine.Inspect(ctx, x.Tenant, undone.Child.ID)
	if workflow.Is(err, workflow.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	entities, err := i.AllEntities(ctx)
	if err != nil {
		return err
	}
	for _, e := range entities[:min(len(entities), workflow.MaxNamed)] {
		f.Entities = append(f.Entities, e.Key.String())
	}
	return nil
}
