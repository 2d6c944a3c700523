package planner

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// pathBefore is what lies before a step run on the path of the execution.
type pathBefore struct {
	seqs  map[int]bool
	rests []*workflow.StepRun // those that keep what earlier tries did in the same step and time
}

// isStillToCome reports whether what an earlier try did in a step run comes only after another one: it was cut
// off the path, and the try has not come there again.
func (p *Planner) isStillToCome(x *workflow.Execution, r, o *workflow.StepRun) bool {
	if !p.followsPath(x, r) || o.StepIndex == r.StepIndex && x.SameTime(o, r) {
		return false
	}
	before := p.pathBefore(x, r)
	return !before.seqs[o.Seq] && !slices.ContainsFunc(before.rests, func(q *workflow.StepRun) bool {
		return q.StepIndex == o.StepIndex && q.Seq > o.Seq && x.SameTime(q, o)
	})
}

// followsPath reports whether the path says what lies before a step run. Where an execution has never gone
// back, the order of its steps says so, too.
func (p *Planner) followsPath(x *workflow.Execution, r *workflow.StepRun) bool {
	return x.WentBack > 0 && r.Forward() && r.StepIndex < len(p.Program.Nodes)
}

func (p *Planner) pathBefore(x *workflow.Execution, r *workflow.StepRun) *pathBefore {
	if known := p.paths[r.Seq]; known != nil {
		return known
	}
	entered := *x // as it was when the step run was entered
	entered.StepRuns = nil
	for i := range x.StepRuns {
		if x.StepRuns[i].Seq < r.Seq {
			entered.StepRuns = append(entered.StepRuns, x.StepRuns[i])
		}
	}
	entered.StepRuns = append(entered.StepRuns, *r)
	before := &pathBefore{seqs: map[int]bool{}}
	for _, o := range lifecycle.Path(&entered, &p.Program.Program) {
		if before.seqs[o.Seq] = true; o.OnlyFailed {
			before.rests = append(before.rests, o)
		}
	}
	if p.paths == nil {
		p.paths = map[int]*pathBefore{}
	}
	p.paths[r.Seq] = before
	return before
}
