package locking_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/locking"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A weak read of an owner is believed only if it says that the owner has passed the epoch of the
// lock, or holds nothing at it. That cannot change; whatever else it says may be outdated.
func TestLocker_BelievesWeakReadsOfPassedOwnersOnly(t *testing.T) {
	for _, c := range []struct {
		name   string
		states []sm.ExecutionState // that the owner has passed since it took the lock at epoch 1; the weak read shows the one before the last
		free   bool
		strong int // reads of owners
	}{
		{"as it was before its creation", nil, false, 1},
		{"as it was while it held the lock", []sm.ExecutionState{sm.ExecutionCompletedAck}, true, 1},
		{"as it was when it had ended", []sm.ExecutionState{sm.ExecutionFailedSafeAck, sm.ExecutionReady}, true, 0},
		{"at its next epoch", []sm.ExecutionState{sm.ExecutionFailedSafeAck, sm.ExecutionLocking, sm.ExecutionRunning}, true, 0},
		{"as it was before its next epoch, at which it has the lock", []sm.ExecutionState{sm.ExecutionFailedSafeAck, sm.ExecutionLocking}, false, 1},
	} {
		f := newFixture(t)
		y := f.newExecution()
		f.acquire(f.request(y, 0, "a"))
		for _, state := range c.states {
			f.commitState(y, state)
		}
		if c.strong == 1 && len(c.states) == 2 {
			f.acquire(f.request(y, 0, "a"))
		}
		x, strong := f.newExecution(), 0
		f.Faults = func(call faults.Call) faults.Fault {
			if call.Name == "store.heads_weakly" {
				return faults.Stale
			}
			if call.Name == "store.heads" {
				strong++
			}
			return faults.None
		}
		got := f.acquire(f.request(x, 0, "a"))
		f.Faults = nil
		if free := len(got.Tokens) == 1; free != c.free || strong != c.strong {
			t.Errorf("%s: free %v, want %v; %d strong reads, want %d", c.name, free, c.free, strong, c.strong)
		}
	}
}

// What is read beside the takes counts only if every lock was taken on the condition of what was read
// before: not if one was lost, was held already, or is shared.
func TestLocker_CallsBesideTheTakesOfAllLocks(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(f *fixture, x *workflow.Execution, req *locking.Request)
		calls   int
		besides bool
	}{
		{"free locks", func(*fixture, *workflow.Execution, *locking.Request) {}, 1, true},
		{"one that another execution takes meanwhile", func(f *fixture, _ *workflow.Execution, req *locking.Request) {
			beside := req.Beside
			req.Beside = func(ctx context.Context) {
				beside(ctx)
				f.commitState(f.newHolder("b"), sm.ExecutionCompletedAck)
			}
		}, 1, false},
		{"one that a deletion outdates meanwhile", func(f *fixture, _ *workflow.Execution, req *locking.Request) {
			beside := req.Beside
			req.Beside = func(ctx context.Context) {
				beside(ctx)
				if err := f.ports.Locks.Outdate(ctx, "t", keys("b")[0]); err != nil {
					f.Fatal(err)
				}
			}
		}, 1, false},
		{"one that the execution has", func(f *fixture, x *workflow.Execution, _ *locking.Request) { f.acquire(f.request(x, 0, "b")) }, 0, false},
		{"shared locks", func(_ *fixture, _ *workflow.Execution, req *locking.Request) { req.Mode = workflow.LockShared }, 0, false},
	} {
		f := newFixture(t)
		x, calls := f.newExecution(), 0
		req := f.request(x, 0, "a", "b")
		req.Beside = func(context.Context) { calls++ }
		c.prepare(f, x, &req)
		if got := f.acquire(req); len(got.Tokens) != 2 || got.Besides != c.besides || calls != c.calls {
			t.Errorf("%s: %d calls, counts %v, tokens %v", c.name, calls, got.Besides, got.Tokens)
		}
	}
}
