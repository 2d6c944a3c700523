package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The reads of packs do not grow faster than the entities, however many of them fail: a lane with a
// failed job is read when all lanes have ended, for the counts of the step and for the outcomes of
// the entities, and any other lane never.
func TestCost_PacksOfFailedLanesAreReadOnce(t *testing.T) {
	const devices = 2000
	for _, c := range []struct {
		percent, most   int // packs that may be read for each job that fails
		onEntityFailure string
	}{{0, 0, "leave"}, {5, 2, "leave"}, {50, 4, "leave"}, {5, 8, "undo"}} {
		percent := c.percent
		o := harness.Options()
		o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(fourDigitIDs(devices)...)
		calls := 0
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Kind == workflow.JobRollback {
				return nil
			}
			if calls++; calls*percent/100 > (calls-1)*percent/100 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		s.Publish("w", "config: {failureTolerance: 60%, onEntityFailure: "+c.onEntityFailure+"}\n"+stepsYAML("one again device"))
		before := s.Consumed()
		id := s.Start("w", fourDigitIDs(devices)...)
		doneSets, plans := 0, 0
		s.Faults = func(c faults.Call) faults.Fault {
			switch c.Name {
			case "packs.done_set":
				doneSets++
			case "store.load_scope":
				plans++
			}
			return faults.None
		}
		for s.Deliver() {
		}
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := x.StepRuns[0].Counts; got.Failed != devices*percent/100 || got.OK != devices-got.Failed || percent > 0 && got.Failure == nil {
			t.Errorf("%d%% fail: counted %+v", percent, got)
		}
		failed := devices * percent / 100
		packs := int(s.Consumed().ReadUnits["jobs"]-before.ReadUnits["jobs"]) - doneSets
		if packs > c.most*failed {
			t.Errorf("%s, %d%% fail: %d packs were read, want at most %d", c.onEntityFailure, percent, packs, c.most*failed)
		}
		// Each failure reads the done sets of the step once, as does the end of each of them.
		shards := x.StepRuns[0].Shards()
		most := shards * (failed + shards + 2)
		if c.onEntityFailure == "undo" {
			most += shards * (shards + 2) // the undo is a step run of its own
		}
		if doneSets > most {
			t.Errorf("%s, %d%% fail: %d done sets were read, want at most %d", c.onEntityFailure, percent, doneSets, most)
		}
		t.Logf("%d entities, %s, %d%% fail: %d packs and %d done sets were read", devices, c.onEntityFailure, percent, packs, doneSets)
		if plans > 10 {
			t.Errorf("%d%% fail: the scope was read %d times", percent, plans)
		}
	}
}

// The consumption of a wake-up that commits nothing is counted by the next commit: an execution
// reports everything that it has caused.
func TestCost_CountsWakeupsThatCommitNothing(t *testing.T) {
	const devices = 400
	for name, definition := range map[string]string{
		"steps":    "config: {failureTolerance: 60%}\n" + stepsYAML("one again device"),
		"pipeline": "config: {failureTolerance: 60%, executionStrategy: {parallel: true}}\n" + stepsYAML("one again device", "two once device"),
	} {
		o := harness.Options()
		o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(fourDigitIDs(devices)...)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Kind == workflow.JobExecute && c.Entity[len(c.Entity)-1] < '3' {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		s.Publish("w", definition)
		before := s.Consumed()
		id := s.Start("w", fourDigitIDs(devices)...)
		for s.Deliver() {
		}
		used := s.Consumed()
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if used, counted := used.DynamoRequests-before.DynamoRequests, x.Cost.DynamoRequests; counted < used*99/100 || counted > used*101/100 {
			t.Errorf("%s: %d requests were made, %d are counted", name, used, counted)
		}
		for _, table := range []string{"executions", "jobs", "locks"} {
			written, counted := used.WriteUnits[table]-before.WriteUnits[table], x.Cost.WriteUnits[table]
			if counted < written*0.99-2 || counted > written*1.01+2 {
				t.Errorf("%s: %v write units of %s were used, %v are counted", name, written, table, counted)
			}
			read := used.ReadUnits[table] - before.ReadUnits[table]
			counted = x.Cost.ReadUnits[table]
			if counted < read*0.99-2 || counted > read*1.01+2 {
				t.Errorf("%s: %v read units of %s were used, %v are counted", name, read, table, counted)
			}
		}
	}
}

// A message that arrives twice begins no second chain of lanes: what is sent grows with the
// lanes, not with the lanes times the copies.
func TestCost_CopiesOfMessagesDoNotMultiply(t *testing.T) {
	const devices = 300
	for name, definition := range map[string]string{
		"steps":    "config: {maxInFlight: 2}\n" + stepsYAML("one again device"),
		"pipeline": "config: {maxInFlight: 2, executionStrategy: {parallel: true}}\n" + stepsYAML("one again device", "two again device"),
	} {
		o := harness.Options()
		o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(fourDigitIDs(devices)...)
		s.QueueFaults.DuplicateOneIn = 4
		s.Publish("w", definition)
		id := s.Start("w", fourDigitIDs(devices)...)
		sent := 0
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "sender.send_packs" {
				sent++
			}
			return faults.None
		}
		settle(s)
		jobs := devices * len(s.ExpectState(id, sm.ExecutionCompletedAck).StepRuns)
		if sent > 3*jobs/2 {
			t.Errorf("%s: packs were sent %d times, want about %d", name, sent, jobs)
		}
	}
}

// What a start reads does not grow with the versions of its definition, of the definitions
// that it embeds and of its blocks: an index for each, and the version that was chosen.
func TestCost_StartReadsOneVersionOfEachName(t *testing.T) {
	var reads [2]float64
	for i, versions := range []int{1, 100} {
		s := harness.New(t, 1, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices("a")
		ctx := context.Background()
		for n := range versions {
			version := fmt.Sprintf("1.%d.0", n)
			if _, err := s.Catalog.RegisterBlock(ctx, harness.Caller, workflow.Block{Package: "p", Name: "pure", Version: fmt.Sprintf("0.%d.0", n), Pure: true}); err != nil {
				t.Fatal(err)
			}
			for _, source := range []string{
				"name: inner\nsteps: [{label: one, functionBlock: p/pure, runOn: device}]\n",
				"name: w\nseedEntity: device\nsteps: [{label: first, workflowReference: {workflow: p/inner}}, {label: two, functionBlock: p/pure:1, runOn: device}]\n",
			} {
				if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte("package: p\nversion: "+version+"\n"+source), false); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := s.Consumed().ReadUnits["registry"]
		id := s.Start("w", "a")
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Workflow.Version != fmt.Sprintf("1.%d.0", versions-1) || x.Blocks["p/pure"] != "1.0.0" {
			t.Errorf("started %s with blocks %v", x.Workflow, x.Blocks)
		}
		reads[i] = s.Consumed().ReadUnits["registry"] - before
	}
	if reads[0] != reads[1] {
		t.Errorf("an execution reads %v items of the registry with one version of each name, and %v with 100", reads[0], reads[1])
	}
}

// A failed lane wakes the engine only if it may decide something. Where every entity may
// fail, or the definition continues after the step, only the last lane of each shard does.
func TestCost_FailuresThatDecideNothingWakeNobody(t *testing.T) {
	const devices = 2000
	for name, definition := range map[string]string{
		"tolerance of the definition": "config: {failureTolerance: 100%}\n" + stepsYAML("one again device"),
		"tolerance of the step":       "steps: [{label: one, functionBlock: p/again:1, runOn: device, failureTolerance: 100%}]\n",
		"continueOnError":             "steps: [{label: one, functionBlock: p/again:1, runOn: device, continueOnError: true}]\n",
	} {
		o := harness.Options()
		o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(fourDigitIDs(devices)...)
		calls := 0
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Kind != workflow.JobExecute {
				return nil
			}
			if calls++; calls%2 == 0 {
				return &harness.Outcome{FailCode: "REFUSED"}
			}
			return nil
		}
		s.Publish("w", definition)
		id := s.Start("w", fourDigitIDs(devices)...)
		doneSets := 0
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "packs.done_set" {
				doneSets++
			}
			return faults.None
		}
		for s.Deliver() {
		}
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if got := x.StepRuns[0].Counts; got.Failed != devices/2 || got.OK != devices/2 {
			t.Errorf("%s: counted %+v", name, got)
		}
		shards := x.StepRuns[0].Shards()
		if doneSets > 4*shards*shards {
			t.Errorf("%s: %d done sets of %d shards were read", name, doneSets, shards)
		}
	}
}

// A failure that is not tolerated any more ends the step at once, not with its last job: also
// in a step whose tolerance leaves room for many.
func TestTolerance_EndsStepOnceItIsUsedUp(t *testing.T) {
	const devices = 1000
	for name, definition := range map[string]string{
		"none":                        "config: {maxInFlight: 10}\n" + stepsYAML("one again device"),
		"tolerance of the definition": "config: {maxInFlight: 10, failureTolerance: 10%}\n" + stepsYAML("one again device"),
		"tolerance of the step":       "config: {maxInFlight: 10, failureTolerance: 100%}\nsteps: [{label: one, functionBlock: p/again:1, runOn: device, failureTolerance: 100}]\n",
	} {
		o := harness.Options()
		o.Policy.PackSize, o.Policy.MinPackedJobs = 1, devices+1
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(fourDigitIDs(devices)...)
		calls := 0
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			if c.Kind != workflow.JobExecute {
				return nil
			}
			calls++
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		s.Publish("w", definition)
		s.Start("w", fourDigitIDs(devices)...)
		for s.Deliver() {
		}
		if calls == 0 || calls > 150 {
			t.Errorf("%s: %d of %d jobs were executed, all of which failed", name, calls, devices)
		}
	}
}

// Executions that wait for one holder write to its item until its waiter set is full, and to the lock
// until an older one has reserved it. Further ones poll: each poll is one weak read of the holder, one
// commit and one message. docs/cost.md and docs/limits.md say how many.
func TestCost_WaitersOfOneHolderAreBounded(t *testing.T) {
	const waiters, polling = 4 * workflow.MaxWaiters, 3 * workflow.MaxWaiters
	o := harness.Options()
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.ImportDevices("a")
	s.Publish("w", "steps: [{label: one, wait: {for: 40m}}, {label: two, functionBlock: p/again:1, runOn: device}]\n")
	holder := s.Start("w", "a")
	s.ExpectState(holder, sm.ExecutionWaiting)
	calls := map[string]int{}
	s.Faults = func(c faults.Call) faults.Fault {
		calls[c.Name]++
		return faults.None
	}
	var ids []string
	for range waiters {
		ids = append(ids, s.Start("w", "a"))
	}
	for _, name := range []string{"store.add_holder_waiter", "locks.reserve", "locks.take"} {
		if calls[name] > workflow.MaxWaiters {
			t.Errorf("%d executions call %s %d times", waiters, name, calls[name])
		}
	}
	for _, period := range []struct {
		length time.Duration
		least  float64 // polls of each execution that is not registered
		most   float64
	}{{20 * time.Second, 2, 3}, {280 * time.Second, 10, 12}, {5 * time.Minute, 7, 9}} {
		clear(calls)
		for second := range int(period.length / time.Second) {
			s.Advance(time.Second)
			s.Drain()
			if second%60 == 59 {
				s.Sweep()
				s.Drain()
			}
		}
		registered := workflow.MaxWaiters * int(period.length/o.Policy.PollInterval) // each of them asks once in that time
		polls := float64(calls["store.heads_weakly"]-registered) / polling
		t.Logf("%s: %.1f polls of each execution, %v", period.length, polls, calls)
		if polls < period.least || polls > period.most {
			t.Errorf("each execution polls %.1f times in %s, want %v to %v", polls, period.length, period.least, period.most)
		}
		if calls["store.heads"] > registered || calls["store.commit"] > calls["store.heads_weakly"] || calls["sender.send_wakeups"] > calls["store.heads_weakly"] {
			t.Errorf("more than one weak read, one commit and one message for each poll: %v", calls)
		}
		for _, name := range []string{"store.add_holder_waiter", "locks.reserve", "locks.take"} {
			if calls[name] > 0 {
				t.Errorf("polls call %s %d times", name, calls[name])
			}
		}
	}
	s.Faults = nil
	for _, id := range ids {
		s.ExpectState(id, sm.ExecutionScheduled)
	}
}

// What creates an execution and leaves it to a wake-up is counted once.
func TestCost_ScheduledStartIsCountedOnce(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("w", stepsYAML("one pure global"))
	before, id := s.Consumed(), s.Engine.NewID()
	if err := s.Engine.StartScheduled(context.Background(), spec.Schedule{Name: "p/w", Tenant: harness.Caller.Tenant, Workflow: workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}, Cron: &spec.Cron{}}, id); err != nil {
		t.Fatal(err)
	}
	settle(s)
	used := s.Consumed()
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Cost.DynamoRequests > used.DynamoRequests-before.DynamoRequests {
		t.Errorf("%d requests are counted, %d were made", x.Cost.DynamoRequests, used.DynamoRequests-before.DynamoRequests)
	}
}

// A deletion takes what docs/limits.md says. It makes a lock item if there is none, because an execution may have
// read that there is none.
func TestCost_OfADeletion(t *testing.T) {
	for _, locked := range []bool{false, true} {
		s := harness.New(t, 1, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices("a")
		s.Publish("w", stepsYAML("one once device"))
		if locked {
			s.Start("w", "a")
			settle(s)
		}
		before := s.Consumed()
		key := workflow.EntityKey{Type: "device", ID: "a"}
		if _, err := s.Catalog.DeleteEntity(context.Background(), harness.Caller, key, nil); err != nil {
			t.Fatal(err)
		}
		after := s.Consumed()
		writes, reads := map[string]float64{}, map[string]float64{}
		for table := range after.WriteUnits {
			writes[table] = after.WriteUnits[table] - before.WriteUnits[table]
			reads[table] = after.ReadUnits[table] - before.ReadUnits[table]
		}
		// Its lock is read twice, each time with the execution that it names.
		executions := map[bool]float64{true: 2, false: 0}[locked]
		if writes["registry"] != 2 || writes["locks"] != 1 || writes["executions"] != 0 || reads["registry"] != 1 || reads["locks"] != 2 || reads["executions"] != executions {
			t.Errorf("locked before: %v: writes %v, reads %v", locked, writes, reads)
		}
		items, err := s.Open().Locks.Read(context.Background(), harness.Caller.Tenant, []workflow.EntityKey{key}, true)
		if err != nil || len(items) != 1 || items[key].Revision == 0 {
			t.Errorf("locked before: %v: %+v, %v", locked, items, err)
		}
	}
}
