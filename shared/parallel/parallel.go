package parallel

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Each calls fn for 0 to n-1, at most limit at a time, and returns the first
// error. After an error no further call is begun; those begun see their context
// cancelled.
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
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return fn(ctx, i) })
	}
	return g.Wait()
}
