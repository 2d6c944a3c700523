package planner

import (
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// pathBefore is the part of the execution's path before a step run.
type pathBefore struct {
	seqs  map[int]bool
	rests map[lifecycle.Place]int // the last step run at each place that keeps the results of earlier tries
}

// isPending reports whether the work of an earlier try in the step run o comes only after r: it
// was cut off the path, and the current try has not reached it again.
func (p *Planner) isPending(x *workflow.Execution, r, o *workflow.StepRun) bool {
	if !r.Forward() || r.StepIndex >= len(p.Program.Nodes) { // everything that is not superseded lies before the end
		return false
	}
	at := p.placeOf(x, o)
	if at == p.placeOf(x, r) {
		return false
	}
	before := p.pathBefore(x, r)
	return !before.seqs[o.Seq] && before.rests[at] < o.Seq
}

// placeOf returns the place of a step run. Once the step run exists, its place does not change.
func (p *Planner) placeOf(x *workflow.Execution, r *workflow.StepRun) lifecycle.Place {
	if x.StepRunBySeq(r.Seq) == nil {
		return lifecycle.PlaceOf(x, &p.Program.Program, r)
	}
	known, ok := p.places[r.Seq]
	if !ok {
		if p.places == nil {
			p.places = map[int]lifecycle.Place{}
		}
		known = lifecycle.PlaceOf(x, &p.Program.Program, r)
		p.places[r.Seq] = known
	}
	return known
}

func (p *Planner) pathBefore(x *workflow.Execution, r *workflow.StepRun) *pathBefore {
	if known := p.paths[r.Seq]; known != nil {
		return known
	}
	entered := *x // the execution as it was when the step run was entered
	entered.StepRuns = nil
	for i := range x.StepRuns {
		if x.StepRuns[i].Seq < r.Seq {
			entered.StepRuns = append(entered.StepRuns, x.StepRuns[i])
		}
	}
	entered.StepRuns = append(entered.StepRuns, *r)
	before := &pathBefore{seqs: map[int]bool{}, rests: map[lifecycle.Place]int{}}
	for _, o := range lifecycle.Path(&entered, &p.Program.Program) {
		if before.seqs[o.Seq] = true; o.OnlyFailed {
			before.rests[p.placeOf(x, o)] = o.Seq
		}
	}
	if p.paths == nil {
		p.paths = map[int]*pathBefore{}
	}
	p.paths[r.Seq] = before
	return before
}
