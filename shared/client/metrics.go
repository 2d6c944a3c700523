package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
)

// MetricsSummary counts how executions have ended in the last days, 0 for as many as the service says:
// those of the workflow, or of all if it is empty.
func (c *Client) MetricsSummary(ctx context.Context, workflow string, days int) (views.MetricsSummary, error) {
	query := url.Values{}
	if workflow != "" {
		query.Set("workflow", workflow)
	}
	if days > 0 {
		query.Set("days", strconv.Itoa(days))
	}
	return do[views.MetricsSummary](ctx, c, request{method: http.MethodGet, path: route("metrics", "summary"), query: query})
}
