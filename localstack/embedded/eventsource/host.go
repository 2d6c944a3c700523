package eventsource

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

// Host is what a source stands on: its host.
type Host struct {
	Region, Account string
	// Backoff is the pause after the first failed receive.
	Backoff time.Duration
	// Start runs f until its context ends, which is when the host begins to shut
	// down; the host waits for f to return. It refuses once that has begun.
	Start func(f func(ctx context.Context)) error
	// Logf logs a remark about a function.
	Logf func(function, format string, args ...any)
	// NewID makes the ids of events.
	NewID func() string
	// ErrClosed is the error of an invocation that came too late.
	ErrClosed error
}
