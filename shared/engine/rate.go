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

// takeStartRate takes one start from the rate of a workflow and returns when the execution may
// begin. Versions with different rates do not share one.
//
// at is zero if nothing was taken: either the rate is used up, and use.Wait says for how long, or its
// key has no value, which is CodeInvalid. A start that is taken and then not used is lost, so that
// fewer executions may begin, but never more.
func (w *workspace) takeStartRate(ctx context.Context, d *definitions.Definition, parameters json.RawMessage, now time.Time) (at time.Time, use workflow.RateUse, err error) {
	key, err := d.RateKey(parameters)
	if err != nil {
		return at, use, workflow.Invalid("the rate of the workflow cannot be applied", []workflow.Issue{{Path: "parameters", Code: "expression", Message: err.Error()}})
	}
	name, within := "start/"+d.Ref().FullName()+"/"+d.Config.Rate.Limit.String(), w.e.Policy.StartTimeout
	if key != "" {
		name += "/" + key
	}
	if d.Config.Rate.OnLimit == spec.OnLimitFail {
		within = 0
	}
	use, err = w.ports.Registry.TakeRate(ctx, w.tenant, name, d.Config.Rate.Limit, within, now)
	switch {
	case err != nil || use.Sequence == 0:
		return at, use, err
	case use.Wait == 0:
		return now, use, nil
	}
	return now.Add(use.Wait + time.Millisecond - 1).Truncate(time.Millisecond), use, nil
}

// refuseAboveRate takes from the rate for a request whose execution must not wait, and refuses the
// request if nothing is left. It returns a zero at if the execution takes from the rate itself,
// later: because it may wait, or because it is not meant to begin yet.
func (w *workspace) refuseAboveRate(ctx context.Context, d *definitions.Definition, req views.StartRequest, parameters json.RawMessage) (at time.Time, err error) {
	rate, later := d.Config.Rate, req.Hold || !req.NotBefore.IsZero() || d.Config.NotBefore != "" || d.Config.StartWhen != ""
	if rate == nil || rate.OnLimit != spec.OnLimitFail || req.Mode == views.ModeProbe || later {
		return at, nil
	}
	at, use, err := w.takeStartRate(ctx, d, parameters, w.e.now())
	if err != nil {
		return at, err
	}
	if views.ReportRate(ctx, use); at.IsZero() {
		err = &workflow.Error{Code: workflow.CodeRateLimited, Message: aboveRate(d, use.Wait), RetryAfter: use.Wait}
	}
	return at, err
}

func aboveRate(d *definitions.Definition, wait time.Duration) string {
	return fmt.Sprintf("executions of %s may begin %s: the next one in %s", d.Ref().FullName(), d.Config.Rate.Limit, wait.Round(time.Millisecond))
}

// fetchRateAt returns when the rate of the workflow lets an otherwise ready execution begin. It
// takes from the rate at the time of the decision, so that an execution that need not wait does
// not.
func (w *workspace) fetchRateAt(ctx context.Context, d *definitions.Definition, parameters json.RawMessage) (at time.Time, problem *workflow.Failure, err error) {
	if d.Config.Rate == nil || w.execution.Probe || !w.execution.RateAt.IsZero() {
		return w.execution.RateAt, nil, nil
	}
	at, use, err := w.takeStartRate(ctx, d, parameters, w.now)
	switch {
	case workflow.Is(err, workflow.CodeInvalid):
		return at, &workflow.Failure{Code: workflow.CodeInvalid.OfFailure(), Message: err.Error()}, nil
	case err == nil && at.IsZero():
		return at, &workflow.Failure{Code: workflow.FailureLimit, Message: aboveRate(d, use.Wait)}, nil
	}
	return at, nil, err
}
