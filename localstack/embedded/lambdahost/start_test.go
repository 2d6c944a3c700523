package lambdahost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
)

func TestDeployedFunction_FailedStartIsRetriedOnce(t *testing.T) {
	for mode, kind := range map[string]string{
		"error": "Config.Missing",
		"exit":  lambdahost.TypeExit,
		"hang":  lambdahost.TypeTimeout,
	} {
		t.Run(mode, func(t *testing.T) {
			h, log := newHost(t, lambdahost.Options{InitTimeout: 200 * time.Millisecond})
			if mode != "hang" {
				h, log = newHost(t, lambdahost.Options{})
			}
			fn := deploy(t, h, lambdahost.Function{Env: []string{"START=" + mode}})
			_, err := fn.Invoke(t.Context(), event("", ""))
			wantFunctionError(t, err, kind)
			if n := fn.Counts().Starts; n != 2 {
				t.Errorf("%d starts for one invocation", n)
			}
			if !strings.Contains(log.String(), "environment did not start: "+kind) {
				t.Error("the failure was not reported")
			}
			wantFunctionError(t, fn.Ready(t.Context()), kind)
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
	if err := os.WriteFile(path, []byte("\x7fELF and no more"), 0o700); err != nil {
		t.Fatal(err)
	}
	fn, err := h.Deploy(lambdahost.Function{Name: "none", Binary: path})
	if err != nil {
		t.Fatal(err)
	}
	_, err = fn.Invoke(t.Context(), nil)
	wantFunctionError(t, err, lambdahost.TypeNoEntrypoint)
}

// A warm environment that never starts must not turn into a loop of starts, and
// must not delay the end.
func TestDeployedFunction_BacksOffFailedStarts(t *testing.T) {
	h, log := newHost(t, lambdahost.Options{Backoff: time.Minute})
	fn := deploy(t, h, lambdahost.Function{Env: []string{"START=exit"}, ProvisionedConcurrency: 3, MaxConcurrency: 3})
	wantFunctionError(t, fn.Ready(t.Context()), lambdahost.TypeExit)
	eventually(t, "all starts are over", func() bool { return strings.Count(log.String(), "did not start") == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := fn.Invoke(ctx, event("", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the invocation got %v, want to wait", err)
	}
	if n := fn.Counts().Starts; n != 3 {
		t.Errorf("%d starts, want the 3 warm ones", n)
	}
}
