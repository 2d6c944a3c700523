package catalog

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// placedStep is a step with the steps around it, and with the group that holds it in each of these.
type placedStep struct {
	*spec.Step
	around []*spec.Step
	groups []int
}

// placeSteps lists steps like FlatSteps.
func placeSteps(steps []spec.Step, around []*spec.Step, groups []int) (all []placedStep) {
	for i := range steps {
		s := &steps[i]
		all = append(all, placedStep{s, around, groups})
		for n, g := range s.Groups() {
			all = append(all, placeSteps(g.Steps, append(slices.Clip(around), s), append(slices.Clip(groups), n))...)
		}
	}
	return all
}

// isApart reports whether an execution enters one of the steps only if it does not enter the other:
// they are in different cases, or one handles a failure of the other.
func (s placedStep) isApart(o placedStep) bool {
	for i := 0; i < min(len(s.around), len(o.around)) && s.around[i] == o.around[i]; i++ {
		if s.groups[i] != o.groups[i] {
			all := s.around[i].Groups()
			return len(s.around[i].Switch) > 0 || all[s.groups[i]].Handler || all[o.groups[i]].Handler
		}
	}
	return false
}

// isIn reports whether the step is inside the other.
func (s placedStep) isIn(o placedStep) bool { return slices.Contains(s.around, o.Step) }

// endsExecution reports whether a failure of the step may fail the execution: nothing handles each
// failure of it.
func (s placedStep) endsExecution() bool {
	return canFail(s.Step) && !slices.ContainsFunc(append(slices.Clip(s.around), s.Step), func(o *spec.Step) bool {
		return o.ContinueOnError || slices.ContainsFunc(o.OnFailure, func(c spec.Case) bool { return c.When == "" })
	})
}

// checkUndo warns about the first step that calls a block and cannot be undone, although a step
// before it can: if the execution fails there or later, it undoes nothing at all.
func (w *warner) checkUndo(d *spec.Definition, paths []string) error {
	if d.Config.Rollback == workflow.RollbackNever {
		return nil
	}
	steps := placeSteps(d.Steps, nil, nil)
	var undoable []placedStep
	for i, s := range steps {
		var b *workflow.Block
		if s.FunctionBlock != "" {
			var err error
			if b, err = w.newestBlock(s.FunctionBlock); err != nil {
				return err
			}
		}
		switch {
		case b != nil && b.Pure:
		case s.Compensate != nil, b != nil && b.Reversible:
			undoable = append(undoable, s)
		case b == nil:
		case s.endsExecution() || slices.ContainsFunc(steps[i+1:], func(o placedStep) bool { return o.endsExecution() && !o.isApart(s) }):
			before := slices.IndexFunc(undoable, func(o placedStep) bool { return !o.isApart(s) && !s.isIn(o) })
			if before < 0 {
				continue
			}
			w.warn(paths[i], "no_undo", "step %q cannot be undone: if the execution fails in it, or later, it ends FAILED_UNSAFE and undoes nothing, not even step %q; give it a compensate, or a block with a rollback", s.Label, undoable[before].Label)
			return nil
		}
	}
	return nil
}
