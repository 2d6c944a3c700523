package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// checkCallback fails the plan of a step with a callback if its message could not be sent. It
// checks only the first plan of a step run, because the keys may change later.
func (p *Planner) checkCallback(ctx context.Context, r *workflow.StepRun, planned *plan.JobPlan) error {
	n := &p.Program.Nodes[r.StepIndex]
	if n.Callback == nil {
		return nil
	}
	if size := len(planned.Jobs[0].Parameters); size > workflow.MaxCallbackParameterBytes {
		planned.Plan.Cause, planned.Plan.Problem = workflow.CauseLimit, &workflow.Failure{Code: workflow.FailureLimit, Step: n.Label,
			Message: fmt.Sprintf("the parameters of step %q take %d bytes, and those of a step with callback at most %d", n.Label, size, workflow.MaxCallbackParameterBytes)}
		return nil
	}
	if !p.Program.HasCallbackToken(r.StepIndex) {
		return nil
	}
	_, _, err := p.callback(ctx, r)
	if !workflow.Is(err, workflow.CodeNotImplemented) {
		return err
	}
	planned.Plan.Cause, planned.Plan.Problem = workflow.CauseStepFailed, &workflow.Failure{Code: workflow.FailureParameters, Step: n.Label,
		Message: fmt.Sprintf("the token of step %q cannot be made: %s", n.Label, err)}
	return nil
}

// callback returns the token of a step run's callback and, if its parameters contain it, the link
// with the token.
func (p *Planner) callback(ctx context.Context, r *workflow.StepRun) (token, link string, err error) {
	if token, err = p.CallbackToken(ctx, r.Seq); err == nil && p.Program.HasCallbackURL(r.StepIndex) {
		link, err = p.CallbackLink(token)
	}
	return token, link, err
}

// fillCallback inserts the callback token into the jobs of a step run. The token always has the
// first generation: a revoked token must not become valid again because a job is sent again.
func (p *Planner) fillCallback(ctx context.Context, r *workflow.StepRun, jobs []workflow.JobInput) ([]workflow.JobInput, error) {
	token, link, err := p.callback(ctx, r)
	if err != nil {
		return nil, err
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if jobs[i].Parameters, err = p.Program.FillCallbackToken(r.StepIndex, jobs[i].Parameters, token, link); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// resume returns the data for a block that is called again after the wait that it has requested.
func (p *Planner) resume(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (json.RawMessage, error) {
	waited := x.StepRunBySeq(r.Resumes)
	if waited == nil || waited.Wait == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run %d that has waited does not exist", r.Resumes)
	}
	told := workflow.Resume{Kind: waited.Wait.Kind, TimedOut: waited.Wait.Lapsed && waited.Wait.Kind != workflow.WaitTimer}
	if waited.Value != nil {
		var err error
		if told.Value, err = p.loadValue(ctx, waited); err != nil {
			return nil, err
		}
	}
	return workflow.EncodeJSON(told)
}
