package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// N22: in a pipeline, each entity advances without waiting for the others; a global
// step is a barrier.
func TestPipeline_EntitiesAdvanceIndependently(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device, condition: 'entity.id != "d001"'}
  - {label: three, functionBlock: p/again:1, runOn: device, parameters: {was: "${one.result}"}}
  - {label: all, functionBlock: p/pure:1, runOn: global, parameters: {n: "${size(two.results)}"}}
`)
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.StepRuns[1].Counts.OK != 2 || x.StepRuns[1].Skipped != 1 || x.StepRuns[2].Counts.OK != 3 {
		t.Errorf("two %+v skipped %d, three %+v", x.StepRuns[1].Counts, x.StepRuns[1].Skipped, x.StepRuns[2].Counts)
	}
	calls := s.CallsOf(id)
	if len(calls) != 9 || calls[8] != "all EXECUTE" {
		t.Errorf("calls %v", calls)
	}
}

// A pipeline in which no entity takes part ends at once, without a timer.
func TestPipeline_WithoutEntitiesEndsAtOnce(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `config: {executionStrategy: {parallel: true}, maxInFlight: 1}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device, condition: 'entity.id > "z"'}
  - {label: two, functionBlock: p/pure:1, runOn: device, condition: 'entity.id > "z"'}
`)
	id := s.Start("w", harness.DeviceIDs(2)...)
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A pipeline whose first step has nothing to do for an entity, and whose next one fails before it
// has a job, fails at once: no worker will report the lane.
func TestPipeline_FailsAtOnceWhereItCannotBePlanned(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device, condition: 'entity.id > "z"'}
  - {label: two, functionBlock: p/pure:1, runOn: device, assert: '1 > 2'}
`)
	id := s.Start("w", harness.DeviceIDs(1)...)
	s.Drain()
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseAssertion {
		t.Errorf("the cause is %s: %s", x.Cause, x.Reason)
	}
}

// What cannot be planned is the failure of the step with the mistake, and not of an earlier one in
// the pipeline: their failure handlers do not handle it.
func TestPipeline_FailsInTheStepThatCannotBePlanned(t *testing.T) {
	for config, skipped := range map[string]string{
		"{executionStrategy: {parallel: true}}":                 "d000",
		"{executionStrategy: {parallel: true}, maxInFlight: 1}": "d001",
	} {
		s := newHarness(t, 2)
		s.Publish("w", "config: "+config+`
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, condition: 'entity.id != "`+skipped+`"', continueOnError: true}
  - {label: two, functionBlock: p/pure:1, runOn: device, parameters: {before: "${one.result.n}"}}
`)
		s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{Result: []byte(`{"n":1}`)} }
		id := s.Start("w", harness.DeviceIDs(2)...)
		s.Drain()
		if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Step != "two" || x.Error.Code != workflow.FailureParameters {
			t.Errorf("without a result of %s: %+v", skipped, x.Error)
		}
	}
}

// The same if others commit before each commit of the wake-up that has found the mistake.
func TestPipeline_FailsAlthoughOthersCommitFirst(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device, condition: 'has(entity.by)', parameters: {before: "${one.result.n}"}}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d000" {
			return nil
		}
		return &harness.Outcome{SetAttributes: map[string]any{"by": "one"}, Result: []byte(`{}`)}
	}
	id := s.Start("w", harness.DeviceIDs(2)...)
	for delivered := true; delivered; { // no timer
		handler := s.StartTask("handler", func() { delivered = s.Deliver() })
		for n := 0; !handler.Done() && n < 1000; n++ {
			if handler.NextCall() == "store.commit" {
				advance(s, id)
			}
			handler.Step()
		}
	}
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Error == nil || x.Error.Step != "two" {
		t.Errorf("failed with %+v", x.Error)
	}
}

// The same if the wake-up that has found the mistake gives up, because others always commit first:
// the one that continues for it learns of it.
func TestPipeline_FailsAlthoughWhoFoundItOutGivesUp(t *testing.T) {
	o := harness.Options()
	o.MaxConflictRetries = 0
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices("d000")
	s.Publish("w", `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device, condition: 'entity.id > "z"'}
  - {label: two, functionBlock: p/pure:1, runOn: device, assert: '1 > 2'}
`)
	open, taken := s.Engine.OpenPorts, false
	s.Engine.OpenPorts = func() port.Ports {
		p := open()
		p.Store = overtakenStore{p.Store, func(next *workflow.Execution) {
			if r := next.StepRunBySeq(1); !taken && r != nil && !r.Open() {
				taken = true
				advance(s, next.ID)
			}
		}}
		return p
	}
	id := s.Start("w", "d000")
	s.Drain() // no timer
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !taken || x.Cause != workflow.CauseAssertion {
		t.Errorf("the cause is %s: %s; another one committed first: %t", x.Cause, x.Reason, taken)
	}
}

// overtakenStore calls first before each commit.
type overtakenStore struct {
	port.Store
	first func(next *workflow.Execution)
}

func (s overtakenStore) Commit(ctx context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) ([]string, bool, error) {
	s.first(next)
	return s.Store.Commit(ctx, seen, next, o)
}

// If a step of a pipeline cannot be planned and that is handled, the others continue without it, no
// wider than the window and without a timer.
func TestPipeline_GoesOnWithoutAStepThatCannotBePlanned(t *testing.T) {
	const bad = ", continueOnError: true, assert: '1 > 2'"
	for name, test := range map[string]struct {
		config              string
		devices             int
		first, second, last string
		want                []string // nil if the order is open
	}{
		"second of three, one at a time": {", maxInFlight: 1", 3, "", bad, "", []string{
			"one EXECUTE d000", "three EXECUTE d000", "one EXECUTE d001", "three EXECUTE d001", "one EXECUTE d002", "three EXECUTE d002",
		}},
		"last of three, one at a time": {", maxInFlight: 1", 3, "", "", bad, []string{
			"one EXECUTE d000", "two EXECUTE d000", "one EXECUTE d001", "two EXECUTE d001", "one EXECUTE d002", "two EXECUTE d002",
		}},
		"the last two, one at a time": {", maxInFlight: 1", 2, "", bad, bad, []string{"one EXECUTE d000", "one EXECUTE d001"}},
		"for the second entity": {", maxInFlight: 1", 3, "", ", continueOnError: true, parameters: {n: '${entity.id == \"d001\" ? 1 / 0 : 1}'}", "", []string{
			"one EXECUTE d000", "two EXECUTE d000", "three EXECUTE d000", "one EXECUTE d001", "three EXECUTE d001", "one EXECUTE d002", "three EXECUTE d002",
		}},
		"second of three, two at a time": {", maxInFlight: 2", 5, "", bad, "", nil},
		"second of three, all at once":   {"", 5, "", bad, "", nil},
		"of one entity":                  {"", 1, "", bad, "", []string{"one EXECUTE d000", "three EXECUTE d000"}},
		"the third has nothing to do":    {", maxInFlight: 1", 2, "", bad, ", condition: '1 > 2'", []string{"one EXECUTE d000", "one EXECUTE d001"}},
	} {
		s := newHarness(t, test.devices)
		s.Publish("w", `config: {executionStrategy: {parallel: true}`+test.config+`}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device`+test.first+`}
  - {label: two, functionBlock: p/pure:1, runOn: device`+test.second+`}
  - {label: three, functionBlock: p/pure:1, runOn: device`+test.last+`}
`)
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if n := s.PoolQueue("default").Len(); test.config == ", maxInFlight: 1" && n > 1 {
				t.Errorf("%s: %d packs are on their way, one may be", name, n)
			}
			return nil
		}
		id := s.Start("w", harness.DeviceIDs(test.devices)...)
		s.Drain() // no timer
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		calls := s.CallsOf(id)
		if test.want == nil && len(calls) != 2*test.devices || test.want != nil && !slices.Equal(calls, test.want) {
			t.Errorf("%s: calls %v, want %v (%+v)", name, calls, test.want, x.StepRuns)
		}
	}
}

// The same if the handler that has closed the step crashes: the timer sends the lanes that may
// continue and no others, although all lanes of the closed step have ended.
func TestPipeline_TimerKeepsToTheWindowBesideAClosedStep(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", `config: {executionStrategy: {parallel: true}, maxInFlight: 1}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/pure:1, runOn: device, continueOnError: true, assert: '1 > 2'}
`)
	s.Script = func(harness.BlockCall) *harness.Outcome {
		if n := s.PoolQueue("default").Len(); n > 1 {
			t.Errorf("%d packs are on their way, one may be", n)
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(4)...)
	for delivered, died := true, false; delivered && !died; {
		handler := s.StartTask("handler", func() { delivered = s.Deliver() })
		for n := 0; !handler.Done() && n < 1000; n++ {
			if died = s.Load(id).StepRuns[1].Status == sm.StepFailed; died {
				handler.Kill()
				break
			}
			handler.Step()
		}
	}
	s.Drain()
	if calls := s.CallsOf(id); len(calls) != 1 {
		t.Fatalf("calls %v: the handler has not died", calls)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := s.CallsOf(id); len(calls) != 4 {
		t.Errorf("calls %v", calls)
	}
}

// startedJob starts a worker on the next pack and stops it when its block has been executed.
func startedJob(s *harness.Harness) *faults.Task {
	worker := s.StartTask("worker", func() { s.Deliver() })
	worker.RunUntil("packs.finish")
	return worker
}

// A step that is being closed ends lanes that never reached it. The timer sends none in their place
// while a worker still works in it.
func TestPipeline_TimerKeepsToTheWindowBesideAClosingStep(t *testing.T) {
	s := newHarness(t, 6)
	s.Publish("w", `config: {executionStrategy: {parallel: true}, maxInFlight: 2}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, functionBlock: p/once:1, runOn: device, continueOnError: true, parameters: {n: '${entity.id == "d001" ? 1 / 0 : 1}'}}
`)
	id := s.Start("w", harness.DeviceIDs(6)...)
	s.Deliver() // d000 in one
	s.Deliver() // its wake-up
	inOne, inTwo := startedJob(s), startedJob(s)
	inOne.Finish()
	s.Deliver() // cannot be planned
	if r := s.Load(id).StepRuns[1]; !r.Open() || !r.Closing {
		t.Fatalf("the step is not being closed: %+v", r)
	}
	s.Advance(61 * time.Second)
	s.Sweep()
	s.DrainWakeups()
	if n := s.PoolQueue("default").Len(); n != 2 { // that of d000, and d003, for which d001 has made room
		t.Errorf("%d packs are on their way, want two", n)
	}
	inTwo.Finish()
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := s.CallsOf(id); len(calls) != 7 {
		t.Errorf("calls %v", calls)
	}
}

// A lane ends while the step behind it is being closed. Its wake-up leaves it there. It records the
// lane's end after the handler that has closed the step has read which lanes have ended, but before
// that handler records it too. The lane that waits for it in the window begins all the same.
func TestPipeline_ResumesALaneThatWasLeft(t *testing.T) {
	s := newHarness(t, 6)
	s.Publish("w", `config: {executionStrategy: {parallel: true}, maxInFlight: 3}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, functionBlock: p/once:1, runOn: device, continueOnError: true, parameters: {n: '${entity.id == "d001" ? 1 / 0 : 1}'}}
`)
	id := s.Start("w", harness.DeviceIDs(6)...)
	s.Deliver() // d000 in one
	s.Deliver() // its wake-up
	second, third, inTwo := startedJob(s), startedJob(s), startedJob(s)
	second.Finish()
	s.Deliver() // cannot be planned
	third.Finish()
	leaves := s.StartTask("leaves the lane", func() { s.Deliver() })
	leaves.RunUntil("packs.add_done")
	inTwo.Finish()
	closes := s.StartTask("closes the step", func() { s.Deliver() })
	for n := 0; s.Load(id).StepRuns[1].Open() && n < 1000; n++ {
		closes.Step()
	}
	closes.RunUntil("packs.add_done")
	leaves.Finish()
	closes.Finish()
	s.Drain() // no timer
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if calls := s.CallsOf(id); len(calls) != 7 {
		t.Errorf("calls %v", calls)
	}
}

// Another wake-up may find that a lane has ended before the worker reports it. The lane's next pack
// is sent all the same: with a single lane, whose end completes the step run, and with a timer that
// has fired, which adds the lane to the done set.
func TestPipeline_SendsLaneReportedAfterAdvance(t *testing.T) {
	for devices, wait := range map[int]time.Duration{1: 0, 2: 61 * time.Second} {
		sendLaneReportedAfterAdvance(t, devices, wait, "", nil)
	}
	// The same where the step run has ended with a failure that is handled.
	sendLaneReportedAfterAdvance(t, 1, 0, "continueOnError: true", failFor("one", "d000"))
	sendLaneReportedAfterAdvance(t, 1, 0, "onFailure: two", failFor("one", "d000"))
}

func sendLaneReportedAfterAdvance(t *testing.T, devices int, wait time.Duration, field string, script func(harness.BlockCall) *harness.Outcome) {
	t.Helper()
	s := newHarness(t, devices)
	s.Script = script
	s.Publish("w", `config: {executionStrategy: {parallel: true}}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, `+field+`}
  - {label: two, functionBlock: p/pure:1, runOn: device}
`)
	id := s.Start("w", harness.DeviceIDs(devices)...)
	s.Advance(wait)
	sender := s.StartTask("reporter", func() { s.Deliver() })
	sender.RunUntil("sender.send_wakeups")
	advance(s, id)
	sender.Finish()
	s.Drain() // no timer
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// A pipeline is rolled back in reverse, step by step, for the entities that were
// executed.
func TestPipeline_RollsBackInReverse(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", `config: {executionStrategy: {parallel: true}, maxInFlight: 1}
steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, functionBlock: p/once:1, runOn: device}
`)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" && c.Entity == "d001" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	id := s.Start("w", harness.DeviceIDs(3)...)
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); !x.RolledBack || x.Error.Entity != "device/d001" {
		t.Errorf("rolled back %v, error %+v", x.RolledBack, x.Error)
	}
	want := []string{
		"one EXECUTE d000", "two EXECUTE d000", "one EXECUTE d001", "two EXECUTE d001",
		"two ROLLBACK d000", "two ROLLBACK d001", "one ROLLBACK d000", "one ROLLBACK d001",
	}
	if diff := cmp.Diff(want, s.CallsOf(id)); diff != "" {
		t.Error(diff)
	}
}

// Lanes of a pipeline that begin with nothing to do all continue at once, even if the next step
// cannot be planned for the first of them.
func TestPipeline_GoesOnWithAllLanesWithoutJobs(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", "config: {executionStrategy: {parallel: true}}\nsteps:\n  - {label: none, functionBlock: p/again:1, runOn: device, condition: entity.id == 'x'}\n"+
		"  - {label: reads, functionBlock: p/again:1, runOn: device, continueOnError: true, parameters: {n: '${none.result.n}'}}\n  - {label: last, functionBlock: p/pure:1, runOn: global}\n")
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// An hour without wake-ups is nobody's fault. The first wake-up after it records that a lane of a
// pipeline has ended; the next lane, which was never sent, is offered before it counts as
// unclaimed.
func TestPipeline_NextLaneIsOfferedAfterAnOutage(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", "config: {maxInFlight: 1, executionStrategy: {parallel: true}}\nsteps: [{label: a, functionBlock: p/pure:1, runOn: device}, {label: b, functionBlock: p/pure:1, runOn: device}]\n")
	id := s.Start("w", harness.DeviceIDs(2)...)
	q := s.PoolQueue("default")
	for range 2 {
		s.DrainWakeups()
		m, ok := q.Receive(time.Minute)
		if !ok {
			t.Fatal("a pack was not sent")
		}
		if _, err := s.HandlePack(0, m.Pack()); err != nil {
			t.Fatal(err)
		}
		q.Delete(m)
	}
	s.LifecycleQueue().Purge() // that the first lane has ended is lost
	s.Advance(3 * time.Hour)
	s.Sweep()
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}
