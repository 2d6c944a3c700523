package planner

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// outcome is what came of the jobs of one visit, by entity; the zero key stands
// for a step without entities.
type outcome struct {
	results     map[workflow.EntityKey]json.RawMessage
	ok          map[workflow.EntityKey]bool
	failed      map[workflow.EntityKey]bool // over, and not OK
	notExecuted map[workflow.EntityKey]bool // of the failed: never begun
	pending     map[workflow.EntityKey]bool // nobody has come to it yet
	updates     []laneUpdate
	payloadRefs map[workflow.EntityKey]workflow.PayloadRef // results that have not been read yet
}

// size is how many bytes of results there are, read or not.
func (o *outcome) size() (n int) {
	for _, r := range o.results {
		n += len(r)
	}
	for _, s := range o.payloadRefs {
		n += s.Bytes
	}
	return n
}

// loadResults reads the results that are too large for their packs.
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

// laneUpdate is an update that a job of a lane asks for, of an entity that may be
// another than the job's.
type laneUpdate struct {
	lane      int
	jobEntity workflow.EntityKey
	update    workflow.Update
}

// loadOutcome reads what came of a visit. Of a visit that is open, in a stretch, it is
// what is there so far; lane limits that to one lane, and is -1 for all.
func (p *Planner) loadOutcome(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (*outcome, error) {
	if o, ok := p.outcomes[r.Seq]; ok {
		return o, nil
	}
	o := &outcome{
		results: map[workflow.EntityKey]json.RawMessage{}, ok: map[workflow.EntityKey]bool{}, failed: map[workflow.EntityKey]bool{},
		pending: map[workflow.EntityKey]bool{}, notExecuted: map[workflow.EntityKey]bool{}, payloadRefs: map[workflow.EntityKey]workflow.PayloadRef{},
	}
	if r.Jobs > 0 && r.HasJobs() {
		var planned plan.JobPlan
		var packs []*workflow.Pack
		var err error
		if lane >= 0 {
			planned, packs, err = p.laneWithPacks(ctx, x, r, lane)
		} else {
			planned, packs, err = p.PlanWithPacks(ctx, x, r)
		}
		if err != nil {
			return nil, err
		}
		if err := o.collect(r, planned, packs); err != nil {
			return nil, err
		}
	}
	if !r.Open() && lane < 0 {
		p.outcomes[r.Seq] = o
	}
	return o, nil
}

// participants lists who took part.
func (o *outcome) participants() map[workflow.EntityKey]bool {
	all := maps.Clone(o.ok)
	maps.Copy(all, o.failed)
	return all
}

// laneWithPacks is the plan of one lane with its packs.
func (p *Planner) laneWithPacks(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.JobPlan, []*workflow.Pack, error) {
	planned, err := p.PlanLane(ctx, x, r, lane)
	if err != nil {
		return planned, nil, err
	}
	packs, err := p.Dispatcher.ReadLane(ctx, p.bareStepRun(r), lane)
	return planned, packs, err
}

func (o *outcome) collect(r *workflow.StepRun, planned plan.JobPlan, packs []*workflow.Pack) error {
	latest := plan.LatestRecords(packs)
	for _, j := range planned.Jobs {
		var key workflow.EntityKey
		if j.Entity != nil {
			key = *j.Entity
		}
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
		switch {
		case rec.Result != nil:
			o.results[key] = rec.Result
		case rec.ResultRef != nil:
			o.payloadRefs[key] = *rec.ResultRef
		}
		if len(rec.Updates) > 0 {
			var updates []workflow.Update
			if err := json.Unmarshal(rec.Updates, &updates); err != nil {
				return workflow.Errorf(workflow.CodeInternal, "the updates of a job of step %q cannot be read: %w", r.Label, err)
			}
			for _, u := range updates {
				o.updates = append(o.updates, laneUpdate{j.Index / max(1, r.PackSize), key, u})
			}
		}
	}
	return nil
}

// Updates are what the jobs of a visit ask for, in job order.
func (p *Planner) Updates(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) ([]workflow.Update, error) {
	o, err := p.loadOutcome(ctx, x, r, -1)
	if err != nil {
		return nil, err
	}
	return o.requestedUpdates(), nil
}

// requestedUpdates are the updates asked for, in job order.
func (o *outcome) requestedUpdates() []workflow.Update {
	updates := make([]workflow.Update, len(o.updates))
	for i, u := range o.updates {
		updates[i] = u.update
	}
	return updates
}

func (p *Planner) bareStepRun(r *workflow.StepRun) *dispatch.StepRun {
	return &dispatch.StepRun{Tenant: p.Tenant, Execution: p.Execution, Step: r}
}
