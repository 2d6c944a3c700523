package client

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// maxUnavailable is how many reads in a row may find the service away before Wait
// gives up; each has been repeated by itself before.
const maxUnavailable = 10

// Idle reports whether nothing will happen to a run any more unless somebody
// asks for it: it is acknowledged, or waits for an operator to do so.
func Idle(x views.ExecutionView) bool {
	switch {
	case statemachines.Acknowledged(x.State), x.State == statemachines.ExecutionFailedUnsafe:
		return true
	case statemachines.Terminal(x.State):
		return x.Waiting != nil && x.Waiting.Kind == workflow.WaitAcknowledge
	}
	return false
}

// Wait reads a run every poll until it rests, and returns it as it is then. seen
// is called with every state of affairs read, the last included; it may be nil.
// A service that goes away for a moment is waited for, one that is away from the
// start is not.
func (c *Client) Wait(ctx context.Context, id string, poll time.Duration, onRead func(views.ExecutionView)) (views.ExecutionView, error) {
	return c.Follow(ctx, id, poll, onRead, nil)
}

// Follow is Wait that calls lost, unless it is nil, each time that a read has
// failed and will be tried again.
func (c *Client) Follow(ctx context.Context, id string, poll time.Duration, onRead func(views.ExecutionView), onRetry func(error)) (views.ExecutionView, error) {
	failures := maxUnavailable
	for {
		x, err := c.Execution(ctx, id)
		switch {
		case err == nil:
			failures = 0
			if onRead != nil {
				onRead(x)
			}
			if Idle(x) {
				return x, nil
			}
		case !isUnavailable(err) || failures >= maxUnavailable || ctx.Err() != nil:
			return x, err
		default:
			failures++
			if onRetry != nil {
				onRetry(err)
			}
		}
		if err := c.sleep(ctx, poll); err != nil {
			return x, err
		}
	}
}

// isUnavailable reports whether an error says that the service is away for now.
func isUnavailable(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u) || workflow.Is(err, workflow.CodeUnavailable)
}
