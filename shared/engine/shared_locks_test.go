package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const sharedLockMode = "config: {lockMode: shared}\n"

// Read-only executions share a device. One that changes it waits for all of them, and
// its view shows who they are.
func TestSharedLock_ReadersShareAndWriterWaits(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("reads", sharedLockMode+stepsYAML("one pure device"))
	s.Publish("writes", stepsYAML("one once device"))
	a, b := s.Start("reads", "d000", "d001"), s.Start("reads", "d000")
	w := s.Start("writes", "d000")
	for _, id := range []string{a, b} {
		if x := s.ExpectState(id, sm.ExecutionRunning); x.LockMode != workflow.LockShared {
			t.Errorf("lock mode %q", x.LockMode)
		}
	}
	if x := s.ExpectState(w, sm.ExecutionScheduled); x.BlockedBy.Execution != a || x.LockMode != "" {
		t.Errorf("blocked by %+v, lock mode %q", x.BlockedBy, x.LockMode)
	}
	held := map[string]views.LockView{}
	for _, l := range s.Locks() {
		held[*l.HeldBy+" "+l.Entity.ID] = l
	}
	for _, want := range []string{a + " d000", a + " d001", b + " d000"} {
		if l, ok := held[want]; !ok || l.Mode != "shared" || l.Token == 0 || l.Since == nil || len(l.SharedWith) > 0 {
			t.Errorf("%s: %+v", want, l)
		}
	}
	if len(held) != 3 || held[a+" d000"].Token == held[b+" d000"].Token {
		t.Errorf("lock list: %+v", held)
	}
	one, err := s.Query.Lock(context.Background(), harness.Caller, workflow.EntityKey{Type: "device", ID: "d000"})
	if err != nil || one.Mode != "shared" || *one.HeldBy != a || !slices.Equal(one.SharedWith, []string{b}) || len(one.Waiting) != 1 || one.Waiting[0].Execution != w {
		t.Errorf("lock view: %+v, %v", one, err)
	}
	settle(s)
	for _, id := range []string{a, b, w} {
		s.ExpectState(id, sm.ExecutionCompletedAck)
	}
	if l := s.Locks(); len(l) > 0 {
		t.Errorf("still locked: %+v", l)
	}
}

// The holders of a shared lock have tokens too, and tokens grow.
func TestSharedLock_TokensGrow(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("reads", sharedLockMode+stepsYAML("one pure device"))
	s.Publish("writes", stepsYAML("one once device"))
	for i, w := range []string{"reads", "reads", "writes", "reads"} {
		id := s.Start(w, "d000")
		settle(s)
		if held := s.Load(id).Scope.Inline; len(held) != 1 || held[0].Token != int64(i+1) {
			t.Errorf("%s holds %+v, want token %d", w, held, i+1)
		}
	}
}

// A definition with blocks that are not pure cannot lock in shared mode.
func TestSharedLock_RefusesImpureBlocks(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", sharedLockMode+stepsYAML("one pure device", "two once device"))
	x := s.ExpectState(s.Start("w", "d000"), sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseValidation || x.Epoch != 0 {
		t.Errorf("cause %s, %+v, epoch %d", x.Cause, x.Error, x.Epoch)
	}
	settle(s)
}

// Whatever an execution was started as, it enters no step that changes entities while it shares its
// locks: also not as a later step of a pipeline.
func TestSharedLock_EntersNoStepThatChangesEntities(t *testing.T) {
	for _, strategy := range []string{"{parallel: false}", "{parallel: true}"} {
		s := newHarness(t, 1)
		s.Publish("w", "config: {executionStrategy: "+strategy+"}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: device, delay: 1h}, {label: two, functionBlock: p/once:1, runOn: device}]\n")
		id := s.Start("w", "d000")
		s.Drain()
		x := s.ExpectState(id, sm.ExecutionWaiting)
		seen := x.Version
		x.Version++
		x.Commit, x.LockMode = s.Nonce(), workflow.LockShared
		if _, ok, err := s.Open().Store.Commit(t.Context(), seen, x, workflow.CommitOptions{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		s.RunFor(2 * time.Hour)
		if x := s.Load(id); !sm.Terminal(x.State) || x.Cause != workflow.CauseInternal || !strings.Contains(x.Reason, "under shared locks") {
			t.Errorf("%s: %s because of %s, %q", strategy, x.State, x.Cause, x.Reason)
		}
		for _, call := range s.CallsOf(id) {
			if strings.HasPrefix(call, "two ") {
				t.Errorf("%s: called %s", strategy, call)
			}
		}
	}
}

// With onLocked: skip an execution leaves out what others hold, lists it, and works on
// the rest.
func TestOnLocked_SkipDropsLockedEntities(t *testing.T) {
	s := newHarness(t, 25)
	s.Publish("holds", stepsYAML("one once device"))
	s.Publish("skips", "config: {onLocked: skip}\n"+stepsYAML("one once device"))
	devices := harness.DeviceIDs(25)
	a := s.Start("holds", devices[:23]...)
	b := s.Start("skips", devices...)
	x := s.ExpectState(b, sm.ExecutionRunning)
	if x.DroppedCount != 23 || len(x.Dropped) != 20 || x.Dropped[0].Execution != a || x.Dropped[0].Entity.ID != "d000" || x.Dropped[0].Since.IsZero() {
		t.Errorf("dropped %d: %+v", x.DroppedCount, x.Dropped)
	}
	v, err := s.Query.Execution(context.Background(), harness.Caller, b)
	if err != nil || v.Dropped.Count != 23 || len(v.Dropped.Blockers) != 20 || *v.Dropped.Blockers[0].Entity != "device/d000" || *v.Dropped.Blockers[0].HeldBy != a {
		t.Errorf("the view has %+v, %v", v.Dropped, err)
	}
	if x.Scope.Total() != 2 {
		t.Errorf("scope %+v", x.Scope)
	}
	granted := s.History(b)[slices.IndexFunc(s.History(b), func(e workflow.Event) bool { return e.Type == string(sm.EventLockGranted) })]
	var data struct {
		Dropped      []string `json:"dropped"`
		DroppedCount int      `json:"droppedCount"`
	}
	if err := json.Unmarshal(granted.Data, &data); err != nil || data.DroppedCount != 23 || len(data.Dropped) != 20 || data.Dropped[0] != "device/d000" {
		t.Errorf("the event has %s, %v", granted.Data, err)
	}
	settle(s)
	s.ExpectState(a, sm.ExecutionCompletedAck)
	s.ExpectState(b, sm.ExecutionCompletedAck)
	if calls := s.CallsOf(b); len(calls) != 2 || !s.HasCalled(b, "one EXECUTE d023") || !s.HasCalled(b, "one EXECUTE d024") {
		t.Errorf("called %v", calls)
	}
}

// If everything is left out, the execution completes without jobs, or fails if the
// definition sets assertNotEmpty.
func TestOnLocked_SkipMayDropAllEntities(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("holds", stepsYAML("one once device"))
	s.Publish("skips", "config: {onLocked: skip}\n"+stepsYAML("one once device"))
	s.Publish("asserts", "config: {onLocked: skip}\nassertNotEmpty: true\nacquire: [{type: device, ids: [d000]}]\n"+stepsYAML("one once device"))
	a := s.Start("holds", "d000")
	b, c := s.Start("skips", "d000"), s.Start("asserts")
	settle(s)
	s.ExpectState(a, sm.ExecutionCompletedAck)
	if x := s.ExpectState(b, sm.ExecutionCompletedAck); x.DroppedCount != 1 || len(s.CallsOf(b)) > 0 {
		t.Errorf("dropped %+v, called %v", x.Dropped, s.CallsOf(b))
	}
	if x := s.ExpectState(c, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseAssertion || x.DroppedCount != 1 {
		t.Errorf("cause %s, %+v", x.Cause, x.Error)
	}
}

// Executions that share, lock exclusively or skip, with faults at any call and messages
// delivered twice or never: all end, and an exclusive holder is always the only one.
func TestLocks_MixedModesExcludeUnderFaults(t *testing.T) {
	for seed := range uint64(60) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		devices := harness.DeviceIDs(3)
		s.ImportDevices(devices...)
		s.Publish("reads", sharedLockMode+stepsYAML("one pure device"))
		s.Publish("writes", stepsYAML("one again device"))
		s.Publish("skips", "config: {onLocked: skip}\n"+stepsYAML("one again device"))
		s.QueueFaults = sim.QueueFaults{Shuffle: true, DuplicateOneIn: 2, LoseOneIn: 6}
		random := rand.New(rand.NewPCG(seed, 1))
		randomFault := faults.Randomly(random, 12, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated, faults.Stale)
		left := 300
		s.Faults = func(c faults.Call) faults.Fault {
			if left--; left < 0 {
				return faults.None
			}
			return randomFault(c)
		}
		for range 6 {
			from := random.IntN(3)
			s.Start([]string{"reads", "writes", "skips"}[random.IntN(3)], devices[from:from+1+random.IntN(3-from)]...)
			for range random.IntN(6) {
				s.Deliver()
				assertNoExclusiveOverlap(s, fmt.Sprint("seed ", seed))
			}
		}
		settle(s)
		if l := s.Locks(); len(l) > 0 {
			t.Errorf("seed %d: still locked: %+v", seed, l)
		}
	}
}

// assertNoExclusiveOverlap checks that an exclusive holder of an entity is its only one.
func assertNoExclusiveOverlap(s *harness.Harness, what string) {
	s.Helper()
	holders, exclusive := map[string]int{}, map[string]bool{}
	s.WithoutFaults(func() {
		for id := range s.States(harness.Caller.Tenant) {
			x := s.Load(id)
			if !sm.HoldsLocks(x.State) || x.State == sm.ExecutionLocking {
				continue
			}
			for _, h := range x.Scope.Inline {
				holders[h.Key.ID]++
				exclusive[h.Key.ID] = exclusive[h.Key.ID] || x.LockMode != workflow.LockShared
			}
		}
	})
	for e, n := range holders {
		if n > 1 && exclusive[e] {
			s.Errorf("%s: %d executions hold %s, one of them exclusively", what, n, e)
		}
	}
}
