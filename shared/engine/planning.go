package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// resultSet is what one step run returned: results by entity id ("" for a global
// step), and the entities on which it did not come to OK.
type resultSet struct {
	results map[string]json.RawMessage
	failed  map[workflow.EntityKey]bool
}

// plan answers NeedPlan for the draft.
func (w *work) plan(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.planFor(ctx, draft, n)
	if err != nil {
		return err
	}
	if w.facts.Plans == nil {
		w.facts.Plans = map[lifecycle.Need]*lifecycle.Plan{}
	}
	w.facts.Plans[n] = &p.Plan
	return nil
}

// planFor makes the plan of a step, or of the wave that undoes a run. Everything
// it reads is immutable once the step is entered, so a plan is made again rather
// than stored; until then it holds only as long as no commit is lost.
func (w *work) planFor(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (lifecycle.Planned, error) {
	if p, ok := w.planned[n]; ok {
		return p, nil
	}
	if w.facts.Resolved == nil {
		if err := w.resolve(ctx); err != nil {
			return lifecycle.Planned{}, err
		}
	}
	if w.facts.Resolved.Problem != nil {
		return lifecycle.Planned{}, workflow.Errorf(workflow.CodeInternal, "%s", w.facts.Resolved.Problem.Message)
	}
	var p lifecycle.Planned
	var err error
	if n.Undoes > 0 {
		p, err = w.planUndo(ctx, x, n)
	} else {
		p, err = w.planStep(ctx, x, n.Step)
	}
	if err == nil {
		w.planned[n] = p
	}
	return p, err
}

func (w *work) planStep(ctx context.Context, x *workflow.Execution, step int) (lifecycle.Planned, error) {
	in, err := w.loadInput(ctx)
	if err != nil {
		return lifecycle.Planned{}, err
	}
	entities, err := w.entities(ctx, x.Scope)
	if err != nil {
		return lifecycle.Planned{}, err
	}
	results := library.Results{}
	without := map[workflow.EntityKey]bool{}
	needed := w.library.References(step)
	total := 0
	for i := range x.Runs {
		r := &x.Runs[i]
		lost := r.Tally.Failed+r.Tally.Unknown > 0
		if r.Kind != workflow.JobExecute || r.Step >= step || (!lost && !slices.Contains(needed, r.Label)) {
			continue
		}
		set, err := w.resultsOf(ctx, x, r)
		if err != nil {
			return lifecycle.Planned{}, err
		}
		for key := range set.failed {
			without[key] = true
		}
		if slices.Contains(needed, r.Label) {
			results[r.Label] = set.results
			for _, raw := range set.results {
				total += len(raw)
			}
		}
		if total > w.e.MaxResults {
			return lifecycle.Planned{Plan: lifecycle.Plan{Cause: workflow.CauseLimit, Problem: &workflow.Failure{
				Code: string(workflow.CodeLimit), Step: w.steps()[step].Label,
				Message: fmt.Sprintf("the results of step %q that the expressions refer to exceed %d bytes", r.Label, w.e.MaxResults),
			}}}, nil
		}
	}
	bound := w.library.Bind(w.facts.Resolved.Blocks, in.Parameters, results, x)
	return lifecycle.PlanStep(step, &w.steps()[step], bound, entities, without), nil
}

func (w *work) planUndo(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (lifecycle.Planned, error) {
	for i := range x.Runs {
		r := &x.Runs[i]
		if r.RunSeq != n.Undoes {
			continue
		}
		executed, packs, err := w.executed(ctx, x, r)
		if err != nil {
			return lifecycle.Planned{}, err
		}
		return lifecycle.PlanUndo(executed, packs), nil
	}
	return lifecycle.Planned{}, workflow.Errorf(workflow.CodeInternal, "there is no step run %d to undo", n.Undoes)
}

// executed is a run's plan with all of its packs.
func (w *work) executed(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (lifecycle.Planned, []*workflow.Pack, error) {
	planned, err := w.planFor(ctx, x, lifecycle.Need{Kind: lifecycle.NeedPlan, Step: r.Step, Undoes: r.Undoes})
	if err != nil {
		return planned, nil, err
	}
	packs, err := w.delivery().Read(ctx, &delivery.Run{Tenant: w.tenant, Execution: w.id, Step: r})
	return planned, packs, err
}

// resultsOf reads what a run that has ended returned.
func (w *work) resultsOf(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (resultSet, error) {
	if set, ok := w.results[r.RunSeq]; ok {
		return set, nil
	}
	set := resultSet{results: map[string]json.RawMessage{}, failed: map[workflow.EntityKey]bool{}}
	if r.Jobs > 0 {
		planned, packs, err := w.executed(ctx, x, r)
		if err != nil {
			return set, err
		}
		latest := lifecycle.Latest(packs)
		for _, j := range planned.Jobs {
			rec := latest[j.Index]
			id := ""
			if j.Entity != nil {
				id = j.Entity.ID
			}
			switch {
			case rec.Code == workflow.CodeOK && rec.Result != nil:
				set.results[id] = rec.Result
			case rec.Code != workflow.CodeOK && j.Entity != nil:
				set.failed[*j.Entity] = true
			}
		}
	}
	if w.results == nil {
		w.results = map[int]resultSet{}
	}
	w.results[r.RunSeq] = set
	return set, nil
}

func (w *work) steps() []workflow.Step { return w.facts.Resolved.Definition.Steps }

// run is a committed step run as the delivery protocol sees it. Its jobs are
// planned when somebody needs them.
func (w *work) run(ctx context.Context, r *workflow.StepRun) (*delivery.Run, error) {
	if w.facts.Resolved == nil {
		if err := w.resolve(ctx); err != nil {
			return nil, err
		}
	}
	s := &w.steps()[r.Step]
	b := w.facts.Resolved.Blocks[s.FunctionBlock]
	timeout := s.Timeout
	for _, d := range []workflow.Duration{b.Timeout, workflow.Duration(w.e.JobTimeout)} {
		if timeout == 0 {
			timeout = d
		}
	}
	pool := r.Pool
	if pool == "" {
		pool = defaultPool
	}
	step := *r
	return &delivery.Run{
		Tenant: w.tenant, Execution: w.id, Step: &step,
		Work: workflow.Work{
			Kind: r.Kind, Block: r.Block, Step: r.Label, Pool: pool,
			Pure: r.Pure, Idempotent: r.Idempotent, Timeout: timeout,
			HTTP: b.HTTP, Retry: s.Retry, Lanes: r.Lanes(),
		},
		Jobs: func(ctx context.Context) ([]workflow.JobInput, error) {
			p, err := w.planFor(ctx, w.x, lifecycle.Need{Kind: lifecycle.NeedPlan, Step: step.Step, Undoes: step.Undoes})
			return p.Jobs, err
		},
	}, nil
}

// defaultPool serves blocks that name none: the stock worker's.
const defaultPool = "default"
