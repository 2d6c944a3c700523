package boot

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestLimitMemory_FollowsTheFunction(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, c := range []struct {
		size, limit string
		want        int64
	}{
		{"512", "", 429_496_728}, {"", "", math.MaxInt64}, {"-1", "", math.MaxInt64}, {"much", "", math.MaxInt64}, {"512", "1GiB", math.MaxInt64},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", c.size)
		t.Setenv("GOMEMLIMIT", c.limit)
		limitMemory()
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%q MB with GOMEMLIMIT=%q: limit %d, want %d", c.size, c.limit, got, c.want)
		}
	}
}
