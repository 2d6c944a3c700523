package e2e

import (
	"sync"
	"syscall"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fenced is a device that remembers the highest fence it has seen and refuses
// every lower one. A change of the held run waits on its way to it.
type fenced struct {
	mu      sync.Mutex
	highest map[string]string
	applied []string // executions, in order
	refused []string

	held bool
	way  chan struct{} // closed when what is on its way may arrive
	set  chan call     // the call that is held
}

func (f *fenced) change(k call) answer {
	f.mu.Lock()
	first := !f.held
	f.held = true
	f.mu.Unlock()
	if first {
		f.set <- k
		<-f.way
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.Fence < f.highest[k.on()] {
		f.refused = append(f.refused, k.Job.Execution)
		return failed("STALE_FENCE", false)
	}
	f.highest[k.on()] = k.Fence
	f.applied = append(f.applied, k.Operation+" "+k.Job.Execution)
	return nil
}

// TestN31_LateOwner: a run's worker stops for longer than its lease while its
// change is on the way to the device. The run is cancelled and rolled back, and
// another run gets the entity. The late change is refused by its fence, and what
// the woken worker has to say changes nothing.
func TestN31_LateOwner(t *testing.T) {
	t.Parallel()
	embedded(t, "it stops a function in the middle")
	s := start(t, setup{})
	c := sceneOn(t, s, "owner")
	ids := c.entities(c.kind(), 1)
	device := &fenced{highest: map[string]string{}, way: make(chan struct{}), set: make(chan call, 10)}
	c.block("change", workflow.Block{Reversible: true, UndoHarmless: true, Timeout: workflow.Duration(patience)}, device.change)
	c.define("", "label: change, block: change, runOn: KIND")
	a := c.run("{}", ids...)
	<-device.set
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
	b := c.run("{}", ids...)
	if x := c.ends(a, sm.ExecutionCancelledAck); !x.RolledBack {
		t.Errorf("what may have happened was not undone: %+v", x.Error)
	}
	c.ends(b, sm.ExecutionCompletedAck)
	before := c.outcome(a) + c.outcome(b)

	close(device.way)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	eventually(t, "the late change arrives", func() bool {
		device.mu.Lock()
		defer device.mu.Unlock()
		return len(device.refused)+len(device.applied) == 3
	})
	want := []string{"ROLLBACK " + a, "EXECUTE " + b}
	if len(device.refused) != 1 || device.refused[0] != a || len(device.applied) != 2 || device.applied[0] != want[0] || device.applied[1] != want[1] {
		t.Errorf("applied %v, refused %v; want %v, and the late change of %s refused", device.applied, device.refused, want, a)
	}
	eventually(t, "the woken worker serves again", func() bool {
		third := c.run("{}", ids...)
		c.ends(third, sm.ExecutionCompletedAck)
		return true
	})
	if after := c.outcome(a) + c.outcome(b); after != before {
		t.Errorf("a late worker changed\n%s\nto\n%s", before, after)
	}
}
