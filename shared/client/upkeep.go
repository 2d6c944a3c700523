package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/client/gen"
	"github.com/lockstep-run/lockstep/shared/views"
)

// DeadLetters shows what queues have given up on: all of them, or one; limit 0 is
// the service's default.
func (c *Client) DeadLetters(ctx context.Context, queue string, limit int) iter.Seq2[views.DeadLetterQueue, error] {
	return pages[views.DeadLetterQueue](func(*string) (*http.Response, error) {
		return c.api.ListDeadLetters(ctx, &gen.ListDeadLettersParams{Queue: some(queue), Limit: some(limit)})
	})
}

// Redrive puts dead letters back into their queues, a bounded number a call.
func (c *Client) Redrive(ctx context.Context, r views.RedriveRequest) (views.RedriveView, error) {
	return read[views.RedriveView](c.api.RedriveDeadLetters(ctx, r))
}

// NextSweep is what the next sweep would do.
func (c *Client) NextSweep(ctx context.Context) (views.SweepView, error) {
	return read[views.SweepView](c.api.GetSweep(ctx))
}
