package source

import (
	"context"
	"time"
)

// Function is what a source invokes.
type Function interface {
	Name() string
	MaxConcurrency() int
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// Ground is what a source stands on: its host.
type Ground struct {
	Region, Account string
	// Backoff is the pause after the first failed receive.
	Backoff time.Duration
	// Feed runs f until its context ends, which is when the host begins to shut
	// down; the host waits for f to return. It refuses once that has begun.
	Feed func(f func(ctx context.Context)) error
	// Say logs a remark about a function.
	Say func(function, format string, args ...any)
	// NewID makes the ids of events.
	NewID func() string
	// Closed is the error of an invocation that came too late.
	Closed error
}
