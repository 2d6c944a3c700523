package boot

import (
	"os"
	"runtime/debug"
	"strconv"
)

// limitMemory tells the Go runtime how much memory the function has, less a fifth for what is not its
// heap. Without that it lets the heap grow to twice what is alive before it collects, and a function
// that needs little more than half of its memory is killed. GOMEMLIMIT overrides it.
func limitMemory() {
	mb, err := strconv.ParseInt(os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 64)
	if err != nil || mb <= 0 || os.Getenv("GOMEMLIMIT") != "" {
		return // not in a function, or told otherwise
	}
	debug.SetMemoryLimit(mb << 20 / 5 * 4)
}
