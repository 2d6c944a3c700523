package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"slices"

	"github.com/lockstep-run/lockstep/shared/client/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Start starts a run. existed is true if it was started before under the
// request's idempotency key. Without a key the request is sent once only.
func (c *Client) Start(ctx context.Context, req views.StartRequest) (s Started, existed bool, err error) {
	params := gen.StartExecutionParams{IdempotencyKey: some(req.IdempotencyKey)}
	s, status, err := readStatus[Started](c.api.StartExecution(ctx, &params, req))
	return s, status == http.StatusOK, err
}

// Execution reads a run.
func (c *Client) Execution(ctx context.Context, id string) (views.ExecutionView, error) {
	return read[views.ExecutionView](c.api.GetExecution(ctx, id))
}

// Executions lists runs, newest first. Active stands alone: it takes no other
// filter beside it.
func (c *Client) Executions(ctx context.Context, f views.ExecutionFilter) iter.Seq2[views.ExecutionView, error] {
	return pages[views.ExecutionView](func(token *string) (*http.Response, error) {
		if f.Active {
			return c.api.ListActiveExecutions(ctx, &gen.ListActiveExecutionsParams{PageToken: token})
		}
		params := gen.ListExecutionsParams{
			State: some(f.State), Status: some(f.Status), Parent: some(f.Parent),
			CreatedAfter: some(f.CreatedAfter), CreatedBefore: some(f.CreatedBefore), PageToken: token,
		}
		if f.Workflow.Name != "" {
			params.Workflow = some(f.Workflow.String())
		}
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
			labels = append(labels, key+"="+f.Labels[key])
		}
		if labels != nil {
			params.Label = &labels
		}
		return c.api.ListExecutions(ctx, &params)
	})
}

// Status reads a run's normalised status.
func (c *Client) Status(ctx context.Context, id string) (views.StatusView, error) {
	return read[views.StatusView](c.api.GetStatus(ctx, id))
}

// History lists a run's events, oldest first.
func (c *Client) History(ctx context.Context, id string) iter.Seq2[workflow.Event, error] {
	return pages[workflow.Event](func(token *string) (*http.Response, error) {
		return c.api.ListEvents(ctx, id, &gen.ListEventsParams{PageToken: token})
	})
}

// Jobs lists a run's jobs, every attempt.
func (c *Client) Jobs(ctx context.Context, id string, f views.JobFilter) iter.Seq2[workflow.Job, error] {
	return pages[workflow.Job](func(token *string) (*http.Response, error) {
		params := gen.ListJobsParams{Step: some(f.Step), State: some(f.State), Kind: some(f.Kind), PageToken: token}
		switch {
		case f.Entity.Type != "":
			params.Entity = some(f.Entity.String())
		case f.Entity.ID != "":
			params.Entity = some(f.Entity.ID)
		}
		return c.api.ListJobs(ctx, id, &params)
	})
}

// Steps lists a run's step runs and rollback waves, in order of entry.
func (c *Client) Steps(ctx context.Context, id string) iter.Seq2[views.StepView, error] {
	return pages[views.StepView](func(token *string) (*http.Response, error) {
		return c.api.ListSteps(ctx, id, &gen.ListStepsParams{PageToken: token})
	})
}

// Result reads what a run's steps gave.
func (c *Client) Result(ctx context.Context, id string) (views.ResultView, error) {
	return read[views.ResultView](c.api.GetResult(ctx, id))
}

// Cost reads what a run has consumed.
func (c *Client) Cost(ctx context.Context, id string) (views.CostView, error) {
	return read[views.CostView](c.api.GetCost(ctx, id))
}

// Cancel ends a run cleanly before its time, and returns it as it is then.
func (c *Client) Cancel(ctx context.Context, id string, req views.CancelRequest) (views.ExecutionView, error) {
	return read[views.ExecutionView](c.api.CancelExecution(ctx, id, req))
}

// Acknowledge lets go of the locks of a run that ended unsafe.
func (c *Client) Acknowledge(ctx context.Context, id, reason string) (views.ExecutionView, error) {
	return read[views.ExecutionView](c.api.AcknowledgeExecution(ctx, id, gen.ReasonRequest{Reason: some(reason)}))
}

// Retry begins another try of a run that has failed.
func (c *Client) Retry(ctx context.Context, id string, req views.RetryRequest) (views.ExecutionView, error) {
	return read[views.ExecutionView](c.api.RetryExecution(ctx, id, req))
}

// Resume goes on now with a run that waits.
func (c *Client) Resume(ctx context.Context, id, reason string) (views.ExecutionView, error) {
	return read[views.ExecutionView](c.api.ResumeExecution(ctx, id, gen.ReasonRequest{Reason: some(reason)}))
}

// Unlock lets go of the locks of a run that ended and keeps them, and leaves it
// as it is.
func (c *Client) Unlock(ctx context.Context, id, reason string) (views.ExecutionView, error) {
	return read[views.ExecutionView](c.api.UnlockExecution(ctx, id, gen.ReasonRequest{Reason: some(reason)}))
}
