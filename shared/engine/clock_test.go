package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A job may end while a wake-up is about to read the progress of its step. What the wake-up then
// writes about the step is not earlier than the end of the job.
func TestHistory_StepsEndAfterTheirJobs(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device"))
	id := s.Start("w", harness.DeviceIDs(1)...)
	s.DrainWakeups()
	s.ExpectState(id, sm.ExecutionRunning)
	reading := s.StartTask("wake-up", func() {
		_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
	})
	if !reading.RunUntil("packs.") {
		t.Fatal("the wake-up reads no packs")
	}
	s.Advance(3 * time.Second)
	s.DrainPacks()
	ended := s.Now()
	s.Advance(time.Second)
	reading.Finish()
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.EndedAt.Before(ended) {
		t.Errorf("the execution has ended at %s, its job at %s", x.EndedAt, ended)
	}
	for _, e := range s.History(id) {
		if e.Type == string(sm.EventStepExited) && e.At.Before(ended) {
			t.Errorf("the step has ended at %s, its job at %s", e.At, ended)
		}
	}
}
