package planner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Planner makes the plans of one execution.
type Planner struct {
	Tenant    string
	Execution string

	Dispatcher      *dispatch.Dispatcher
	Program         *definitions.Program
	Blocks          map[string]workflow.Block // by reference as written
	Input           func(context.Context) (*workflow.Input, error)
	Entities        func(context.Context, workflow.Scope) ([]workflow.ScopeEntity, error)
	MaxResultBytes  int           // bytes of earlier results that a step's expressions may see
	JobTimeout      time.Duration // of a block that names none
	MinFencingToken int64         // of tokens, as every message carries it

	plans    map[lifecycle.Need]plan.JobPlan
	outcomes map[int]*outcome // by RunSeq, of visits that have ended
}

// ClearCache drops what was planned together with a commit that was lost: it may
// carry tokens and attributes of locks that the run has let go and taken anew.
func (p *Planner) ClearCache() {
	if p != nil {
		p.plans, p.outcomes = nil, nil
	}
}

// Plan makes the plan of a step run. Everything it reads is immutable once the
// step is entered, so a plan is made again rather than stored; until then it holds
// only as long as no commit is lost. The whole plan of a run of a stretch is
// complete only when the stretch has ended.
func (p *Planner) Plan(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.JobPlan, error) {
	need := lifecycle.NeedForPlan(r)
	if known, ok := p.plans[need]; ok {
		return known, nil
	}
	var planned plan.JobPlan
	var err error
	switch {
	case r.Kind == workflow.JobAcquire:
		planned, err = p.planAcquire(ctx, r)
	case r.Undoes > 0:
		planned, err = p.planRollback(ctx, x, r)
	default:
		planned, err = p.planStep(ctx, x, r, -1)
	}
	if err != nil {
		return planned, err
	}
	if r.Pipeline == 0 || r.Pipeline == r.Seq {
		if p.plans == nil {
			p.plans = map[lifecycle.Need]plan.JobPlan{}
		}
		p.plans[need] = planned
	}
	return planned, nil
}

// PlanLane makes the plan of one lane of a run of a stretch, once the lane is over in
// the run before.
func (p *Planner) PlanLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.JobPlan, error) {
	return p.planStep(ctx, x, r, lane)
}

func (p *Planner) planStep(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.JobPlan, error) {
	if p.outcomes == nil {
		p.outcomes = map[int]*outcome{}
	}
	scope, err := p.buildExprScope(ctx, x, r, lane)
	var tooLarge *resultsTooLargeError
	if errors.As(err, &tooLarge) {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseLimit, Problem: tooLarge.failure}}, nil
	}
	if err != nil {
		return plan.JobPlan{}, err
	}
	if lane >= 0 {
		scope.request.From, scope.request.To = r.LaneRange(lane)
	}
	return plan.ForStep(scope.request, p.Program.Bind(r.StepIndex, p.Blocks, scope.bindings, x), scope.entities), nil
}

// ExecuteOnParameters is the executeOnParameters of a visit that starts a run.
func (p *Planner) ExecuteOnParameters(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (json.RawMessage, error) {
	scope, err := p.buildExprScope(ctx, x, r, -1)
	if err != nil {
		return nil, err
	}
	return p.Program.Bind(r.StepIndex, p.Blocks, scope.bindings, x).ExecuteOnParameters(r.StepIndex)
}

// planRollback plans the wave that undoes a visit.
func (p *Planner) planRollback(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.JobPlan, error) {
	target := x.StepRunBySeq(r.Undoes)
	if target == nil {
		return plan.JobPlan{}, workflow.Errorf(workflow.CodeInternal, "there is no step run %d to undo", r.Undoes)
	}
	executed, packs, err := p.PlanWithPacks(ctx, x, target)
	if err != nil {
		return executed, err
	}
	entities, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return plan.JobPlan{}, err
	}
	tokens := make(map[workflow.EntityKey]int64, len(entities))
	for _, e := range entities {
		tokens[e.Key] = e.Token
	}
	return plan.ForRollback(executed, packs, tokens), nil
}

// planAcquire plans the call of a block's acquire.
func (p *Planner) planAcquire(ctx context.Context, r *workflow.StepRun) (plan.JobPlan, error) {
	in, err := p.Input(ctx)
	if err != nil {
		return plan.JobPlan{}, err
	}
	params, err := p.Program.AcquireParameters(r.StepIndex, in.Parameters)
	if err == nil {
		err = p.Program.ValidateAcquireParameters(r.StepIndex, p.Blocks, params)
	}
	if err != nil {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseValidation, Problem: &workflow.Failure{ //nolint:nilerr // it is the run's problem
			Code: "PARAMETERS", Step: r.Label, Message: plan.ErrorText(err),
		}}}, nil
	}
	return plan.JobPlan{Plan: lifecycle.Plan{Jobs: 1}, Jobs: []workflow.JobInput{{Parameters: params}}}, nil
}

// PlanWithPacks is a run's plan with all of its packs.
func (p *Planner) PlanWithPacks(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.JobPlan, []*workflow.Pack, error) {
	planned, err := p.Plan(ctx, x, r)
	if err != nil {
		return planned, nil, err
	}
	packs, err := p.Dispatcher.ReadPacks(ctx, p.bareStepRun(r))
	return planned, packs, err
}
