package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/views"
)

// StartBatch starts up to [views.MaxBatch] executions, and returns the outcome of each start.
// Repeated with the same key, it starts only those that were not started before.
func (c *Client) StartBatch(ctx context.Context, req views.BatchRequest) ([]views.BatchItem, error) {
	answer, err := do[struct{ Items []views.BatchItem }](ctx, c, request{method: http.MethodPost, path: route("workflow-execution", "batch"), body: req, key: req.IdempotencyKey})
	return answer.Items, err
}

// ChangeExecutions applies a verb to all executions that match a filter, and returns the outcome
// for each, a page at a time. It ends with the first request that fails as a whole.
func (c *Client) ChangeExecutions(ctx context.Context, f views.ExecutionFilter, req views.BulkRequest) iter.Seq2[views.BulkItem, error] {
	query := filterQuery(f)
	query.Set("verb", string(req.Verb))
	if req.DryRun {
		query.Set("dryRun", "true")
	}
	return paginateRequest[views.BulkItem](ctx, c, request{method: http.MethodPost, path: route("workflow-execution", "bulk"), query: query, body: req})
}
