package planner

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// outcome is what came of the jobs of one visit, by entity; the zero key stands
// for a step without entities.
type outcome struct {
	results map[workflow.EntityKey]json.RawMessage
	ok      map[workflow.EntityKey]bool
	failed  map[workflow.EntityKey]bool // over, and not OK
	idle    map[workflow.EntityKey]bool // of the failed: never begun
	pending map[workflow.EntityKey]bool // nobody has come to it yet
	updates []lanedUpdate
	stored  map[workflow.EntityKey]workflow.Stored // results that have not been read yet
}

// size is how many bytes of results there are, read or not.
func (o *outcome) size() (n int) {
	for _, r := range o.results {
		n += len(r)
	}
	for _, s := range o.stored {
		n += s.Bytes
	}
	return n
}

// load reads the results that are too large for their packs.
func (p *Planner) load(ctx context.Context, o *outcome) error {
	for key, s := range o.stored {
		result, err := p.Delivery.Packs.Load(ctx, *s.Pack, s)
		if err != nil {
			return err
		}
		o.results[key] = result
		delete(o.stored, key)
	}
	return nil
}

// lanedUpdate is an update that a job of a lane asks for, of an entity that may be
// another than the job's.
type lanedUpdate struct {
	lane   int
	of     workflow.EntityKey
	update workflow.Update
}

// outcome reads what came of a visit. Of a visit that is open, in a stretch, it is
// what is there so far; lane limits that to one lane, and is -1 for all.
func (p *Planner) outcome(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (*outcome, error) {
	if o, ok := p.outcomes[r.RunSeq]; ok {
		return o, nil
	}
	o := &outcome{
		results: map[workflow.EntityKey]json.RawMessage{}, ok: map[workflow.EntityKey]bool{}, failed: map[workflow.EntityKey]bool{},
		pending: map[workflow.EntityKey]bool{}, idle: map[workflow.EntityKey]bool{}, stored: map[workflow.EntityKey]workflow.Stored{},
	}
	if r.Jobs > 0 && r.HasJobs() {
		var planned plan.Planned
		var packs []*workflow.Pack
		var err error
		if lane >= 0 {
			planned, packs, err = p.lane(ctx, x, r, lane)
		} else {
			planned, packs, err = p.Executed(ctx, x, r)
		}
		if err != nil {
			return nil, err
		}
		if err := o.collect(r, planned, packs); err != nil {
			return nil, err
		}
	}
	if !r.Open() && lane < 0 {
		p.outcomes[r.RunSeq] = o
	}
	return o, nil
}

// took lists who took part.
func (o *outcome) took() map[workflow.EntityKey]bool {
	all := maps.Clone(o.ok)
	maps.Copy(all, o.failed)
	return all
}

// lane is the plan of one lane with its packs.
func (p *Planner) lane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.Planned, []*workflow.Pack, error) {
	planned, err := p.Lane(ctx, x, r, lane)
	if err != nil {
		return planned, nil, err
	}
	packs, err := p.Delivery.ReadLane(ctx, p.run(r), lane)
	return planned, packs, err
}

func (o *outcome) collect(r *workflow.StepRun, planned plan.Planned, packs []*workflow.Pack) error {
	latest := plan.Latest(packs)
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
		if rec.Code != workflow.CodeOK {
			o.failed[key] = true
			if !rec.Executed() {
				o.idle[key] = true
			}
			continue
		}
		o.ok[key] = true
		switch {
		case rec.Result != nil:
			o.results[key] = rec.Result
		case rec.Stored != nil:
			o.stored[key] = *rec.Stored
		}
		if len(rec.Updates) > 0 {
			var updates []workflow.Update
			if err := json.Unmarshal(rec.Updates, &updates); err != nil {
				return workflow.Errorf(workflow.CodeInternal, "the updates of a job of step %q cannot be read: %w", r.Label, err)
			}
			for _, u := range updates {
				o.updates = append(o.updates, lanedUpdate{j.Index / max(1, r.PackSize), key, u})
			}
		}
	}
	return nil
}

// Updates are what the jobs of a visit ask for, in job order.
func (p *Planner) Updates(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) ([]workflow.Update, error) {
	o, err := p.outcome(ctx, x, r, -1)
	if err != nil {
		return nil, err
	}
	return o.asked(), nil
}

// asked are the updates asked for, in job order.
func (o *outcome) asked() []workflow.Update {
	updates := make([]workflow.Update, len(o.updates))
	for i, u := range o.updates {
		updates[i] = u.update
	}
	return updates
}

func (p *Planner) run(r *workflow.StepRun) *delivery.Run {
	return &delivery.Run{Tenant: p.Tenant, Execution: p.Execution, Step: r}
}
