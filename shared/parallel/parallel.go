// Package parallel runs a bounded number of calls at a time.
//
// It wraps errgroup instead of leaving it to the callers for two reasons:
//
//   - With a limit of one, all calls happen in order in the caller's goroutine, which the
//     deterministic simulation needs: its tasks are coroutines, which must not call from
//     another goroutine, and a simulated crash is a panic that the task recovers. An
//     errgroup starts a goroutine for each call even with a limit of one.
//   - After an error, Each starts no further calls. An errgroup only cancels its context: the
//     caller's loop starts all remaining calls with it, unless it checks the context itself.
package parallel

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Each calls fn for 0 to n-1, at most limit at a time, and returns the first error. Nil means that
// all calls were made, so a context that ends before that is an error. After an error it starts no
// further calls, except one that was already waiting for its turn, and cancels the context of the
// running calls. A limit below one counts as one.
func Each(ctx context.Context, limit, n int, fn func(ctx context.Context, i int) error) error {
	if limit <= 1 || n <= 1 {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(limit)
	var ended error // the context ended before all calls were started
	for i := range n {
		if ended = ctx.Err(); ended != nil {
			break
		}
		g.Go(func() error { return fn(ctx, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ended
}
