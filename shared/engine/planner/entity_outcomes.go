package planner

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// EntityOutcomes judges every entity of the execution's scope by its jobs. For a step run all of
// whose jobs ended OK it reads no packs. Entities that this try does not work on keep their
// outcome.
func (p *Planner) EntityOutcomes(ctx context.Context, x *workflow.Execution, executionFails bool) (*lifecycle.Outcomes, error) {
	stopped, err := p.stopped(ctx, x)
	if err != nil {
		return nil, err
	}
	entities, err := p.Entities(ctx, x.Scope)
	if err != nil {
		return nil, err
	}
	found := &lifecycle.Outcomes{ExecutionFails: executionFails}
	places := map[workflow.EntityOutcome][]int{}
	var undoable []int
	var named []workflow.EntityFailure
	undoSeqs := map[int]bool{}
	err = p.judge(ctx, x, entities, executionFails, stopped, func(e *workflow.ScopeEntity, own []lifecycle.EntityJob, v lifecycle.Judgement) {
		if v.Undoable && p.Program.Config.Rollback != workflow.RollbackNever {
			undoable = append(undoable, e.Place)
			for _, j := range own {
				if j.Executed && !j.StepRun.Pure && j.Undo == lifecycle.NotUndone {
					undoSeqs[j.StepRun.Seq] = true
				}
			}
		}
		if v.Outcome == workflow.EntitySucceeded {
			return
		}
		places[v.Outcome] = append(places[v.Outcome], e.Place)
		if why := v.Reason(); why != nil {
			named = append(named, workflow.EntityFailure{
				Entity: e.Key.String(), Outcome: v.Outcome, Step: why.Step, Code: why.Code, Message: workflow.Truncate(why.Message, workflow.MaxShortMessage),
			})
		}
	})
	if err != nil {
		return nil, err
	}
	for _, seq := range p.toUndo(x, stopped) {
		undoSeqs[seq] = true
	}
	found.Unsafe = workflow.NewPlaces(places[workflow.EntityFailedUnsafe]...)
	found.Result = newResult(x, entities, places, named)
	if !executionFails {
		found.Undo = newUndo(x, workflow.NewPlaces(undoable...), undoSeqs)
	}
	return found, nil
}

// maxUndoBytes bounds the encoded size of the set of entities to undo. The state item reserves space
// for it.
const maxUndoBytes = 24 << 10

// newUndo returns what to undo of the step runs with the given numbers, newest first. It is nil if there
// is nothing, or if the set of entities is too large.
func newUndo(x *workflow.Execution, entities workflow.Places, seqs map[int]bool) *workflow.Undo {
	if len(seqs) == 0 || len(entities.String()) > maxUndoBytes {
		return nil
	}
	undo := &workflow.Undo{Entities: entities}
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		if seq := x.StepRuns[i].Seq; seqs[seq] {
			undo.StepRuns = append(undo.StepRuns, seq)
		}
	}
	return undo
}

// judge calls each for every one of the entities with its jobs and what they mean for it.
func (p *Planner) judge(ctx context.Context, x *workflow.Execution, entities []workflow.ScopeEntity, executionFails bool, stopped *stoppedWaves, each func(*workflow.ScopeEntity, []lifecycle.EntityJob, lifecycle.Judgement)) error {
	jobs, err := p.entityJobs(ctx, x, entities)
	if err != nil {
		return err
	}
	rules := lifecycle.JudgeRules{
		ExecutionFails: executionFails, Leave: p.Program.Config.OnEntityFailure == spec.OnEntityFailureLeave,
		Handled: func(r *workflow.StepRun) bool { return r.Handled > 0 || p.Program.ContinuesOnError(r.StepIndex) },
		RoundOf: x.RoundOf,
	}
	onlyLocked := map[string]bool{} // types of entities
	for entityType := range x.Scope.Counts {
		onlyLocked[entityType] = !p.Program.RunsOn(entityType)
	}
	for i := range entities {
		e := &entities[i]
		rules.Unfinished, rules.OnlyLocked = stopped.leaves(e.Key), onlyLocked[e.Key.Type]
		own := jobs[e.Key]
		each(e, own, lifecycle.JudgeEntity(own, rules))
	}
	return nil
}

// newResult returns the result with its sets, or nil if all entities succeeded.
func newResult(x *workflow.Execution, entities []workflow.ScopeEntity, places map[workflow.EntityOutcome][]int, named []workflow.EntityFailure) *workflow.Result {
	r := &workflow.Result{Sets: workflow.OutcomeSets{}, Count: map[workflow.EntityOutcome]int{}}
	if only := x.Scope.Only; only != nil && x.Result != nil {
		for outcome, set := range x.Result.Sets {
			if rest := set.Without(*only); rest.Len() > 0 {
				r.Sets[outcome] = rest
			}
		}
	}
	for outcome, all := range places {
		r.Sets[outcome] = r.Sets[outcome].With(workflow.NewPlaces(all...))
	}
	for outcome, set := range r.Sets {
		r.Count[outcome] = set.Len()
	}
	if x.Scope.Only != nil && x.Result != nil { // entities named by an earlier try that this one does not work on
		for _, f := range x.Result.Named {
			if !slices.ContainsFunc(entities, func(e workflow.ScopeEntity) bool { return e.Key.String() == f.Entity }) {
				named = append(named, f)
			}
		}
	}
	worst := func(o workflow.EntityOutcome) int { return -slices.Index(workflow.EntityOutcomes(), o) }
	slices.SortStableFunc(named, func(a, b workflow.EntityFailure) int { return worst(a.Outcome) - worst(b.Outcome) })
	r.Named = named[:min(len(named), workflow.MaxNamedFailures)]
	if len(r.Count) == 0 {
		return nil
	}
	return r
}

// entityJobs collects the jobs of the entities, ordered by step run.
func (p *Planner) entityJobs(ctx context.Context, x *workflow.Execution, entities []workflow.ScopeEntity) (map[workflow.EntityKey][]lifecycle.EntityJob, error) {
	all := make(map[workflow.EntityKey][]lifecycle.EntityJob, len(entities))
	for i := range entities {
		all[entities[i].Key] = nil
	}
	undone, err := p.undoneJobs(ctx, x)
	if err != nil {
		return nil, err
	}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if r.Kind != workflow.JobExecute || !p.Program.Nodes[r.StepIndex].OnEntities() || r.Jobs+r.Unmet == 0 {
			continue
		}
		planned, err := p.jobEntities(ctx, x, r)
		if err != nil {
			return nil, err
		}
		records, unsuccessful, err := p.unsuccessfulRecords(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, u := range planned.Unmet {
			if own, known := all[u.Entity]; known {
				all[u.Entity] = append(own, lifecycle.EntityJob{StepRun: r, Code: workflow.JobCodeFail, Failure: u.Failure})
			}
		}
		for _, j := range planned.Jobs {
			own, known := all[*j.Entity]
			if !known {
				continue
			}
			job := lifecycle.EntityJob{StepRun: r, Code: workflow.JobCodeOK, Executed: true}
			if rec, recorded := records[j.Index]; unsuccessful[j.Index/max(1, r.PackSize)] {
				job.Code, job.Failure, job.Executed = rec.Code, rec.Failure, recorded && rec.Executed()
			}
			if u, ok := undone[jobOf{r.Seq, *j.Entity}]; ok {
				job.Undo, job.UndoFailure, job.UndoTry, job.UndoUnsent = u.state, u.failure, u.try, u.unsent
			}
			all[*j.Entity] = append(own, job)
		}
	}
	return all, nil
}

// unsuccessfulRecords reads the job records of those lanes of a step run in which some job did not
// end OK.
func (p *Planner) unsuccessfulRecords(ctx context.Context, r *workflow.StepRun) (records map[int]workflow.JobRecord, lanes map[int]bool, err error) {
	if r.Counts.OK == r.Jobs || r.Jobs == 0 {
		return nil, nil, nil
	}
	packs, lanes, err := p.Dispatcher.ReadUnsuccessful(ctx, p.bareStepRun(r))
	return plan.LatestRecords(packs), lanes, err
}

// jobOf identifies the job of an entity in a step run.
type jobOf struct {
	seq    int
	entity workflow.EntityKey
}

type undoResult struct {
	state   lifecycle.UndoState
	failure *workflow.Failure
	unsent  bool // the block was not called
	try     int
}

// undoneJobs returns the results of rolling back jobs. A rollback that was not executed for an
// entity has changed nothing about it.
func (p *Planner) undoneJobs(ctx context.Context, x *workflow.Execution) (map[jobOf]undoResult, error) {
	undone := map[jobOf]undoResult{}
	for i := range x.StepRuns {
		u := &x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Jobs == 0 || u.Child != nil {
			continue
		}
		planned, err := p.Plan(ctx, x, u)
		if err != nil {
			return nil, err
		}
		records, unsuccessful, err := p.unsuccessfulRecords(ctx, u)
		if err != nil {
			return nil, err
		}
		for _, j := range planned.Jobs {
			if j.Entity == nil {
				continue
			}
			key := jobOf{u.Undoes, *j.Entity}
			switch rec := records[j.Index]; {
			case !unsuccessful[j.Index/max(1, u.PackSize)], rec.Code == workflow.JobCodeOK:
				undone[key] = undoResult{state: lifecycle.Undone}
			case rec.Executed():
				undone[key] = undoResult{state: lifecycle.UndoFailed, failure: rec.Failure, try: u.Try}
			case rec.Failure != nil: // the call could not be made
				undone[key] = undoResult{state: lifecycle.UndoFailed, failure: rec.Failure, try: u.Try, unsent: true}
			}
		}
	}
	return undone, nil
}
