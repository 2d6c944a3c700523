package e2e

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestPowerLoss_EndsUnsafe: everything dies while a block that must not run twice is at work,
// and while another run waits for its locks. Nothing of the stack outlives it. On
// the same data the first run is told as unsafe, because nobody knows what has
// happened, and nothing of it is called again; its locks stay until somebody has
// looked, and then the run that waits goes on by itself.
func TestPowerLoss_EndsUnsafe(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{data: t.TempDir(), port: freePort(t)})
	c := newFixture(t, s, "cut")
	ids := c.importEntities(c.entityType(), 6)
	var cut atomic.Bool
	entered, release := make(chan struct{}, 100), make(chan struct{})
	c.registerBlock("once", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, func(call) blockAnswer {
		if !cut.Load() {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	c.publishWorkflow("config: {maxInFlight: 2}\n", "label: once, block: once, runOn: KIND")
	first := c.startWorkflow("{}", ids...)
	<-entered
	<-entered
	second := c.startWorkflow("{}", ids[0], ids[5])
	eventually(t, "the second run waits", func() bool {
		x, err := c.Execution(t.Context(), second)
		return err == nil && x.Waiting != nil && x.Waiting.Kind == workflow.WaitLock
	})
	old := s.pids(".")
	cut.Store(true)
	s.killAndRestart()
	close(release)
	for _, pid := range old {
		eventually(t, "a child dies with its parent", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	x := c.waitEnded(first, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseWorkerCrash || x.Error == nil || x.Error.Entity == nil {
		t.Errorf("cause %v, error %+v", deref(x.Cause), x.Error)
	}
	keys := map[string]int{}
	for _, k := range c.blocks.allCalls() {
		keys[k.key]++
	}
	for key, n := range keys {
		if n > 1 {
			t.Errorf("job %s was called %d times", key, n)
		}
	}
	unknown, cancelled := 0, 0
	for _, j := range c.listJobs(first, views.JobFilter{}) {
		switch j.State {
		case sm.JobUnknown:
			unknown++
		case sm.JobCancelled:
			cancelled++
		}
	}
	if unknown != 2 || cancelled+unknown+c.countJobs(first, sm.JobCompleted) != 6 {
		t.Errorf("%d jobs unknown, %d cancelled, %d completed: want the two that were under way unknown, and none lost", unknown, cancelled, c.countJobs(first, sm.JobCompleted))
	}
	if w, err := c.Execution(t.Context(), second); err != nil || w.State != sm.ExecutionScheduled {
		t.Errorf("the run that waits is in %s, %v", w.State, err)
	}
	if _, err := c.Acknowledge(t.Context(), first, "looked at both"); err != nil {
		t.Fatal(err)
	}
	c.waitEnded(first, sm.ExecutionFailedUnsafeAck)
	c.waitEnded(second, sm.ExecutionCompletedAck)
}

func (c *fixture) countJobs(id string, state sm.JobState) (n int) {
	c.t.Helper()
	for _, j := range c.listJobs(id, views.JobFilter{}) {
		if j.State == state {
			n++
		}
	}
	return n
}

// TestDev_TerminatesWithJobsInProgress: a stack that is told to end while jobs hang ends in
// time, with everything it has started.
func TestDev_TerminatesWithJobsInProgress(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it stops the stack")
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "term")
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("hang", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: hang, block: hang, runOn: KIND")
	c.startWorkflow("{}", ids...)
	<-g.entered
	children := s.pids(".")
	began := time.Now()
	s.stopProcess() // fails the test after 15 s
	for _, pid := range children {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left, %s after SIGTERM", pid, time.Since(began))
		}
	}
}
