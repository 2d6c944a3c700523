package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/client/gen"
	"github.com/lockstep-run/lockstep/shared/views"
)

// Schedules lists the workflows that are started by the clock.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[views.ScheduleView, error] {
	return pages[views.ScheduleView](func(token *string) (*http.Response, error) {
		return c.api.ListSchedules(ctx, &gen.ListSchedulesParams{PageToken: token})
	})
}
