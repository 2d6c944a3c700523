package boot

import (
	"context"
	"time"
)

// timeToRecord is how long before the end of an invocation its work must end, so that what ran out of
// time can still be recorded or logged.
const timeToRecord = 5 * time.Second

// ReserveTime returns a context that ends before the invocation does: by timeToRecord or, if the
// invocation is that short, by half of its time.
func ReserveTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(timeToRecord, time.Until(deadline)/2)))
}
