package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A step whose queue lasts longer than its messages live is worked through to its end:
// one worker has 2,000 jobs of 50 seconds, which are 28 hours.
func TestEngine_QueueOutlastsItsMessages(t *testing.T) {
	const devices, perJob = 2000, 50 * time.Second
	o := harness.Options()
	o.Policy.PackSize, o.Policy.MinPackedJobs = 10, 101
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices(fourDigitIDs(devices)...)
	s.Script = takes(s, perJob)
	s.Publish("w", stepsYAML("one again device"))
	id := s.Start("w", fourDigitIDs(devices)...)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if took := x.EndedAt.Sub(x.StartedAt); took < devices*perJob {
		t.Errorf("it has ended after %s", took)
	}
	if n := len(s.BlockCalls); n != devices {
		t.Errorf("%d jobs have run, want each of %d once", n, devices)
	}
}

// The second step of a pipeline waits in the queue behind all entities of the first. That does not
// make it unclaimed: a worker of its pool is busy.
func TestEngine_PipelineWaitsBehindItsFirstStep(t *testing.T) {
	const devices = 100
	s := newHarness(t, devices)
	s.Script = takes(s, 50*time.Second)
	s.Publish("w", "config: {executionStrategy: {parallel: true}}\n"+stepsYAML("one once device", "two once device"))
	id := s.Start("w", harness.DeviceIDs(devices)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if n := len(s.BlockCalls); n != 2*devices {
		t.Errorf("%d jobs have run, want %d", n, 2*devices)
	}
}

// takes returns a script in which each call of a block takes this long.
func takes(s *harness.Harness, d time.Duration) func(harness.BlockCall) *harness.Outcome {
	return func(harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{During: func() { passTime(s, d) }}
	}
}

// passTime lets time pass while a worker is busy: timers fire, and the engine handles its
// messages.
func passTime(s *harness.Harness, d time.Duration) {
	for until := s.Now().Add(d); s.Now().Before(until); s.DrainWakeups() {
		before, next := s.Now(), until
		if at, ok := s.LifecycleQueue().NextVisible(); ok && at.Before(next) {
			next = at
		}
		s.Advance(next.Sub(before))
		if next.Truncate(time.Minute).After(before) {
			s.Sweep()
		}
	}
}

func fourDigitIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("d%04d", i))
	}
	return ids
}

// Jobs that wait behind those of another execution are not unclaimed while a worker of their pool works at those.
func TestEngine_WaitsBehindAnotherExecution(t *testing.T) {
	const devices, perJob = 2000, 50 * time.Second
	o := harness.Options()
	o.Policy.PackSize, o.Policy.MinPackedJobs = 10, 101
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	ids := fourDigitIDs(devices + 1)
	s.ImportDevices(ids...)
	s.Script = takes(s, perJob)
	s.Publish("w", stepsYAML("one again device"))
	before := s.Start("w", ids[:devices]...)
	s.DrainWakeups() // its messages are sent
	behind := s.Start("w", ids[devices])
	settle(s)
	s.ExpectState(before, sm.ExecutionCompletedAck)
	x := s.ExpectState(behind, sm.ExecutionCompletedAck)
	if waited := x.EndedAt.Sub(x.StartedAt); waited < devices*perJob {
		t.Errorf("it has ended after %s: it was not behind the other", waited)
	}
	if n := len(s.BlockCalls); n != devices+1 {
		t.Errorf("%d jobs have run, want each of %d once", n, devices+1)
	}
}

// A worker executes pure jobs without a claim. Those at the end of a long queue are not unclaimed meanwhile, although
// another worker already has a later message of the queue, unless they take longer than jobs may wait.
func TestEngine_WorkerHasWhatTheQueueHasPassed(t *testing.T) {
	const devices = 100
	for minutes, want := range map[int]sm.ExecutionState{20: sm.ExecutionCompletedAck, 130: sm.ExecutionFailedSafeAck} {
		s := newHarness(t, devices+1)
		var behind string
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Execution != behind {
				return takes(s, 50*time.Second)(c)
			}
			return &harness.Outcome{During: func() {
				for range minutes {
					mark := workflow.PoolMark{At: s.Now(), SentAt: s.Now().Add(-time.Second), Execution: "another", StepRun: 1}
					if err := s.Open().Packs.MarkPool(t.Context(), "default", mark); err != nil {
						t.Fatal(err)
					}
					passTime(s, time.Minute)
				}
			}}
		}
		s.Publish("w", stepsYAML("one once device"))
		s.Publish("v", stepsYAML("one pure device"))
		ids := harness.DeviceIDs(devices + 1)
		before := s.Start("w", ids[:devices]...)
		s.DrainWakeups() // its messages are sent
		behind = s.Start("v", ids[devices])
		settle(s)
		s.ExpectState(before, sm.ExecutionCompletedAck)
		x := s.ExpectState(behind, want)
		if waited := x.EndedAt.Sub(x.StartedAt); waited < time.Hour {
			t.Errorf("it has ended after %s: it was not behind the other", waited)
		}
	}
}

// Jobs that the queue has passed are behind others again where a worker is seen with what was sent before: those may take
// as long as they like, and only then does the time begin in which passed jobs may be executed.
func TestEngine_WaitsBehindOthersAfterItWasPassed(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("v", stepsYAML("one pure device"))
	start := s.Now()
	id := s.Start("v", harness.DeviceIDs(1)...)
	works := func(d time.Duration, sentAt func() time.Time) {
		for until := s.Now().Add(d); s.Now().Before(until); passTime(s, time.Minute) {
			mark := workflow.PoolMark{At: s.Now(), SentAt: sentAt(), Execution: "another", StepRun: 1}
			if err := s.Open().Packs.MarkPool(t.Context(), "default", mark); err != nil {
				t.Fatal(err)
			}
		}
	}
	before, later := func() time.Time { return start.Add(-time.Minute) }, func() time.Time { return s.Now().Add(-time.Second) }
	works(90*time.Minute, later)
	works(3*time.Hour, before)
	works(10*time.Minute, later)
	s.ExpectState(id, sm.ExecutionRunning)
	works(70*time.Minute, later)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseUnclaimed {
		t.Errorf("it has ended with cause %s", x.Cause)
	}
}
