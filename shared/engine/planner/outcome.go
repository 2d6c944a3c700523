package planner

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// outcome is the result of the jobs of one step run, by entity or item. The zero key stands for a
// step that has neither.
type outcome struct {
	results     map[workflow.EntityKey]json.RawMessage
	ok          map[workflow.EntityKey]bool
	failed      map[workflow.EntityKey]bool // ended, and not OK
	notExecuted map[workflow.EntityKey]bool // failed because they were never executed
	pending     map[workflow.EntityKey]bool // no job has ended yet
	broke       map[workflow.EntityKey]bool // of those that are OK: answered BREAK
	updates     []laneUpdate
	payloadRefs map[workflow.EntityKey]workflow.PayloadRef // large results that have not been loaded
}

// size returns the size of the results in bytes, loaded or not.
func (o *outcome) size() (n int) {
	for _, r := range o.results {
		n += len(r)
	}
	for _, s := range o.payloadRefs {
		n += s.Bytes
	}
	return n
}

// loadResults loads results that are too large for their packs.
func (p *Planner) loadResults(ctx context.Context, o *outcome) error {
	for key, s := range o.payloadRefs {
		result, err := p.Dispatcher.Packs.LoadPayload(ctx, *s.Pack, s)
		if err != nil {
			return err
		}
		o.results[key] = result
		delete(o.payloadRefs, key)
	}
	return nil
}

// laneUpdate is an update that a job of a lane requests. It may be for another entity than the
// job's.
type laneUpdate struct {
	lane      int
	jobEntity workflow.EntityKey
	update    workflow.Update
}

func newOutcome() *outcome {
	return &outcome{
		results: map[workflow.EntityKey]json.RawMessage{}, ok: map[workflow.EntityKey]bool{}, failed: map[workflow.EntityKey]bool{},
		pending: map[workflow.EntityKey]bool{}, notExecuted: map[workflow.EntityKey]bool{}, payloadRefs: map[workflow.EntityKey]workflow.PayloadRef{},
		broke: map[workflow.EntityKey]bool{},
	}
}

// loadOutcome reads the outcome of a step run. If the step run is still open, in a pipeline, it
// reads the outcome so far.
func (p *Planner) loadOutcome(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (*outcome, error) {
	if o, ok := p.outcomes[r.Seq]; ok {
		return o, nil
	}
	o := newOutcome()
	if r.Jobs+r.Unmet > 0 && r.HasJobs() {
		packs, err := p.Dispatcher.ReadPacks(ctx, p.bareStepRun(r))
		if err != nil {
			return nil, err
		}
		planned, err := p.jobsIn(ctx, x, r, packs)
		if err != nil {
			return nil, err
		}
		if err := o.collect(r, planned.Jobs, packs); err != nil {
			return nil, err
		}
		o.addUnmet(planned.Unmet)
	}
	if !r.Open() {
		if p.outcomes == nil {
			p.outcomes = map[int]*outcome{}
		}
		p.outcomes[r.Seq] = o
	}
	return o, nil
}

// loadLost reads who failed in a step run. Of one that has ended outside pipelines it reads no packs but those of the
// lanes in which somebody did, so that the others are not in the outcome.
func (p *Planner) loadLost(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (*outcome, error) {
	if r.Open() || r.Pipeline > 0 || p.outcomes[r.Seq] != nil {
		return p.loadOutcome(ctx, x, r)
	}
	if o, ok := p.lost[r.Seq]; ok {
		return o, nil
	}
	packs, lanes, err := p.Dispatcher.ReadUnsuccessful(ctx, p.bareStepRun(r))
	if err != nil {
		return nil, err
	}
	planned, err := p.jobEntities(ctx, x, r)
	if err != nil {
		return nil, err
	}
	o := newOutcome()
	jobs := slices.DeleteFunc(slices.Clone(planned.Jobs), func(j workflow.JobInput) bool { return !lanes[j.Index/max(1, r.PackSize)] })
	if err := o.collect(r, jobs, packs); err != nil {
		return nil, err
	}
	o.addUnmet(planned.Unmet)
	if p.lost == nil {
		p.lost = map[int]*outcome{}
	}
	p.lost[r.Seq] = o
	return o, nil
}

// stepRunPart is a step run, and the number of the first of some entities.
type stepRunPart struct{ seq, from int }

// loadPart reads the outcome of an earlier step run for the entities of a lane only. It is nil if s is not of one
// lane, or it is not known in which packs they are.
func (p *Planner) loadPart(ctx context.Context, x *workflow.Execution, r, o *workflow.StepRun, s *exprScope) (*outcome, error) {
	if !s.ofLane || !p.numbersKnown(x, r, o) {
		return nil, nil
	}
	from := s.request.From
	part := stepRunPart{o.Seq, from}
	if got := p.parts[part]; got != nil {
		return got, nil
	}
	var jobs []workflow.JobInput
	var lanes []int
	for i := range s.entities {
		e, number := &s.entities[i], from+i
		if o.Part != nil {
			if number = o.Part.Before(e.Place); !o.Part.Contains(e.Place) {
				continue
			}
		}
		jobs = append(jobs, workflow.JobInput{Index: number, Entity: &e.Key})
		if lane := number / o.PackSize; !slices.Contains(lanes, lane) {
			lanes = append(lanes, lane)
		}
	}
	packs, err := p.Dispatcher.ReadLanes(ctx, p.bareStepRun(o), lanes)
	if err != nil {
		return nil, err
	}
	if o.Pipeline > 0 { // who takes no part has no record
		records := plan.LatestRecords(packs)
		jobs = slices.DeleteFunc(jobs, func(j workflow.JobInput) bool { _, recorded := records[j.Index]; return !recorded })
	}
	got := newOutcome()
	if err := got.collect(o, jobs, packs); err != nil {
		return nil, err
	}
	if p.parts == nil {
		p.parts = map[stepRunPart]*outcome{}
	}
	p.parts[part] = got
	return got, nil
}

// jobsIn returns the jobs of a step run whose packs have been read. Only their indexes and entities are valid. A
// step run of a pipeline is not planned if each of its jobs has a record: its jobs have the numbers of their entities.
func (p *Planner) jobsIn(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, packs []*workflow.Pack) (plan.JobPlan, error) {
	records := plan.LatestRecords(packs)
	if c := r.Counts; r.Pipeline == 0 || r.Kind != workflow.JobExecute || r.Open() || r.Unmet > 0 || len(records) != c.OK+c.Failed+c.Unknown+c.NotExecuted {
		return p.jobEntities(ctx, x, r)
	}
	all, err := p.entitiesOf(ctx, x, r)
	if err != nil {
		return plan.JobPlan{}, err
	}
	var planned plan.JobPlan
	for _, i := range slices.Sorted(maps.Keys(records)) {
		if i >= len(all) {
			return p.jobEntities(ctx, x, r)
		}
		planned.Jobs = append(planned.Jobs, workflow.JobInput{Index: i, Entity: &all[i].Key})
	}
	return planned, nil
}

// entitiesOf returns the entities of the type of a step run's step, in its wave, whether they take part or not.
func (p *Planner) entitiesOf(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) ([]workflow.ScopeEntity, error) {
	held, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return nil, err
	}
	return p.inWave(ctx, x, r, entitiesOfType(held, p.Program.Nodes[r.StepIndex].RunOn))
}

// inPart returns the entities that a step run says take part; all if it does not say.
func inPart(r *workflow.StepRun, all []workflow.ScopeEntity) []workflow.ScopeEntity {
	if r.Part == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(e workflow.ScopeEntity) bool { return !r.Part.Contains(e.Place) })
}

// entitiesOfType returns the entities of one type. A scope is ordered by key, so they are adjacent.
func entitiesOfType(entities []workflow.ScopeEntity, entityType string) []workflow.ScopeEntity {
	from := slices.IndexFunc(entities, func(e workflow.ScopeEntity) bool { return e.Key.Type == entityType })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(entities) && entities[to].Key.Type == entityType {
		to++
	}
	return entities[from:to:to]
}

// jobEntities returns the jobs of a step run. Only their indexes and entities are valid.
//
// If all entities take part, or the step run says who does, no plan is needed. If as many take part as in the previous repetition,
// the plan of the first such repetition is used. Otherwise a step that has been repeated a thousand
// times would be planned a thousand times, each time from the results of the previous repetition.
func (p *Planner) jobEntities(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.JobPlan, error) {
	if n := &p.Program.Nodes[r.StepIndex]; r.Kind == workflow.JobExecute && n.Foreach != nil {
		if r.Jobs < r.Items {
			return p.Plan(ctx, x, r)
		}
		jobs := make([]workflow.JobInput, r.Jobs)
		for i := range jobs {
			jobs[i] = workflow.JobInput{Index: i, Item: &workflow.Item{Number: i}}
		}
		return plan.JobPlan{Jobs: jobs}, nil
	}
	if r.Kind == workflow.JobExecute && r.Pipeline == 0 {
		runOn := p.Program.Nodes[r.StepIndex].RunOn
		if runOn == "" || runOn == workflow.RunOnGlobal {
			return plan.JobPlan{Jobs: make([]workflow.JobInput, r.Jobs)}, nil // one job without an entity
		}
		all, err := p.entitiesOf(ctx, x, r)
		if err != nil {
			return plan.JobPlan{}, err
		}
		all = inPart(r, all)
		if len(all) == r.Jobs {
			jobs := make([]workflow.JobInput, len(all))
			for i := range all {
				jobs[i] = workflow.JobInput{Index: i, Entity: &all[i].Key}
			}
			return plan.JobPlan{Jobs: jobs}, nil
		}
		r = firstWithSameJobs(x, r)
	}
	return p.Plan(ctx, x, r)
}

// firstWithSameJobs returns the first repetition of a step run that has the same jobs. Only
// entities that had a job in one repetition, or failed an assertion there, have a job in the next.
// So while no entity fails an assertion, repetitions with the same number of jobs have the same
// jobs. This does not hold in a retry of failed entities: there, entities that keep their result
// join later.
func firstWithSameJobs(x *workflow.Execution, r *workflow.StepRun) *workflow.StepRun {
	for r.Iteration > 1 && r.Unmet == 0 && !r.OnlyFailed {
		before := previousRepetition(x, r)
		if before == nil || before.Jobs != r.Jobs || before.Unmet > 0 {
			break
		}
		r = before
	}
	return r
}

// previousRepetition returns the previous repetition of a step run's step; nil if there is none. If
// a surrounding step repeats too, it returns the latest one.
func previousRepetition(x *workflow.Execution, r *workflow.StepRun) *workflow.StepRun {
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		o := &x.StepRuns[i]
		if o.Seq < r.Seq && o.Forward() && o.StepIndex == r.StepIndex && o.Try == r.Try && o.Iteration == r.Iteration-1 {
			return o
		}
	}
	return nil
}

// laneOutcomes holds the outcomes of one lane in the step runs of its pipeline, as far as one call
// has read them. lane is -1 for all lanes.
type laneOutcomes struct {
	lane  int
	bySeq map[int]*outcome
}

// laneOutcome reads the outcome of a lane in an earlier step run of its pipeline.
func (p *Planner) laneOutcome(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane *laneOutcomes) (*outcome, error) {
	if lane.lane < 0 {
		return p.loadOutcome(ctx, x, r)
	}
	if known, ok := lane.bySeq[r.Seq]; ok {
		return known, nil
	}
	planned, err := p.planLane(ctx, x, r, lane)
	if err != nil {
		return nil, err
	}
	packs, err := p.Dispatcher.ReadLane(ctx, p.bareStepRun(r), lane.lane)
	if err != nil {
		return nil, err
	}
	o := newOutcome()
	if err := o.collect(r, planned.Jobs, packs); err != nil {
		return nil, err
	}
	o.addUnmet(planned.Unmet)
	lane.bySeq[r.Seq] = o
	return o, nil
}

// participants returns the entities whose jobs have ended.
func (o *outcome) participants() map[workflow.EntityKey]bool {
	all := maps.Clone(o.ok)
	maps.Copy(all, o.failed)
	return all
}

// collect adds the latest record of each job.
func (o *outcome) collect(r *workflow.StepRun, jobs []workflow.JobInput, packs []*workflow.Pack) error {
	latest := plan.LatestRecords(packs)
	for _, j := range jobs {
		key := j.Key()
		rec, ok := latest[j.Index]
		if !ok && r.Open() {
			o.pending[key] = true
			continue
		}
		if rec.Code != workflow.JobCodeOK {
			o.failed[key] = true
			if !rec.Executed() {
				o.notExecuted[key] = true
			}
			continue
		}
		o.ok[key] = true
		if rec.Outcome == statemachines.OutcomeBreak {
			o.broke[key] = true
		}
		switch {
		case rec.Result != nil:
			o.results[key] = rec.Result
		case rec.ResultRef != nil:
			o.payloadRefs[key] = *rec.ResultRef
		}
		if len(rec.Updates) > 0 {
			var updates []workflow.Update
			if err := json.Unmarshal(rec.Updates, &updates); err != nil {
				return workflow.Errorf(workflow.CodeInternal, "the updates of a job of step %q cannot be decoded: %w", r.Label, err)
			}
			for _, u := range updates {
				o.updates = append(o.updates, laneUpdate{j.Index / max(1, r.PackSize), key, u})
			}
		}
	}
	return nil
}

// anyBreaks reports whether a job has answered BREAK.
func anyBreaks(packs []*workflow.Pack) bool {
	for _, record := range plan.LatestRecords(packs) {
		if record.Outcome == statemachines.OutcomeBreak {
			return true
		}
	}
	return false
}

// addUnmet adds the entities that failed an assertion. They have no job.
func (o *outcome) addUnmet(unmet []plan.UnmetEntity) {
	for _, u := range unmet {
		o.failed[u.Entity], o.notExecuted[u.Entity] = true, true
	}
}

// Updates returns the updates that the jobs of a step run request, in job order.
func (p *Planner) Updates(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) ([]workflow.Update, error) {
	o, err := p.loadOutcome(ctx, x, r)
	if err != nil {
		return nil, err
	}
	return o.requestedUpdates(), nil
}

// requestedUpdates returns the updates without their lanes, in job order.
func (o *outcome) requestedUpdates() []workflow.Update {
	updates := make([]workflow.Update, len(o.updates))
	for i, u := range o.updates {
		updates[i] = u.update
	}
	return updates
}

// bareStepRun returns a step run that can only read packs: it cannot plan jobs.
func (p *Planner) bareStepRun(r *workflow.StepRun) *dispatch.StepRun {
	return &dispatch.StepRun{Tenant: p.Tenant, Execution: p.Execution, Step: r}
}

// effectiveOutcome returns the outcome of a step run as it stands in a later try. It lacks the
// entities for which the step run was undone, or for which a rollback was executed that may have
// failed.
func (p *Planner) effectiveOutcome(ctx context.Context, x *workflow.Execution, try int, o *workflow.StepRun) (*outcome, error) {
	got, err := p.loadOutcome(ctx, x, o)
	if err != nil || o.Try >= try {
		return got, err
	}
	undone := map[workflow.EntityKey]bool{}
	for i := range x.StepRuns {
		u := &x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Undoes != o.Seq || u.Try >= try {
			continue
		}
		touched, err := p.loadOutcome(ctx, x, u)
		if err != nil {
			return nil, err
		}
		for key := range touched.participants() {
			if !touched.notExecuted[key] {
				undone[key] = true
			}
		}
	}
	if len(undone) == 0 {
		return got, nil
	}
	remaining := &outcome{
		results: maps.Clone(got.results), ok: maps.Clone(got.ok), failed: got.failed, notExecuted: got.notExecuted, pending: got.pending, payloadRefs: maps.Clone(got.payloadRefs), broke: maps.Clone(got.broke),
		updates: slices.DeleteFunc(slices.Clone(got.updates), func(u laneUpdate) bool { return undone[u.jobEntity] }),
	}
	for key := range undone {
		delete(remaining.results, key)
		delete(remaining.ok, key)
		delete(remaining.broke, key)
		delete(remaining.payloadRefs, key)
	}
	return remaining, nil
}
