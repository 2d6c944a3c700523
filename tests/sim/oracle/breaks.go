package oracle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// leftBy returns the step around a node whose repetitions an entity leaves that answers BREAK there,
// -1 if it leaves those of the node itself, or none.
func (p *program) leftBy(n int) int {
	if p.nodes[n].Repeat != nil {
		return -1
	}
	for n = p.nodes[n].parent; n >= 0 && p.nodes[n].Repeat == nil; {
		n = p.nodes[n].parent
	}
	return n
}

// hasLeft reports whether an entity has answered BREAK in an earlier repetition of a step that
// repeats, with the result that it takes no part in a step run of a later one.
func (x *execution) hasLeft(r *workflow.StepRun, n int, id string) bool {
	if !x.program.definition.Breaks {
		return false
	}
	left, path := map[string]bool{}, x.pathOf(r)
	for i := range x.x.StepRuns {
		o := &x.x.StepRuns[i]
		if !x.sees(r, o) {
			continue
		}
		at := x.program.find(o.Label)
		around := x.program.leftBy(at)
		if b := x.program.block(at); b == nil || !b.OnDevice || around < 0 || n < around || n >= x.program.nodes[around].end {
			continue
		}
		depth, was := x.program.depth(around), x.pathOf(o)
		if !slices.Equal(was[:depth], path[:depth]) || was[depth] >= path[depth] {
			continue
		}
		f := x.fateOf(o, id)
		switch place := fmt.Sprint(at, was); {
		case f.broke && !x.undone(o, id, r.Try):
			left[place] = true
		case f.part == partJob:
			delete(left, place)
		}
	}
	return len(left) > 0
}

// depth returns how many steps are around a node.
func (p *program) depth(n int) (depth int) {
	for n = p.nodes[n].parent; n >= 0; n = p.nodes[n].parent {
		depth++
	}
	return depth
}

// allHaveLeft reports whether a repetition of a step that contains others has nobody who could take part in
// it: of those who took part in the repetition before, and whom its try is about, some have left, and the others have
// failed. Steps that nobody takes part in are repeated whoever has left a step around.
func (x *execution) allHaveLeft(r *workflow.StepRun, n int) bool {
	some := false
	for _, id := range x.tries[r.Try].entities {
		switch {
		case !x.tookPartBefore(r, n, id):
		case x.hasLeft(r, n, id):
			some = true
		case !x.pastOf(r, n, id).excluded:
			return false
		}
	}
	return some
}

// tookPartBefore reports whether an entity has taken part in the repetition before of a step that contains others.
func (x *execution) tookPartBefore(r *workflow.StepRun, n int, id string) bool {
	path := x.pathOf(r)
	depth := len(path) - 1
	return slices.ContainsFunc(x.x.StepRuns, func(o workflow.StepRun) bool {
		at := x.program.find(o.Label)
		if at <= n || at >= x.program.nodes[n].end || !x.sees(r, &o) {
			return false
		}
		was := x.pathOf(&o)
		part := x.fateOf(&o, id).part
		return slices.Equal(was[:depth], path[:depth]) && was[depth] == path[depth]-1 && (part == partJob || part == partUnmet)
	})
}

// breakOut continues behind what a global step leaves whose block has answered BREAK, and reports
// whether it leaves anything.
func (f *flow) breakOut(x *execution, r *workflow.StepRun, n int) bool {
	b := x.program.block(n)
	if b == nil || b.OnDevice || !x.fateOf(r, "").broke {
		return false
	}
	out := x.program.leftBy(n)
	if x.program.nodes[n].Repeat != nil {
		out = n
	}
	if out >= 0 {
		f.after(x, out)
	}
	return out >= 0
}

// Breaks reports whether the blocks of an execution answer BREAK now and then.
func (o *Oracle) Breaks(id string) bool {
	x := o.executions[id]
	return x != nil && x.program.definition.Breaks
}
