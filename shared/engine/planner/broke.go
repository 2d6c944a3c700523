package planner

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An entity whose job answers BREAK in a step that repeats takes no part in further repetitions of that: of the
// step itself or, if it does not repeat, of the innermost step around it that does. The others go on. The
// repetitions end when all who took part in the last one have left.

// afterBreaks is the key of those who have left, among the nodes at which entities are excluded.
const afterBreaks = -1

// notePart notes in the plan of a step run in repetitions, or before pipelines, which entities have a job, if not all do.
func (p *Planner) notePart(r *workflow.StepRun, planned *plan.JobPlan, entities []workflow.ScopeEntity) {
	n := p.Program.Node(r.StepIndex)
	if r.Undoes > 0 || r.Pipeline > 0 || r.StepIndex >= len(p.Program.Nodes) || !n.OnEntities() || n.Repeat == nil && p.Program.RepeatAround(r.StepIndex) < 0 && !p.Program.Config.Parallel ||
		planned.Plan.Problem != nil || planned.Plan.Unmet > 0 || len(planned.Jobs) == 0 || len(planned.Jobs) == planned.Plan.Entities {
		return
	}
	var places []int
	for i, at := 0, 0; i < len(entities) && at < len(planned.Jobs); i++ {
		if entities[i].Key == *planned.Jobs[at].Entity {
			places, at = append(places, entities[i].Place), at+1
		}
	}
	planned.Plan.Part = workflow.PartOf(places...)
}

// reportBreaks adds to the report of a step run whether an entity has answered BREAK, and which, where that takes
// them out of a step around.
func (p *Planner) reportBreaks(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, rep *lifecycle.Report) error {
	if !p.Program.Nodes[r.StepIndex].OnEntities() || p.Program.RepeatAround(r.StepIndex) < 0 || r.Lanes() < 2 && !rep.Breaks {
		return nil
	}
	packs, err := p.Dispatcher.ReadPacks(ctx, p.bareStepRun(r))
	if err != nil {
		return err
	}
	if rep.Breaks = anyBreaks(packs); !rep.Breaks {
		return nil
	}
	all, err := p.entitiesOf(ctx, x, r)
	if err != nil {
		return err
	}
	if r.Pipeline == 0 {
		all = inPart(r, all)
	}
	if len(all) != r.Jobs {
		return nil // it does not say who takes part
	}
	var left []int
	for i, rec := range plan.LatestRecords(packs) {
		if rec.Code == workflow.JobCodeOK && rec.Outcome == sm.OutcomeBreak && i < len(all) {
			left = append(left, all[i].Place)
		}
	}
	rep.Left = workflow.PartOf(left...)
	return nil
}

// leftIn returns who has left in a step run by BREAK, as it stands in a later try. took are all that have taken part, if
// they are asked for.
func (p *Planner) leftIn(ctx context.Context, x *workflow.Execution, try int, o *workflow.StepRun, all bool) (left, took map[workflow.EntityKey]bool, err error) {
	undone := slices.ContainsFunc(x.StepRuns, func(u workflow.StepRun) bool {
		return u.Kind == workflow.JobRollback && u.Undoes == o.Seq && u.Try < try && o.Try < try
	})
	// What is undone is in the packs, and so is who has taken part in a pipeline.
	if undone || o.Open() || o.Broke && o.Left == nil || all && (o.Pipeline > 0 || o.Unmet > 0) {
		got, err := p.effectiveOutcome(ctx, x, try, o)
		if err != nil {
			return nil, nil, err
		}
		return got.broke, got.participants(), nil
	}
	left = map[workflow.EntityKey]bool{}
	if o.Left != nil {
		held, err := p.Entities(ctx, x.ScopeOf(o))
		if err != nil {
			return nil, nil, err
		}
		for i := range held {
			if o.Left.Contains(held[i].Place) {
				left[held[i].Key] = true
			}
		}
	}
	if !all {
		return left, left, nil
	}
	planned, err := p.jobEntities(ctx, x, o)
	if err != nil {
		return nil, nil, err
	}
	took = make(map[workflow.EntityKey]bool, len(planned.Jobs))
	for _, j := range planned.Jobs {
		took[j.Key()] = true
	}
	return left, took, nil
}

// leftBefore returns the entities that have left a step around a step run, or whose repetition it is, with the
// number of the step run in which.
func (p *Planner) leftBefore(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (map[workflow.EntityKey]int, error) {
	leftAt := map[workflow.EntityKey]int{}
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		redoes := p.redoes(x, o, leftAt)
		if !o.Broke && !redoes || !p.isRepetitionAfter(x, r, o, p.Program.RepeatAround(o.StepIndex)) {
			continue
		}
		left, took, err := p.leftIn(ctx, x, r.Try, o, redoes)
		if err != nil {
			return nil, err
		}
		for key := range took {
			before := x.StepRunBySeq(leftAt[key])
			switch {
			case left[key]:
				leftAt[key] = o.Seq
			case before != nil && p.placeOf(x, before) == p.placeOf(x, o):
				delete(leftAt, key) // a later try has done that again
			}
		}
	}
	return leftAt, nil
}

// redoes reports whether a step run may do again, in a later try, what somebody has left a step around in.
func (p *Planner) redoes(x *workflow.Execution, o *workflow.StepRun, leftAt map[workflow.EntityKey]int) bool {
	if o.Try <= 1 || len(leftAt) == 0 || !o.HasJobs() || !o.Forward() {
		return false
	}
	for _, seq := range leftAt {
		if before := x.StepRunBySeq(seq); before.Try < o.Try && before.StepIndex == o.StepIndex && p.placeOf(x, before) == p.placeOf(x, o) {
			return true
		}
	}
	return false
}

// outOfRepetition returns entities that take no part in a repetition, because they have left it or took no part in the one
// before. It need not name all.
func (p *Planner) outOfRepetition(ctx context.Context, x *workflow.Execution, r, previous *workflow.StepRun, left map[workflow.EntityKey]int) (map[workflow.EntityKey]bool, error) {
	if r.Undoes > 0 || !p.Program.Node(r.StepIndex).OnEntities() {
		return nil, nil
	}
	others := make(map[workflow.EntityKey]bool, len(left))
	for key := range left {
		others[key] = true
	}
	if previous == nil || previous.Part == nil || r.OnlyFailed { // in a retry, who keeps a result joins later
		return others, nil
	}
	held, err := p.Entities(ctx, x.ScopeOf(previous))
	if err != nil {
		return nil, err
	}
	for _, e := range entitiesOfType(held, p.Program.Node(r.StepIndex).RunOn) {
		if !previous.Part.Contains(e.Place) {
			others[e.Key] = true
		}
	}
	return others, nil
}

// leaveRepeats excludes the entities that have left repetitions. all reports whether r is one, and all who took part in
// the one before have left, of those that its try is about.
func (p *Planner) leaveRepeats(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, leftAt map[workflow.EntityKey]int, s *exprScope) (all bool, err error) {
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
	last := map[workflow.EntityKey]bool{} // who took part in the repetition before
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !o.HasJobs() || !p.Program.Nodes[o.StepIndex].OnEntities() || !p.isRepetitionAfter(x, r, o, r.StepIndex) || x.RepetitionAround(r.StepIndex, o) != r.Iteration-1 {
			continue
		}
		_, took, err := p.leftIn(ctx, x, r.Try, o, true)
		if err != nil {
			return false, err
		}
		maps.Copy(last, took)
	}
	held, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return false, err
	}
	for i := range held {
		key := held[i].Key
		if !last[key] {
			continue
		}
		lost := false
		for _, excluded := range s.excluded {
			lost = lost || excluded[key]
		}
		if !lost {
			return false, nil
		}
		_, left := leftAt[key]
		all = all || left
	}
	return all, nil
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
		if c.StepIndex == around && c.Forward() && before.Seq < c.Seq && c.Seq <= now.Seq && c.Iteration <= 1 && c.Try == before.Try && p.placeOf(x, c) == p.placeOf(x, before) {
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
