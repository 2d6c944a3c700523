package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// takeStartRate takes one of what the rate of a workflow allows at now and returns when the execution
// may begin. A version with another rate takes of one of its own. at is zero if nothing was taken: then the rate is used up, and wait says for how long, or its
// key has no value, which is CodeInvalid. What is taken and then not used is lost: fewer executions
// begin, never more.
func (w *workspace) takeStartRate(ctx context.Context, d *definitions.Definition, parameters json.RawMessage, now time.Time) (at time.Time, wait time.Duration, err error) {
	key, err := d.RateKey(parameters)
	if err != nil {
		return at, 0, workflow.Invalid("the rate of the workflow cannot be applied", []workflow.Issue{{Path: "parameters", Code: "expression", Message: err.Error()}})
	}
	name, within := "start/"+d.Ref().FullName()+"/"+d.Config.Rate.Limit.String(), w.e.Policy.StartTimeout
	if key != "" {
		name += "/" + key
	}
	if d.Config.Rate.OnLimit == spec.OnLimitFail {
		within = 0
	}
	sequence, wait, err := w.ports.Registry.TakeRate(ctx, w.tenant, name, d.Config.Rate.Limit, within, now)
	switch {
	case err != nil || sequence == 0:
		return at, wait, err
	case wait == 0:
		return now, 0, nil
	}
	return now.Add(wait + time.Millisecond - 1).Truncate(time.Millisecond), wait, nil
}

// refuseAboveRate takes of the rate of a workflow for a request whose execution is not to wait for it, and
// refuses the request if nothing is left. at is zero if the execution asks for itself: because it may
// wait, or because it is not to begin yet.
func (w *workspace) refuseAboveRate(ctx context.Context, d *definitions.Definition, req views.StartRequest, parameters json.RawMessage) (at time.Time, err error) {
	rate, later := d.Config.Rate, req.Hold || !req.NotBefore.IsZero() || d.Config.NotBefore != "" || d.Config.StartWhen != ""
	if rate == nil || rate.OnLimit != spec.OnLimitFail || req.Mode == views.ModeProbe || later {
		return at, nil
	}
	at, wait, err := w.takeStartRate(ctx, d, parameters, w.e.now())
	if err == nil && at.IsZero() {
		err = &workflow.Error{Code: workflow.CodeRateLimited, Message: aboveRate(d, wait), RetryAfter: wait}
	}
	return at, err
}

func aboveRate(d *definitions.Definition, wait time.Duration) string {
	return fmt.Sprintf("executions of %s may begin %s: the next one in %s", d.Ref().FullName(), d.Config.Rate.Limit, wait.Round(time.Millisecond))
}

// fetchRateAt is when the rate of the workflow lets an execution begin that is ready otherwise. What
// is taken is taken at the time of the decision, so that one that need not wait does not.
func (w *workspace) fetchRateAt(ctx context.Context, d *definitions.Definition, parameters json.RawMessage) (at time.Time, problem *workflow.Failure, err error) {
	if d.Config.Rate == nil || w.execution.Probe || !w.execution.RateAt.IsZero() {
		return w.execution.RateAt, nil, nil
	}
	at, wait, err := w.takeStartRate(ctx, d, parameters, w.now)
	switch {
	case workflow.Is(err, workflow.CodeInvalid):
		return at, &workflow.Failure{Code: workflow.CodeInvalid.OfFailure(), Message: err.Error()}, nil
	case err == nil && at.IsZero():
		return at, &workflow.Failure{Code: workflow.FailureLimit, Message: aboveRate(d, wait)}, nil
	}
	return at, nil, err
}
