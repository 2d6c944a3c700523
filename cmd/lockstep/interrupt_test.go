package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A signal that ends a follower is no success: a shell that reads
// "lockstep run ... && next" stops there.
func TestExecute_ReturnsSignalExitCode(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		args   []string
		code   int
	}{
		{syscall.SIGINT, []string{"watch", executionID}, 130},
		{syscall.SIGTERM, []string{"watch", executionID, "-o", "json"}, 143},
		{syscall.SIGINT, []string{"run", "p/w", "-o", "json"}, 130},
		{syscall.SIGTERM, []string{"run", "p/w"}, 143},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				stop(&interruptError{c.signal})
			}
			fmt.Fprintf(w, `{"id":%q,"state":"RUNNING","status":"RUNNING"}`, executionID)
		}))
		var out, errs bytes.Buffer
		code := execute(ctx, append(c.args, "--url", s.URL), &out, &errs)
		s.Close()
		if code != c.code || out.Len() > 0 || !strings.Contains(errs.String(), `the run goes on; "lockstep watch `+executionID) {
			t.Errorf("%v of %q: exit %d\n%s%s", c.signal, c.args, code, out.String(), errs.String())
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop(&interruptError{syscall.SIGINT}) }))
	defer s.Close()
	var out, errs bytes.Buffer
	if code := execute(ctx, []string{"list", "--url", s.URL}, &out, &errs); code != 130 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("a list: exit %d\n%s", code, errs.String())
	}
	for _, verb := range []string{"", "run", "watch"} {
		if help := runCommand(t, verb, "--help"); !strings.Contains(help.stdout, "143") {
			t.Errorf("the help of %q does not say what SIGTERM gives:\n%s", verb, help.stdout)
		}
	}
}

// The real thing reaches the context.
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
		t.Errorf("it ended by %v", by)
	}
	other, end := withInterrupt(t.Context())
	end()
	if <-other.Done(); interruptCause(other) != nil {
		t.Error("an end without a signal is taken for one")
	}
}
