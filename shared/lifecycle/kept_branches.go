package lifecycle

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A retry that begins with a step with branches executes again those that did not end well. The others
// stay as they are: their step runs, with what these gave, set, were answered and have consumed, are
// those of the step in the new try, too.

// branchesToKeep are the branches that a new try keeps which begins at a node, or in the step run if there
// is one; nil for none. If all have ended well, it was their results that could not be merged, or
// somebody wants them again: then all are executed.
func (d *decider) branchesToKeep(from int, resume *workflow.StepRun, to sm.ExecutionState) *workflow.KeptBranches {
	n := &d.facts.Resolution.Program.Nodes[from]
	f := resume
	if f == nil {
		f = d.execution.StepRunBySeq(d.firstOf(from))
	}
	if n.Parallel == nil || f == nil || f.StepIndex != from || f.Handled > 0 {
		return nil
	}
	again := map[int]bool{}
	since := d.lastTryForAll(to)
	for _, r := range d.path() {
		branch, in := d.branchIn(r, f)
		if in && (r.Try > since || r.SupersededBy > 0 || d.wasUndone(r, since, workflow.Counts.Executed) || d.reachedEnd() && d.leavesWork(r)) {
			again[branch] = true
		}
	}
	kept := &workflow.KeptBranches{Of: f.Seq}
	for i := range n.Parallel.Branches {
		if slices.Contains(f.EndedWell, i) && !again[i] {
			kept.Index = append(kept.Index, i)
		}
	}
	if len(kept.Index) == 0 || len(kept.Index) == len(n.Parallel.Branches) {
		return nil
	}
	return kept
}

// branchIn is the branch of a step with branches in which a step run was entered, or that it keeps.
func (d *decider) branchIn(r, f *workflow.StepRun) (branch int, in bool) {
	for r != nil && r.In > 0 {
		if r.In == d.execution.BranchOf(f, r.Index) {
			return r.Index, true
		}
		r = d.execution.StepRunBySeq(r.In)
	}
	return 0, false
}

// leavesWork reports whether entities have failed in a step run that the new try is about.
func (d *decider) leavesWork(r *workflow.StepRun) bool {
	return d.node(r).OnEntities() && r.Counts.Failed+r.Counts.Unknown+r.Unmet > 0 && d.concernsKept(r)
}

// isKept tells which step runs are in branches that the new try keeps.
func (d *decider) isKept() func(*workflow.StepRun) bool {
	kept := d.execution.KeptBranches
	if kept == nil {
		return func(*workflow.StepRun) bool { return false }
	}
	f := &workflow.StepRun{Kept: kept}
	return func(r *workflow.StepRun) bool { return d.execution.KeptIn(r, f) }
}

// keepBranches gives the step run of a step with branches those that this try keeps, if it begins there.
// One that is not executed this time keeps none.
func (d *decider) keepBranches(r *workflow.StepRun, plan *Plan) {
	kept := d.execution.KeptBranches
	if kept == nil {
		return
	}
	d.execution.KeptBranches, d.changed = nil, true
	if earlier := d.execution.StepRunBySeq(kept.Of); earlier.StepIndex == r.StepIndex && (plan.Jobs > 0 || plan.Problem != nil) {
		r.Kept, r.EndedWell = kept, slices.Clone(kept.Index)
	}
}

// branchLabels are the labels of branches of a step.
func (d *decider) branchLabels(at int, branches []int) (labels []string) {
	for _, i := range branches {
		labels = append(labels, d.facts.Resolution.Program.Nodes[at].Parallel.Branches[i].Label)
	}
	return labels
}
