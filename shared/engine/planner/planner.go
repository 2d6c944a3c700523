package planner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Planner makes the plans of one execution.
type Planner struct {
	Tenant    string
	Execution string

	Delivery   *delivery.Delivery
	Program    *library.Program
	Blocks     map[string]workflow.Block // by reference as written
	Input      func(context.Context) (*workflow.Input, error)
	Entities   func(context.Context, workflow.Scope) ([]workflow.Held, error)
	MaxResults int           // bytes of earlier results that a step's expressions may see
	JobTimeout time.Duration // of a block that names none
	Floor      int64         // of tokens, as every message carries it

	plans    map[lifecycle.Need]plan.Planned
	outcomes map[int]*outcome // by RunSeq, of visits that have ended
}

// Forget drops what was planned together with a commit that was lost: it may
// carry tokens and attributes of locks that the run has let go and taken anew.
func (p *Planner) Forget() {
	if p != nil {
		p.plans, p.outcomes = nil, nil
	}
}

// Plan makes the plan of a step run. Everything it reads is immutable once the
// step is entered, so a plan is made again rather than stored; until then it holds
// only as long as no commit is lost. The whole plan of a run of a stretch is
// complete only when the stretch has ended.
func (p *Planner) Plan(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.Planned, error) {
	need := lifecycle.PlanNeed(r)
	if known, ok := p.plans[need]; ok {
		return known, nil
	}
	var planned plan.Planned
	var err error
	switch {
	case r.Kind == workflow.JobAcquire:
		planned, err = p.acquire(ctx, r)
	case r.Undoes > 0:
		planned, err = p.undo(ctx, x, r)
	default:
		planned, err = p.visit(ctx, x, r, -1)
	}
	if err != nil {
		return planned, err
	}
	if r.Stretch == 0 || r.Stretch == r.RunSeq {
		if p.plans == nil {
			p.plans = map[lifecycle.Need]plan.Planned{}
		}
		p.plans[need] = planned
	}
	return planned, nil
}

// Lane makes the plan of one lane of a run of a stretch, once the lane is over in
// the run before.
func (p *Planner) Lane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.Planned, error) {
	return p.visit(ctx, x, r, lane)
}

func (p *Planner) visit(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.Planned, error) {
	if p.outcomes == nil {
		p.outcomes = map[int]*outcome{}
	}
	s, err := p.sight(ctx, x, r, lane)
	var much *tooMuch
	if errors.As(err, &much) {
		return plan.Planned{Plan: lifecycle.Plan{Cause: workflow.CauseLimit, Problem: much.failure}}, nil
	}
	if err != nil {
		return plan.Planned{}, err
	}
	if lane >= 0 {
		s.visit.From, s.visit.To = r.LaneJobs(lane)
	}
	return plan.Step(s.visit, p.Program.Bind(r.Step, p.Blocks, s.view, x), s.entities), nil
}

// On is the executeOnParameters of a visit that starts a run.
func (p *Planner) On(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (json.RawMessage, error) {
	s, err := p.sight(ctx, x, r, -1)
	if err != nil {
		return nil, err
	}
	return p.Program.Bind(r.Step, p.Blocks, s.view, x).On(r.Step)
}

// undo plans the wave that undoes a visit.
func (p *Planner) undo(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.Planned, error) {
	undone := x.RunOf(r.Undoes)
	if undone == nil {
		return plan.Planned{}, workflow.Errorf(workflow.CodeInternal, "there is no step run %d to undo", r.Undoes)
	}
	executed, packs, err := p.Executed(ctx, x, undone)
	if err != nil {
		return executed, err
	}
	entities, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return plan.Planned{}, err
	}
	held := make(map[workflow.EntityKey]int64, len(entities))
	for _, e := range entities {
		held[e.Key] = e.Token
	}
	return plan.Undo(executed, packs, held), nil
}

// acquire plans the call of a block's acquire.
func (p *Planner) acquire(ctx context.Context, r *workflow.StepRun) (plan.Planned, error) {
	in, err := p.Input(ctx)
	if err != nil {
		return plan.Planned{}, err
	}
	params, err := p.Program.AcquireParameters(r.Step, in.Parameters)
	if err == nil {
		err = p.Program.CheckAcquire(r.Step, p.Blocks, params)
	}
	if err != nil {
		return plan.Planned{Plan: lifecycle.Plan{Cause: workflow.CauseValidation, Problem: &workflow.Failure{ //nolint:nilerr // it is the run's problem
			Code: "PARAMETERS", Step: r.Label, Message: plan.Sentence(err),
		}}}, nil
	}
	return plan.Planned{Plan: lifecycle.Plan{Jobs: 1}, Jobs: []workflow.JobInput{{Parameters: params}}}, nil
}

// Executed is a run's plan with all of its packs.
func (p *Planner) Executed(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.Planned, []*workflow.Pack, error) {
	planned, err := p.Plan(ctx, x, r)
	if err != nil {
		return planned, nil, err
	}
	packs, err := p.Delivery.Read(ctx, p.run(r))
	return planned, packs, err
}
