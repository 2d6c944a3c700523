//go:build unix

package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
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

// A doctor that is interrupted has found nothing: what did not answer was not asked.
func TestDoctor_InterruptedReportsNothing(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop(&interruptError{syscall.SIGINT}) }))
	defer s.Close()
	var out, errors bytes.Buffer
	if code := execute(ctx, []string{"doctor", "--url=" + s.URL}, &out, &errors); code != 130 || out.Len() > 0 || errors.String() != "lockstep: interrupted\n" {
		t.Errorf("exit code %d, output %q, errors %q", code, out.String(), errors.String())
	}
}
