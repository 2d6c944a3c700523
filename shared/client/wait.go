package client

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// patience is how many reads in a row may find the service away before Wait
// gives up; each has been repeated by itself before.
const patience = 10

// Resting reports whether nothing will happen to a run any more unless somebody
// asks for it: it is acknowledged, or waits for an operator to do so.
func Resting(x views.ExecutionView) bool {
	switch {
	case statemachines.Acknowledged(x.State), x.State == statemachines.ExecutionFailedUnsafe:
		return true
	case statemachines.Terminal(x.State):
		return x.Waiting != nil && x.Waiting.Kind == views.WaitAcknowledge
	}
	return false
}

// Wait reads a run every poll until it rests, and returns it as it is then. seen
// is called with every state of affairs read, the last included; it may be nil.
// A service that goes away for a moment is waited for, one that is away from the
// start is not.
func (c *Client) Wait(ctx context.Context, id string, poll time.Duration, seen func(views.ExecutionView)) (views.ExecutionView, error) {
	return c.Follow(ctx, id, poll, seen, nil)
}

// Follow is Wait that calls lost, unless it is nil, each time that a read has
// failed and will be tried again.
func (c *Client) Follow(ctx context.Context, id string, poll time.Duration, seen func(views.ExecutionView), lost func(error)) (views.ExecutionView, error) {
	away := patience
	for {
		x, err := c.Execution(ctx, id)
		switch {
		case err == nil:
			away = 0
			if seen != nil {
				seen(x)
			}
			if Resting(x) {
				return x, nil
			}
		case !gone(err) || away >= patience || ctx.Err() != nil:
			return x, err
		default:
			away++
			if lost != nil {
				lost(err)
			}
		}
		if err := c.pause(ctx, poll); err != nil {
			return x, err
		}
	}
}

// gone reports whether an error says that the service is away for now.
func gone(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u) || workflow.Is(err, workflow.CodeUnavailable)
}
