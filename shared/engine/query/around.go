package query

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// surroundings finds out in which branch, and for which item of a loop, step runs were entered. It
// loads the list of a loop once.
type surroundings struct {
	inspection *engine.Inspection
	program    *spec.Program
	lists      map[int][]json.RawMessage // by the Seq of the step run that has the list
}

// show fills in the surrounding step run that executes steps in parallel or repeatedly, and what
// distinguishes this step run from the others entered there. A rollback shows what it undoes.
func (s *surroundings) show(ctx context.Context, shown *views.StepView, r *workflow.StepRun) error {
	x := s.inspection.Execution()
	if undone := x.StepRunBySeq(r.Undoes); undone != nil {
		r = undone
	}
	if s.program == nil || r.In == 0 {
		return nil
	}
	shown.Within = ptr(r.In)
	for at := r; at.In > 0; {
		around := x.StepRunBySeq(at.In)
		if around == nil || around.StepIndex >= len(s.program.Nodes) {
			return nil
		}
		n := &s.program.Nodes[around.StepIndex]
		switch {
		case n.Parallel != nil && shown.Branch == nil && at.Index < len(n.Parallel.Branches):
			shown.Branch = &n.Parallel.Branches[at.Index].Label
		case n.Loop != nil && shown.Index == nil:
			shown.Index = ptr(at.Index)
			items, err := s.listOf(ctx, around)
			if err != nil {
				return err
			}
			if at.Index < len(items) {
				shown.Item = ptr((&workflow.Item{Number: at.Index, Value: items[at.Index]}).Text())
			}
		}
		at = around
	}
	return nil
}

// keptView returns the branches that a step run has not executed again; nil if there are none.
func keptView(r *workflow.StepRun, program *spec.Program) *views.KeptBranches {
	if r.Kept == nil || program == nil || r.StepIndex >= len(program.Nodes) || program.Nodes[r.StepIndex].Parallel == nil {
		return nil
	}
	kept := &views.KeptBranches{Of: r.Kept.Of}
	for i, b := range program.Nodes[r.StepIndex].Parallel.Branches {
		if r.Kept.Has(i) {
			kept.Branches = append(kept.Branches, b.Label)
		}
	}
	return kept
}

// listOf returns the list of a loop; nil if it has none, or if the list has been deleted.
func (s *surroundings) listOf(ctx context.Context, loop *workflow.StepRun) ([]json.RawMessage, error) {
	if list, ok := s.lists[loop.Seq]; ok {
		return list, nil
	}
	list, err := valueList(ctx, s.inspection, loop.Seq, loop.List)
	if err != nil {
		return nil, err
	}
	if s.lists == nil {
		s.lists = map[int][]json.RawMessage{}
	}
	s.lists[loop.Seq] = list
	return list, nil
}

// stepWaitView returns what a step run waits for, or has waited for; nil if nothing.
func stepWaitView(r *workflow.StepRun) *views.StepWait {
	w := r.Wait
	if w == nil {
		return nil
	}
	timedOut := r.Failure != nil && r.Failure.Code == workflow.FailureTimeout && !r.EndedAt.Before(w.Until)
	return &views.StepWait{
		Kind: w.Kind, Since: w.Since, Until: w.Until, Reason: nonZeroPtr(w.Shown()), Signal: w.Signal(), Asked: w.Asked, Open: r.Waiting(), Lapsed: w.Lapsed || timedOut,
		Need: w.Need, Unfit: w.Unfit, Answers: answerViews(r),
	}
}
