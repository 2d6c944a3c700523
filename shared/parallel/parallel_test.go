package parallel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lockstep-run/lockstep/shared/parallel"
)

// A caller takes nil for "all calls were made", so a context that ends is an error at any limit.
func TestEach_ReportsEndedContext(t *testing.T) {
	for _, limit := range []int{1, 8} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var calls atomic.Int64
		err := parallel.Each(ctx, limit, 100, func(context.Context, int) error { calls.Add(1); return nil })
		if !errors.Is(err, context.Canceled) || calls.Load() != 0 {
			t.Errorf("limit %d: %d calls, %v", limit, calls.Load(), err)
		}

		ctx, cancel = context.WithCancel(t.Context())
		calls.Store(0)
		err = parallel.Each(ctx, limit, 100, func(context.Context, int) error {
			if calls.Add(1) == 10 {
				cancel()
			}
			return nil
		})
		if n := calls.Load(); !errors.Is(err, context.Canceled) || n == 100 {
			t.Errorf("limit %d: ended after %d calls: %v", limit, n, err)
		}
	}
}

func TestEach_MakesAllCalls(t *testing.T) {
	for _, limit := range []int{0, 1, 8} {
		seen := make([]atomic.Bool, 100)
		if err := parallel.Each(t.Context(), limit, len(seen), func(_ context.Context, i int) error { seen[i].Store(true); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if !seen[i].Load() {
				t.Errorf("limit %d: no call %d", limit, i)
			}
		}
	}
}

func TestEach_ReturnsFirstErrorAndStops(t *testing.T) {
	broken := errors.New("broken")
	for _, limit := range []int{1, 4} {
		var calls atomic.Int64
		err := parallel.Each(t.Context(), limit, 1000, func(_ context.Context, i int) error {
			calls.Add(1)
			if i == 3 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) || calls.Load() == 1000 {
			t.Errorf("limit %d: %d calls, %v", limit, calls.Load(), err)
		}
	}
}
