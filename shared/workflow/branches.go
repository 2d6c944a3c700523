package workflow

import "slices"

// KeptBranches are branches that ended well in an earlier try, and that a retry does not execute again.
type KeptBranches struct {
	Of    int   `json:"of"`    // Seq of the earlier step run of the same step
	Index []int `json:"index"` // of the branches
}

// Has reports whether a branch is kept.
func (k *KeptBranches) Has(branch int) bool { return k != nil && slices.Contains(k.Index, branch) }

// BranchOf is the Seq of the step run in which a branch of another one was executed: that itself, or the
// one of an earlier try whose branch it keeps.
func (x *Execution) BranchOf(f *StepRun, branch int) int {
	for f.Kept.Has(branch) {
		earlier := x.StepRunBySeq(f.Kept.Of)
		if earlier == nil {
			break
		}
		f = earlier
	}
	return f.Seq
}

// FirstOfBranches is the first of the step runs whose branches a step run keeps, one after the other; by
// number, and itself if it keeps none.
func (x *Execution) FirstOfBranches(seq int) int {
	for r := x.StepRunBySeq(seq); r != nil && r.Kept != nil; r = x.StepRunBySeq(seq) {
		seq = r.Kept.Of
	}
	return seq
}

// KeptIn reports whether a step run was executed in a branch that another step run keeps, at any depth.
func (x *Execution) KeptIn(r, f *StepRun) bool {
	if f.Kept == nil {
		return false
	}
	for ; r != nil && r.In > 0; r = x.StepRunBySeq(r.In) {
		if f.Kept.Has(r.Index) && x.BranchOf(f, r.Index) == r.In {
			return true
		}
	}
	return false
}
