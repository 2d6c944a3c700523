package planner

import (
	"context"
	"maps"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// An entity whose job answers BREAK in a step that repeats takes no part in further repetitions of that: of the
// step itself or, if it does not repeat, of the innermost step around it that does. The others go on. The
// repetitions end when all who took part in the last one have left.

// afterBreaks is the key of those who have left, among the nodes at which entities are excluded.
const afterBreaks = -1

// reportBreaks tells of a step run of several lanes whether an entity has answered BREAK, where that takes it out of
// a step around.
func (p *Planner) reportBreaks(ctx context.Context, r *workflow.StepRun) (bool, error) {
	if r.Lanes() < 2 || !p.Program.Nodes[r.StepIndex].OnEntities() || p.Program.RepeatAround(r.StepIndex) < 0 {
		return false, nil
	}
	packs, err := p.Dispatcher.ReadPacks(ctx, p.bareStepRun(r))
	return anyBreaks(packs), err
}

// leaveRepeats excludes the entities that have left a step around a step run, or whose repetition it is. all
// reports whether nobody is left who could take part in that repetition.
func (p *Planner) leaveRepeats(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, s *exprScope) (all bool, err error) {
	leftAt := map[workflow.EntityKey]int{} // the number of the step run in which
	last := map[workflow.EntityKey]bool{}  // who took part in the repetition before
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !o.Broke || !p.isRepetitionAfter(x, r, o, p.Program.RepeatAround(o.StepIndex)) {
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, o)
		if err != nil {
			return false, err
		}
		for key := range got.participants() {
			before := x.StepRunBySeq(leftAt[key])
			switch {
			case got.broke[key]:
				leftAt[key] = o.Seq
			case before != nil && p.placeOf(x, before) == p.placeOf(x, o):
				delete(leftAt, key) // a later try has done that again
			}
		}
	}
	if len(leftAt) == 0 {
		return false, nil
	}
	s.excluded[afterBreaks] = map[workflow.EntityKey]bool{}
	for key := range leftAt {
		s.excluded[afterBreaks][key] = true
	}
	if !p.Program.Nodes[r.StepIndex].IsContainer() {
		return false, nil
	}
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !o.HasJobs() || !p.Program.Nodes[o.StepIndex].OnEntities() || !p.isRepetitionAfter(x, r, o, r.StepIndex) || x.RepetitionAround(r.StepIndex, o) != r.Iteration-1 {
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, o)
		if err != nil {
			return false, err
		}
		maps.Copy(last, got.participants())
	}
	for key := range last {
		lost := false
		for _, excluded := range s.excluded {
			lost = lost || excluded[key]
		}
		if !lost {
			return false, nil
		}
	}
	return true, nil
}

// isRepetitionAfter reports whether a step run is in a later repetition of a step around another one than that, or
// is that repetition. around is -1 if there is no such step.
func (p *Planner) isRepetitionAfter(x *workflow.Execution, r, o *workflow.StepRun, around int) bool {
	if !r.Forward() || r.StepIndex >= len(p.Program.Nodes) || !p.seesStepRun(x, r, o) {
		return false
	}
	if around < 0 || !p.Program.Encloses(around, o.StepIndex) || around != r.StepIndex && !p.Program.Encloses(around, r.StepIndex) {
		return false
	}
	before, now := p.repetition(x, around, o), r
	if around != r.StepIndex {
		now = p.repetition(x, around, r)
	}
	if before == nil || now == nil || now.Iteration <= before.Iteration || p.placeOf(x, now) != p.placeOf(x, before) {
		return false
	}
	for i := range x.StepRuns { // it was begun anew in between
		c := &x.StepRuns[i]
		if c.StepIndex == around && c.Forward() && before.Seq < c.Seq && c.Seq <= now.Seq && c.Iteration <= 1 && c.Try == before.Try {
			return false
		}
	}
	return true
}

// repetition is the step run of a step that was open when a step run in it was entered.
func (p *Planner) repetition(x *workflow.Execution, around int, r *workflow.StepRun) (open *workflow.StepRun) {
	for i := range x.StepRuns {
		if c := &x.StepRuns[i]; c.StepIndex == around && c.Forward() && c.Seq < r.Seq {
			open = c
		}
	}
	return open
}
