package lambdahost_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

func TestDeployedFunction_FailedStartIsRetriedOnce(t *testing.T) {
	for start, errorType := range map[string]string{
		"error": "Config.Missing",
		"exit":  lambdahost.TypeExit,
		"hang":  lambdahost.TypeTimeout,
	} {
		t.Run(start, func(t *testing.T) {
			h, log := newHost(t, lambdahost.Options{InitTimeout: 200 * time.Millisecond})
			if start != "hang" {
				h, log = newHost(t, lambdahost.Options{})
			}
			fn := deploy(t, h, lambdahost.Function{Env: []string{"START=" + start}})
			_, err := fn.Invoke(t.Context(), event("", ""))
			wantFunctionError(t, err, errorType)
			if n := fn.Counts().Starts; n != 2 {
				t.Errorf("%d starts for one invocation", n)
			}
			if !strings.Contains(log.String(), "environment did not start: "+errorType) {
				t.Error("the failure was not logged")
			}
			wantFunctionError(t, fn.Ready(t.Context()), errorType)
		})
	}
}

func TestDeployedFunction_OneFailedStartCostsNoInvocation(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	mark := filepath.Join(t.TempDir(), "mark")
	fn := deploy(t, h, lambdahost.Function{Env: []string{"START=second", "MARK=" + mark}})
	mustInvoke(t, fn, event("", ""))
	if c := fn.Counts(); c.Starts != 2 || c.Errors != 0 {
		t.Errorf("counts %+v", c)
	}
	if err := fn.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
}

func TestDeployedFunction_InvalidBinaryFails(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	path := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(path, []byte("\x7fELF, truncated"), 0o700); err != nil {
		t.Fatal(err)
	}
	fn, err := h.Deploy(lambdahost.Function{Name: "none", Binary: path})
	if err != nil {
		t.Fatal(err)
	}
	_, err = fn.Invoke(t.Context(), nil)
	wantFunctionError(t, err, lambdahost.TypeNoEntrypoint)
}

// A provisioned environment that never starts must not cause a loop of starts, and must
// not delay Close.
func TestDeployedFunction_BacksOffFailedStarts(t *testing.T) {
	h, log := newHost(t, lambdahost.Options{Backoff: time.Minute})
	fn := deploy(t, h, lambdahost.Function{Env: []string{"START=exit"}, ProvisionedConcurrency: 3, MaxConcurrency: 3})
	wantFunctionError(t, fn.Ready(t.Context()), lambdahost.TypeExit)
	testkit.Eventually(t, "all starts have failed", func() bool { return strings.Count(log.String(), "did not start") == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := fn.Invoke(ctx, event("", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the invocation got %v, want a timeout while it waits", err)
	}
	if n := fn.Counts().Starts; n != 3 {
		t.Errorf("%d starts, want 3", n)
	}
}

// While processes are killed at random times, every invocation ends with a reply or
// with an exit, and afterwards the function works with no more processes than allowed.
func TestDeployedFunction_EveryInvocationEndsDuringKills(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{Backoff: time.Millisecond})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 4, ProvisionedConcurrency: 2})
	stop := make(chan struct{})
	var killer, callers sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				pids := fn.Processes()
				if len(pids) > 4 {
					t.Errorf("%d processes, want at most 4", len(pids))
				}
				for _, pid := range pids[:min(1, len(pids))] {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	})
	var replies, exits atomic.Int32
	for range 6 {
		callers.Go(func() {
			for range 50 {
				_, err := fn.Invoke(t.Context(), event("", ""))
				var fe *lambdahost.FunctionError
				switch {
				case err == nil:
					replies.Add(1)
				case errors.As(err, &fe) && fe.Type == lambdahost.TypeExit:
					exits.Add(1)
				default:
					t.Errorf("got %v, want a reply or an exit", err)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	killer.Wait()
	if n := replies.Load() + exits.Load(); n != 300 || replies.Load() == 0 {
		t.Errorf("%d replies, %d exits", replies.Load(), exits.Load())
	}
	testkit.Eventually(t, "the function works again", func() bool {
		_, err := fn.Invoke(t.Context(), event("", ""))
		return err == nil && len(fn.Processes()) <= 4
	})
}

func BenchmarkDeployedFunction_InvokeWarm(b *testing.B) {
	h := lambdahost.New(lambdahost.Options{Log: io.Discard})
	fn, err := h.Deploy(lambdahost.Function{Name: "fn", Binary: bootstrap, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(b.Context())
	for b.Loop() {
		if _, err := fn.Invoke(b.Context(), event("", "")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(fn.Counts().Starts), "starts")
}
