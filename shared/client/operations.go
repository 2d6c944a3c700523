package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
)

// DeadLetters shows what queues have given up on: all of them, or one; limit 0 is
// the service's default.
func (c *Client) DeadLetters(ctx context.Context, queue string, limit int) iter.Seq2[views.DeadLetterQueue, error] {
	query := url.Values{}
	set(query, "queue", queue)
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return paginate[views.DeadLetterQueue](ctx, c, query, "dead-letters")
}

// Redrive puts dead letters back into their queues, a bounded number a call.
func (c *Client) Redrive(ctx context.Context, r views.RedriveRequest) (views.RedriveView, error) {
	return post[views.RedriveView](ctx, c, r, "dead-letters", "redrive")
}

// NextSweep is what the next sweep would do.
func (c *Client) NextSweep(ctx context.Context) (views.SweepView, error) {
	return get[views.SweepView](ctx, c, "sweep")
}
