package client

import (
	"context"
	"iter"

	"github.com/lockstep-run/lockstep/shared/views"
)

// Schedules lists the workflows that are started by the clock.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[views.ScheduleView, error] {
	return paginate[views.ScheduleView](ctx, c, nil, "schedules")
}
