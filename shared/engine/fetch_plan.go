package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchPlan answers NeedPlan for the draft.
func (w *workspace) fetchPlan(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	r := n.StepRun()
	planned, err := p.Plan(ctx, draft, &r)
	if err != nil {
		return err
	}
	if w.facts.Plans == nil {
		w.facts.Plans = map[lifecycle.Need]*lifecycle.Plan{}
	}
	if why := p.TooManyVariables(draft, &r); why != nil && planned.Plan.Jobs > 0 && planned.Plan.Problem == nil {
		planned.Plan = lifecycle.Plan{Cause: workflow.CauseLimit, Problem: why}
	}
	for _, v := range []**workflow.Value{&planned.Plan.Value, &planned.Plan.Question, &planned.Plan.Default} {
		if *v, err = w.offloadValue(ctx, *v); err != nil {
			return err
		}
	}
	w.facts.Plans[n] = &planned.Plan
	return nil
}

// fetchRoute answers NeedRoute for the draft.
func (w *workspace) fetchRoute(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	route, err := p.Route(ctx, draft, n)
	if err != nil {
		return err
	}
	if route.Case > 0 { // otherwise nobody keeps the value
		if route.Error, err = w.offloadValue(ctx, route.Error); err != nil {
			return err
		}
	}
	if w.facts.Routes == nil {
		w.facts.Routes = map[lifecycle.Need]*lifecycle.Route{}
	}
	w.facts.Routes[n] = route
	return nil
}

// fetchOutput answers NeedOutput for the draft.
func (w *workspace) fetchOutput(ctx context.Context, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	output, err := p.Output(ctx, draft)
	if err != nil {
		return err
	}
	if output.Value, err = w.offloadValue(ctx, output.Value); err != nil {
		return err
	}
	w.facts.Output = output
	return nil
}

// fetchJoin answers NeedJoin for the draft.
func (w *workspace) fetchJoin(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	join, err := p.Join(ctx, draft, n)
	if err != nil {
		return err
	}
	if join.Value, err = w.offloadValue(ctx, join.Value); err != nil {
		return err
	}
	if w.facts.Joins == nil {
		w.facts.Joins = map[lifecycle.Need]*lifecycle.Join{}
	}
	w.facts.Joins[n] = join
	return nil
}

// fetchAgain answers NeedAgain for the draft.
func (w *workspace) fetchAgain(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	next := p.Again
	if w.program.Nodes[n.StepIndex].Rollout != nil {
		next = p.NextWave
	}
	again, err := next(ctx, draft, n)
	if err != nil {
		return err
	}
	if w.facts.Agains == nil {
		w.facts.Agains = map[lifecycle.Need]*lifecycle.Again{}
	}
	w.facts.Agains[n] = again
	return nil
}

// ensurePlanner returns the planner of this workspace. If the execution's program has not been
// resolved yet, it does that first.
func (w *workspace) ensurePlanner(ctx context.Context) (*planner.Planner, error) {
	if w.planner != nil {
		return w.planner, nil
	}
	if w.facts.Resolution == nil {
		if err := w.fetchResolution(ctx); err != nil {
			return nil, err
		}
	}
	if p := w.facts.Resolution.Problem; p != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "%s", p.Message)
	}
	w.planner = &planner.Planner{
		Tenant: w.tenant, Execution: w.id, Dispatcher: w.dispatcher(), Program: w.program, Blocks: w.facts.Resolution.Blocks,
		Input: w.startInput, Entities: w.loadEntities, SomeEntities: w.loadSomeEntities, CallbackToken: w.callbackToken, CallbackLink: w.e.linkOf,
		MaxResultBytes: w.e.MaxResultBytes, MaxPlanCost: w.e.MaxPlanCost, JobTimeout: w.e.JobTimeout, MinFencingToken: w.e.Policy.MinFencingToken,
	}
	return w.planner, nil
}
