package e2e

import (
	"sync"
	"syscall"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fencedDevice is a device that rejects every fence lower than the highest it has seen.
// It holds the first change until release is closed.
type fencedDevice struct {
	mu       sync.Mutex
	highest  map[string]string
	applied  []string // executions, in order
	rejected []string

	held     bool
	release  chan struct{}
	heldCall chan call // the call that is held
}

func (f *fencedDevice) change(k call) blockAnswer {
	f.mu.Lock()
	first := !f.held
	f.held = true
	f.mu.Unlock()
	if first {
		f.heldCall <- k
		<-f.release
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.Fence < f.highest[k.entityID()] {
		f.rejected = append(f.rejected, k.Job.Execution)
		return errorAnswer("STALE_FENCE", false)
	}
	f.highest[k.entityID()] = k.Fence
	f.applied = append(f.applied, k.Operation+" "+k.Job.Execution)
	return nil
}

// A worker is stopped for longer than its lease while its change is on the way to the
// device. The execution is cancelled and rolled back, and another execution gets the
// entity. The device rejects the late change by its fence, and the late result of the
// worker changes nothing.
func TestFence_RefusesLateOwner(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it stops a function")
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "owner")
	ids := c.importEntities(c.entityType(), 1)
	device := &fencedDevice{highest: map[string]string{}, release: make(chan struct{}), heldCall: make(chan call, 10)}
	c.registerBlock("change", workflow.Block{Reversible: true, UndoHarmless: true, Timeout: workflow.Duration(waitTimeout)}, device.change)
	c.publishWorkflow("", "label: change, block: change, runOn: KIND")
	a := c.startWorkflow("{}", ids...)
	<-device.heldCall
	stopped := s.pids("functions/worker/bootstrap")
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if len(stopped) == 0 {
		t.Fatal("there is no worker function to stop")
	}
	if _, err := c.Cancel(t.Context(), a, views.CancelRequest{Reason: "it hangs"}); err != nil {
		t.Fatal(err)
	}
	b := c.startWorkflow("{}", ids...)
	if x := c.waitEnded(a, sm.ExecutionCancelledAck); !x.RolledBack {
		t.Errorf("not rolled back: %+v", x.Error)
	}
	c.waitEnded(b, sm.ExecutionCompletedAck)
	before := c.snapshot(a) + c.snapshot(b)

	close(device.release)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	eventually(t, "the late change arrives", func() bool {
		device.mu.Lock()
		defer device.mu.Unlock()
		return len(device.rejected)+len(device.applied) == 3
	})
	want := []string{"ROLLBACK " + a, "EXECUTE " + b}
	if len(device.rejected) != 1 || device.rejected[0] != a || len(device.applied) != 2 || device.applied[0] != want[0] || device.applied[1] != want[1] {
		t.Errorf("applied %v, rejected %v; want %v, and the late change of %s rejected", device.applied, device.rejected, want, a)
	}
	eventually(t, "the resumed worker serves again", func() bool {
		third := c.startWorkflow("{}", ids...)
		c.waitEnded(third, sm.ExecutionCompletedAck)
		return true
	})
	if after := c.snapshot(a) + c.snapshot(b); after != before {
		t.Errorf("the late worker changed\n%s\nto\n%s", before, after)
	}
}
