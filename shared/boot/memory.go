package boot

import (
	"os"
	"runtime/debug"
	"strconv"
)

// limitMemory tells the Go runtime how much memory the function has, minus a fifth for memory
// outside the heap. Without a limit the runtime lets the heap grow to twice the live data before it
// collects, and a function that needs little more than half of its memory is killed. GOMEMLIMIT
// overrides the limit.
func limitMemory() {
	mb, err := strconv.ParseInt(os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 64)
	if err != nil || mb <= 0 || os.Getenv("GOMEMLIMIT") != "" {
		return // not in a function, or GOMEMLIMIT is set
	}
	debug.SetMemoryLimit(mb << 20 / 5 * 4)
}
