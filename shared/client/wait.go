package client

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// maxUnavailable bounds the reads in a row that may fail because the service is unavailable before
// Wait gives up. Each of them has been retried already.
const maxUnavailable = 10

// Idle reports whether nothing will happen to an execution unless somebody requests it: it is
// acknowledged, or waits for an operator to acknowledge it.
func Idle(x views.ExecutionView) bool {
	switch {
	case statemachines.Acknowledged(x.State), x.State == statemachines.ExecutionFailedUnsafe:
		return true
	case statemachines.Terminal(x.State):
		return x.Waiting != nil && x.Waiting.Kind == workflow.WaitAcknowledge
	}
	return false
}

// Wait reads an execution every poll until it is [Idle], and returns it. onRead, which may be nil,
// is called with every read, including the last. Wait survives a service that becomes unavailable
// for a while, but not one that is unavailable from the start.
func (c *Client) Wait(ctx context.Context, id string, poll time.Duration, onRead func(views.ExecutionView)) (views.ExecutionView, error) {
	return c.Follow(ctx, id, poll, onRead, nil)
}

// Follow is Wait that also calls onRetry, unless nil, each time a read has failed and will be
// repeated.
func (c *Client) Follow(ctx context.Context, id string, poll time.Duration, onRead func(views.ExecutionView), onRetry func(error)) (views.ExecutionView, error) {
	return c.FollowUntil(ctx, id, poll, Idle, onRead, onRetry)
}

// FollowUntil is Follow that ends when an execution is as wanted, instead of [Idle].
func (c *Client) FollowUntil(ctx context.Context, id string, poll time.Duration, wanted func(views.ExecutionView) bool, onRead func(views.ExecutionView), onRetry func(error)) (views.ExecutionView, error) {
	failures := maxUnavailable
	var x views.ExecutionView
	var tag string
	for {
		var err error
		x, tag, err = c.executionIfChanged(ctx, id, x, tag)
		switch {
		case err == nil:
			failures = 0
			if onRead != nil {
				onRead(x)
			}
			if wanted(x) {
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

// isUnavailable reports whether the service was unavailable.
func isUnavailable(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u) || workflow.Is(err, workflow.CodeUnavailable)
}
