//go:build unix

package main

import (
	"syscall"
	"testing"
	"time"
)

// A real signal cancels the context.
func TestWithInterrupt_CancelsOnFirstSignal(t *testing.T) {
	ctx, stop := withInterrupt(t.Context())
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the signal did not arrive")
	}
	if by := interruptCause(ctx); by == nil || by.exitCode() != 143 {
		t.Errorf("the cause is %v", by)
	}
	other, end := withInterrupt(t.Context())
	end()
	if <-other.Done(); interruptCause(other) != nil {
		t.Error("an end without a signal has an interrupt as its cause")
	}
}
