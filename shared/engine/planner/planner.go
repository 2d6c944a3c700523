// Package planner makes plans: the jobs of a step run, of one lane of a pipeline, of the rollback
// of a step run, and of a call of a block's acquire. It reads what a plan depends on through the
// engine's ports.
//
// planner.go makes the plans, presents step runs to package dispatch and reports them. values.go
// collects the variables and failures that expressions see, and plans the steps that set variables
// or choose a case. expr_scope.go collects the values that a step run's expressions see. outcome.go
// reads the results of earlier step runs. pipeline.go advances the lanes of a pipeline. updates.go
// collects the updates that jobs request, and rejects those that could never be applied.
//
// A planner serves one wake-up of one execution. It caches what it reads about step runs that have
// ended, because that cannot change.
package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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

	Dispatcher *dispatch.Dispatcher
	Program    *definitions.Program
	Blocks     map[string]workflow.Block // by reference as written
	Input      func(context.Context) (*workflow.Input, error)
	Entities   func(context.Context, workflow.Scope) ([]workflow.ScopeEntity, error)
	// SomeEntities reads some entities of a type, without the others if the scope can be read in parts.
	SomeEntities    func(ctx context.Context, s workflow.Scope, entityType string, from, to int) ([]workflow.ScopeEntity, error)
	CallbackToken   func(ctx context.Context, stepRunSeq int) (string, error) // CodeNotImplemented if there are no keys for it
	CallbackLink    func(token string) (string, error)                        // CodeNotImplemented if there is no address for it
	MaxResultBytes  int                                                       // bytes of earlier results that a step's expressions may read
	MaxPlanCost     uint64                                                    // for all expressions of one plan together; 0 for no limit
	JobTimeout      time.Duration                                             // for blocks that set none
	MinFencingToken int64                                                     // written into every message

	inParts bool // read the entities of a lane without the others

	plans    map[lifecycle.Need]plan.JobPlan
	scopes   map[lifecycle.Need]*exprScope // for step runs of pipelines
	outcomes map[int]*outcome              // by StepRunSeq, for step runs that have ended
	lost     map[int]*outcome              // likewise, of those who failed
	parts    map[stepRunPart]*outcome      // likewise, of the entities of a lane of a later pipeline
	values   map[string]json.RawMessage    // values of step runs, by digest
	lists    map[int][]json.RawMessage     // lists of loops and foreach, by StepRunSeq
	waves    map[int]*dividedWaves         // waves of rollouts, by StepRunSeq
	paths    map[int]*pathBefore           // by StepRunSeq
	places   map[int]lifecycle.Place       // by StepRunSeq
}

// ClearCache drops what was planned for a commit that was lost: it may contain tokens and
// attributes of locks that the execution has released and taken again.
func (p *Planner) ClearCache() {
	if p != nil {
		p.plans, p.scopes, p.outcomes, p.lost, p.parts, p.lists, p.waves, p.paths, p.places = nil, nil, nil, nil, nil, nil, nil, nil, nil
	}
}

// Plan makes the plan of a step run. Once the step run is committed, everything that the plan
// depends on is immutable, so plans are made again instead of being stored. Before that, a plan is
// valid only until a commit is lost. The plan of a pipeline's step run is complete only when the
// pipeline has ended.
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
		planned, err = p.planLane(ctx, x, r, &laneOutcomes{lane: -1})
		if committed := x.StepRunBySeq(r.Seq); err == nil && planned.Plan.Problem != nil && r.Pipeline > 0 && committed != nil {
			planned, err = p.planLanes(ctx, x, committed)
		}
	}
	if err == nil {
		err = checkSame(x.StepRunBySeq(r.Seq), &planned)
	}
	if err != nil {
		return planned, err
	}
	if r.Pipeline > 0 && r.Try == 1 && x.StepRunBySeq(r.Seq) == nil && planned.Plan.Problem == nil {
		if planned.Plan.BytesBefore, err = p.bytesBefore(ctx, x, r); err != nil {
			return planned, err
		}
	}
	if r.Pipeline == 0 || r.Pipeline == r.Seq {
		if p.plans == nil {
			p.plans = map[lifecycle.Need]plan.JobPlan{}
		}
		p.plans[need] = planned
	}
	return planned, nil
}

// WorkLostError means that a plan that was made again differs from the one that was executed. A
// plan depends only on data that cannot change, so some of them must be lost: the tables were
// restored to different moments.
type WorkLostError struct {
	StepRun     *workflow.StepRun
	PlannedJobs int
}

func (e *WorkLostError) Error() string {
	return fmt.Sprintf("step run %d of step %q has %d jobs, and %d when its plan is made again: what it did is not known",
		e.StepRun.Seq, e.StepRun.Label, e.StepRun.Jobs, e.PlannedJobs)
}

// checkSame compares a plan that was made again with the committed step run; committed is nil for
// the first plan. If they differ, the packs would belong to other entities, so it is better to
// stop.
func checkSame(committed *workflow.StepRun, planned *plan.JobPlan) error {
	if committed == nil || committed.Jobs == 0 || committed.Pipeline > 0 || planned.Plan.Problem != nil || len(planned.Jobs) == committed.Jobs {
		return nil
	}
	return &WorkLostError{StepRun: committed, PlannedJobs: len(planned.Jobs)}
}

// planLanes plans a step run of a pipeline lane by lane, as it was sent: a lane that could not be
// planned has no jobs, and the other lanes have theirs.
func (p *Planner) planLanes(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (all plan.JobPlan, err error) {
	for lane := range r.Lanes() {
		planned, err := p.planLane(ctx, x, r, &laneOutcomes{lane: lane, bySeq: map[int]*outcome{}})
		if err != nil {
			return all, err
		}
		if planned.Plan.Problem != nil {
			continue
		}
		all.Jobs, all.Unmet = append(all.Jobs, planned.Jobs...), append(all.Unmet, planned.Unmet...)
		all.Plan.Skipped += planned.Plan.Skipped
		all.Plan.Entities += planned.Plan.Entities
	}
	all.Plan.Jobs, all.Plan.Unmet = len(all.Jobs), len(all.Unmet)
	return all, nil
}

// PlanLane makes the plan of one lane of a pipeline's step run, once the lane has ended in the
// previous step run. It reads and evaluates only what concerns the entities of the lane.
func (p *Planner) PlanLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (plan.JobPlan, error) {
	if whole, ok := p.plans[lifecycle.NeedForPlan(r)]; ok {
		from, to := r.LaneRange(lane)
		at := func(index int) int {
			i, _ := slices.BinarySearchFunc(whole.Jobs, index, func(j workflow.JobInput, index int) int { return j.Index - index })
			return i
		}
		return plan.JobPlan{Plan: whole.Plan, Jobs: whole.Jobs[at(from):at(to)]}, nil
	}
	return p.planLane(ctx, x, r, &laneOutcomes{lane: lane, bySeq: map[int]*outcome{}})
}

// planLane plans a step run, or one lane of it.
func (p *Planner) planLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane *laneOutcomes) (plan.JobPlan, error) {
	var scope *exprScope
	var err error
	if r.Pipeline > 0 {
		scope, err = p.laneScope(ctx, x, r, lane)
	} else {
		scope, err = p.scopeOf(ctx, x, r)
	}
	var tooLarge *resultsTooLargeError
	if errors.As(err, &tooLarge) {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseLimit, Problem: tooLarge.failure}}, nil
	}
	if err != nil {
		return plan.JobPlan{}, err
	}
	expressions := scope.expressions.ForPlan(ctx, p.MaxPlanCost)
	var planned plan.JobPlan
	if scope.request.Node.Foreach != nil {
		planned, err = p.planItems(ctx, x, r, scope, expressions)
	} else {
		planned = plan.ForStep(scope.request, expressions, scope.entities)
		p.notePart(r, &planned, scope.entities)
	}
	if stopped := ctx.Err(); stopped != nil {
		return plan.JobPlan{}, fmt.Errorf("planning step %q for %d entities was cut off: %w", scope.request.Node.Label, len(scope.entities), stopped)
	}
	if err != nil {
		return plan.JobPlan{}, err
	}
	if r.Resumes > 0 && planned.Plan.Problem == nil && len(planned.Jobs) > 0 {
		if planned.Jobs[0].Resume, err = p.resume(ctx, x, r); err != nil {
			return plan.JobPlan{}, err
		}
	}
	if planned.Plan.Jobs > 0 && planned.Plan.Problem == nil && x.StepRunBySeq(r.Seq) == nil {
		if err := p.checkCallback(ctx, r, &planned); err != nil {
			return plan.JobPlan{}, err
		}
	}
	PlanFlow(&planned.Plan, scope.request.Node, scope.request.NodeIndex, scope.expressions, FlowParts{true, true, true, true, true})
	if n := scope.request.Node; n.Rollout != nil {
		PlanWaves(&planned.Plan, n, scope.request.NodeIndex, p.Program.WaveTypes(scope.request.NodeIndex), scope.expressions.ForPlan(ctx, p.MaxPlanCost), scope.entities, scope.request.Excluded)
		if err := ctx.Err(); err != nil {
			return plan.JobPlan{}, fmt.Errorf("dividing %d entities into the waves of step %q was cut off: %w", len(scope.entities), n.Label, err)
		}
	}
	return planned, nil
}

// ExecuteOnParameters evaluates the selector of a step run that starts a child
// execution.
func (p *Planner) ExecuteOnParameters(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (json.RawMessage, error) {
	scope, err := p.buildExprScope(ctx, x, r)
	if err != nil {
		return nil, err
	}
	return scope.expressions.ExecuteOnParameters(r.StepIndex, nil)
}

// planRollback plans the rollback wave that undoes a step run.
func (p *Planner) planRollback(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (plan.JobPlan, error) {
	target := x.StepRunBySeq(r.Undoes)
	if target == nil {
		return plan.JobPlan{}, workflow.Errorf(workflow.CodeInternal, "the step run %d to undo does not exist", r.Undoes)
	}
	executed, err := p.Plan(ctx, x, target)
	if err != nil {
		return executed, err
	}
	if target.Child != nil {
		return p.planCompensation(ctx, x, target, executed)
	}
	// A try of some entities leaves the others unchanged, because their locks are released.
	scope := x.ScopeOf(r)
	tried := scope.Only
	scope.Only = nil
	entities, err := p.Entities(ctx, scope)
	if err != nil {
		return plan.JobPlan{}, err
	}
	only := r.Only
	if committed := x.StepRunBySeq(r.Seq); committed != nil {
		only = committed.Only
	} else if only = tried; x.Undo != nil {
		only = &x.Undo.Entities
	}
	tokens := make(map[workflow.EntityKey]int64, len(entities))
	takesPart := make(map[workflow.EntityKey]bool, len(entities))
	for _, e := range entities {
		if tokens[e.Key] = e.Token; tried != nil && !tried.Contains(e.Place) {
			tokens[e.Key] = plan.Released
		}
		takesPart[e.Key] = only == nil || only.Contains(e.Place)
	}
	if only != nil {
		executed.Jobs = slices.DeleteFunc(slices.Clone(executed.Jobs), func(j workflow.JobInput) bool { return j.Entity != nil && !takesPart[*j.Entity] })
	}
	settled, err := p.settledRollbacks(ctx, x, r, only != nil)
	if err != nil {
		return plan.JobPlan{}, err
	}
	if len(settled) > 0 {
		executed.Jobs = slices.DeleteFunc(slices.Clone(executed.Jobs), func(j workflow.JobInput) bool { return settled[j.Key()] })
	}
	var lanes []int
	for _, j := range executed.Jobs {
		if lane := j.Index / max(1, target.PackSize); len(lanes) == 0 || lanes[len(lanes)-1] != lane {
			lanes = append(lanes, lane)
		}
	}
	packs, err := p.Dispatcher.ReadLanes(ctx, p.bareStepRun(target), lanes)
	planned := plan.ForRollback(executed, packs, tokens)
	if err == nil && target.Compensation != nil {
		return p.planCompensation(ctx, x, target, planned)
	}
	return planned, err
}

// settledRollbacks returns the entities or items that a rollback wave leaves out: those for which
// its step run has already been undone and, if the wave covers only some entities, those for which
// an earlier wave of the same rollback failed. The latter does not apply to items, because the
// items of two steps are unrelated.
func (p *Planner) settledRollbacks(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, onlySome bool) (map[workflow.EntityKey]bool, error) {
	var settled map[workflow.EntityKey]bool
	for i := range x.StepRuns {
		u := &x.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Seq >= r.Seq || u.Jobs == 0 || u.Child != nil {
			continue
		}
		same, earlier := u.Undoes == r.Undoes, onlySome && u.Try == r.Try && u.Counts.OK < u.Jobs
		if !same && !earlier {
			continue
		}
		got, err := p.loadOutcome(ctx, x, u)
		if err != nil {
			return nil, err
		}
		if settled == nil {
			settled = map[workflow.EntityKey]bool{}
		}
		if same {
			maps.Copy(settled, got.ok)
		}
		if earlier && p.Program.Nodes[u.StepIndex].OnEntities() {
			maps.Copy(settled, got.failed)
		}
	}
	return settled, nil
}

// planAcquire plans the call of a block's acquire.
func (p *Planner) planAcquire(ctx context.Context, r *workflow.StepRun) (plan.JobPlan, error) {
	in, err := p.Input(ctx)
	if err != nil {
		return plan.JobPlan{}, err
	}
	parameters, err := p.Program.AcquireParameters(r.StepIndex, in.Parameters)
	if err == nil {
		err = p.Program.ValidateAcquireParameters(r.StepIndex, p.Blocks, parameters)
	}
	if err != nil {
		return plan.JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseValidation, Problem: &workflow.Failure{ //nolint:nilerr // the mistake is the definition's: it fails the execution
			Code: workflow.FailureParameters, Step: r.Label, Message: plan.ErrorText(err),
		}}}, nil
	}
	return plan.JobPlan{Plan: lifecycle.Plan{Jobs: 1}, Jobs: []workflow.JobInput{{Parameters: parameters}}}, nil
}

// StepRun presents a committed step run to package dispatch. Its jobs are planned when they are
// needed.
func (p *Planner) StepRun(x *workflow.Execution, r *workflow.StepRun) *dispatch.StepRun {
	step := *r
	work := p.workOf(&step)
	work.CorrelationID, work.TraceParent = x.CorrelationID, x.TraceParent
	if len(workflow.SealedPlaces(work.Secrets)) > 0 {
		work.Sealed = x.Input.Sealed
	}
	stepRun := &dispatch.StepRun{Tenant: p.Tenant, Execution: p.Execution, Step: &step, Work: work, DueAt: x.DueAt, Restored: x.Cause == workflow.CauseRestored}
	if step.Kind != workflow.JobRollback {
		stepRun.Deadline = step.Deadline
		if at := x.Deadline; stepRun.Deadline.IsZero() || !at.IsZero() && at.Before(stepRun.Deadline) {
			stepRun.Deadline = at
		}
	}
	stepRun.Jobs = func(ctx context.Context) ([]workflow.JobInput, error) {
		planned, err := p.Plan(ctx, x, &step)
		return planned.Jobs, err
	}
	if step.Kind == workflow.JobExecute && p.Program.HasCallbackToken(step.StepIndex) {
		stepRun.Fill = func(ctx context.Context, jobs []workflow.JobInput) ([]workflow.JobInput, error) {
			return p.fillCallback(ctx, &step, jobs)
		}
	}
	if step.Kind == workflow.JobExecute && p.Program.HasRetryWhen(step.StepIndex) {
		stepRun.ShouldRetry = func(attempt int, why *workflow.Failure) bool {
			if why != nil && !why.AllowsAnotherCall(step.Repeatable()) {
				return false // it must not be called twice, and the first call may still be running
			}
			return p.Program.RetryWhen(step.StepIndex, attempt, why)
		}
	}
	if step.Pipeline > 0 {
		stepRun.LaneJobs = func(ctx context.Context, lane int) ([]workflow.JobInput, error) {
			planned, err := p.PlanLane(ctx, x, &step, lane)
			if err == nil && planned.Plan.Problem != nil {
				err = &dispatch.PlanError{StepRunSeq: step.Seq, Lane: lane, Cause: planned.Plan.Cause, Failure: planned.Plan.Problem}
			}
			return planned.Jobs, err
		}
	}
	return stepRun
}

// workOf returns the Work that all packs of a step run have in common.
func (p *Planner) workOf(r *workflow.StepRun) workflow.Work {
	work := workflow.Work{
		Kind: r.Kind, Block: r.Block, Step: r.Label, Pool: r.Pool, Pure: r.Pure, Idempotent: r.Idempotent, Lanes: r.Lanes(), MinFencingToken: p.MinFencingToken,
	}
	if !r.Pace.IsZero() {
		work.Pace, work.PacedFrom = r.Pace, r.EnteredAt
	}
	var blockRef string
	if r.Kind == workflow.JobAcquire {
		blockRef = p.Program.Acquisitions[r.StepIndex].Block
	} else {
		n := &p.Program.Nodes[r.StepIndex]
		blockRef, work.Retry, work.Timeout = n.FunctionBlock, n.Retry, n.Timeout
		work.Secrets = p.Program.Secrets(r.StepIndex)
		if r.Kind == workflow.JobRollback && r.Compensation != nil {
			work.Secrets = p.Program.CompensationSecrets(r.StepIndex)
			blockRef, work.Timeout, work.Kind, work.Compensates = n.Compensate.FunctionBlock, 0, workflow.JobExecute, true
			work.Retry = n.Compensate.Retry
		}
		work.FailuresDecideNothing = r.Kind == workflow.JobExecute && p.Program.EndsWithItsLastJob(r.StepIndex)
		work.CannotGoTo = n.RunOn != workflow.RunOnGlobal || n.Foreach != nil
		work.CannotWait = work.CannotGoTo || n.Repeat != nil || n.Callback != nil
		work.EngineDriven = r.Pipeline > 0 || r.Kind == workflow.JobExecute && p.Program.HasRetryWhen(r.StepIndex)
	}
	b := p.Blocks[blockRef]
	for _, d := range []workflow.Duration{b.Timeout, workflow.Duration(p.JobTimeout)} {
		if work.Timeout == 0 {
			work.Timeout = d
		}
	}
	if work.Pool == "" {
		work.Pool = defaultPool
	}
	work.HTTP = b.HTTP
	if r.Kind == workflow.JobExecute {
		work.ResultSchema = b.ResultSchema
	}
	return work
}

// defaultPool is the pool of blocks that name none. The stock worker serves it.
const defaultPool = "default"

// Report reads the progress of an open step run or its first failure (NeedFailure), or continues to
// close it (NeedClose).
func (p *Planner) Report(ctx context.Context, x *workflow.Execution, n lifecycle.Need, now time.Time) (*lifecycle.Report, error) {
	r := x.StepRunBySeq(n.StepRunSeq)
	if r == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run %d to report does not exist", n.StepRunSeq)
	}
	stepRun := p.StepRun(x, r)
	timerFired := !x.DueAt.IsZero() && !x.DueAt.After(now)
	var rep *lifecycle.Report
	var err error
	switch {
	case n.Kind == lifecycle.NeedFailure:
		rep, err = p.Dispatcher.FirstFailure(ctx, stepRun)
	case n.Kind == lifecycle.NeedClose:
		rep, err = p.Dispatcher.CloseStepRun(ctx, stepRun, now)
	case r.Pipeline > 0:
		rep, err = p.pipelineReport(ctx, x, r, stepRun, now, timerFired)
	default:
		rep, err = p.Dispatcher.Report(ctx, stepRun, now, timerFired)
	}
	if err == nil && r.Kind == workflow.JobExecute && p.Program.Nodes[r.StepIndex].Foreach != nil {
		rep.Next, rep.Breaks = "", false // a single item does not decide which step follows
	}
	if err == nil && rep.Complete && r.Kind == workflow.JobExecute {
		err = p.reportBreaks(ctx, x, r, rep)
	}
	if err == nil && rep.Complete && rep.HasUpdates && r.Kind == workflow.JobExecute {
		err = p.checkUpdates(ctx, x, r, rep)
	}
	if err == nil && rep.Complete && rep.Problem == nil && r.Kind == workflow.JobExecute && rep.Counts.OK == 1 && rep.Wait == nil && r.Wait == nil && p.Program.Nodes[r.StepIndex].OutputKey != "" {
		err = p.checkResultDepth(ctx, r, rep)
	}
	if err == nil && rep.Complete && rep.Next != "" && rep.Problem == nil && r.Kind == workflow.JobExecute {
		if rep.Goto = p.Program.TargetNamed(r.StepIndex, rep.Next); rep.Goto == nil {
			rep.Cause, rep.Problem = workflow.CauseStepFailed, &workflow.Failure{
				Code: workflow.FailureUnknownStep, Step: r.Label,
				Message: fmt.Sprintf("the block of step %q names %q as the next step: it is no step beside this one, or beside a step around it", r.Label, rep.Next),
			}
		}
	}
	return rep, err
}
