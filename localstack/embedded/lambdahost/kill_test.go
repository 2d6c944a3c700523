package lambdahost_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
)

// Processes are killed all the time, at any point of their life: every
// invocation ends, with a reply or with the exit that hit it, and in the end the
// function works with no more processes than it may have.
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
					t.Errorf("processes %v", pids)
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
					t.Errorf("unexpected: %v", err)
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
	eventually(t, "it works again", func() bool {
		_, err := fn.Invoke(t.Context(), event("", ""))
		return err == nil && len(fn.Processes()) <= 4
	})
}
