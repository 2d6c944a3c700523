package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// interruptError is the signal that has ended a command. A shell must not take it
// for a success, so the exit code is the usual one: 128 and the signal's number.
type interruptError struct{ signal syscall.Signal }

func (i *interruptError) Error() string {
	if i.signal == syscall.SIGTERM {
		return "terminated (SIGTERM)"
	}
	return "interrupted"
}

func (i *interruptError) exitCode() int { return 128 + int(i.signal) }

// withInterrupt is a context that ends with the first SIGINT or SIGTERM, which is
// its cause. After that a further signal has its usual effect.
func withInterrupt(parent context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			end(&interruptError{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}

// interruptCause is the interruption that has ended a context, nil if none has.
func interruptCause(ctx context.Context) *interruptError {
	var i *interruptError
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}
