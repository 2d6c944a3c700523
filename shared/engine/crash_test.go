package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// scenario is a workload with the block of each step. execute returns the ids of the
// executions that it started.
type scenario struct {
	devices int
	source  string
	blocks  map[string]string
	handled map[string]bool // steps whose failure the definition handles
	script  func(harness.BlockCall) *harness.Outcome
	execute func(s *harness.Harness) []string
}

func (p scenario) newHarness(t testing.TB, seed uint64) *harness.Harness {
	s := harness.New(t, seed, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(p.devices)...)
	s.Publish("w", p.source)
	s.Script = p.script
	return s
}

var scenarios = map[string]scenario{
	"completes": {
		devices: 3, source: stepsYAML("one once device", "two again device", "three pure global"),
		blocks:  map[string]string{"one": "once", "two": "again", "three": "pure"},
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(3)...)} },
	},
	"rolls back": {
		devices: 3, source: stepsYAML("one once device", "two again device"),
		blocks:  map[string]string{"one": "once", "two": "again"},
		script:  failCalls("two EXECUTE d001"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(3)...)} },
	},
	"compensates": {
		devices: 3, source: "steps:\n" +
			"  - {label: one, functionBlock: p/forever:1, runOn: device, compensate: {functionBlock: p/again:1, parameters: {of: '${one.result.attempt}'}}}\n" +
			"  - {label: two, functionBlock: p/once:1, runOn: global, compensate: {functionBlock: p/again:1, parameters: {of: '${two.result.attempt}', first: '${size(one.results)}'}}}\n" +
			"  - {label: three, functionBlock: p/again:1, runOn: device}\n",
		blocks:  map[string]string{"one": "compensated", "two": "compensated", "three": "again"},
		script:  failCalls("three EXECUTE d001"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(3)...)} },
	},
	"compensates pipelines and items": {
		devices: 2, source: "config: {executionStrategy: {parallel: true}}\nsteps:\n" +
			"  - {label: items, functionBlock: p/forever:1, runOn: item, foreach: {items: '${[\"a\", \"b\"]}'}, compensate: {functionBlock: p/again:1, parameters: {item: '${item}', at: '${items.results[index].attempt}'}}}\n" +
			"  - {label: one, functionBlock: p/forever:1, runOn: device, compensate: {functionBlock: p/again:1, parameters: {of: '${one.result.attempt}'}}}\n" +
			"  - {label: two, functionBlock: p/forever:1, runOn: device, compensate: {functionBlock: p/again:1, parameters: {of: '${has(two.result) ? two.result.attempt : 0}', one: '${one.result.attempt}'}}}\n" +
			"  - {label: three, functionBlock: p/again:1, runOn: global}\n",
		blocks:  map[string]string{"items": "compensated", "one": "compensated", "two": "compensated", "three": "again"},
		script:  failCalls("three EXECUTE"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(2)...)} },
	},
	"conflicts": {
		devices: 3, source: stepsYAML("one again device"), blocks: map[string]string{"one": "again"},
		execute: func(s *harness.Harness) []string {
			a := s.Start("w", "d000", "d001")
			return []string{a, s.Start("w", "d001", "d002"), s.Start("w", "d002", "d000")}
		},
	},
	"retries": {
		devices: 4, source: "config: {maxInFlight: 2}\n" + stepsYAML("one again device , retry: {maxRetries: 2, delay: 10s}", "two pure device"),
		blocks: map[string]string{"one": "again", "two": "pure"},
		script: func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" && c.Kind == workflow.JobExecute && c.Attempt < 3 && (c.Entity == "d001" || c.Entity == "d002") {
				return &harness.Outcome{FailCode: "BUSY", Retryable: true}
			}
			return nil
		},
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(4)...)} },
	},
	"chooses": {
		devices: 3, source: `steps:
  - {label: begin, set: {n: 0, text: "` + strings.Repeat("long ", 40) + `"}}
  - {label: one, functionBlock: p/again:1, runOn: device, parameters: {n: "${vars.n}", t: "${vars.text}"}, onFailure: [{when: error.code == "NO", steps: [{label: note, functionBlock: p/pure:1, runOn: global}], next: more}]}
  - {label: more, set: {n: "${vars.n + 1}"}}
  - {label: again, switch: [{when: vars.n < 2, next: one}, {default: true, steps: [{label: last, functionBlock: p/once:1, runOn: global, parameters: {n: "${vars.n}"}}]}]}
`,
		blocks:  map[string]string{"one": "again", "note": "pure", "last": "once"},
		handled: map[string]bool{"one": true},
		script: func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" && c.Kind == workflow.JobExecute && c.Entity == "d001" && strings.Contains(string(c.Parameters), `"n":0`) {
				return &harness.Outcome{FailCode: "NO"}
			}
			return nil
		},
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(3)...)} },
	},
	"branches": {
		devices: 3, source: `steps:
  - label: gather
    parallel:
      branches:
        - label: left
          steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/once:1, runOn: global}]
        - {label: three, functionBlock: p/pure:1, runOn: global}
  - {label: four, functionBlock: p/once:1, runOn: device}
`,
		blocks:  map[string]string{"one": "again", "two": "once", "three": "pure", "four": "once"},
		script:  failCalls("four EXECUTE d002"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(3)...)} },
	},
	"loops": {
		devices: 2, source: "steps:\n" +
			"  - {label: begin, set: {n: 0}}\n" +
			"  - {label: each, loop: {over: '${[\"" + strings.Repeat("a", 150) + "\", 2]}'}, workflow: {steps: [" +
			"{label: one, functionBlock: p/again:1, runOn: device, parameters: {n: '${item}'}}, {label: count, set: {n: '${vars.n + 1}'}}]}}\n" +
			"  - {label: until, loop: {while: vars.n < 3}, workflow: {steps: [{label: two, functionBlock: p/pure:1, runOn: global, parameters: {n: '${index}'}}, {label: last, set: {n: '${vars.n + 1}'}}]}}\n" +
			"  - {label: stops, loop: {while: 'true'}, workflow: {steps: [{label: three, functionBlock: p/pure:1, runOn: global}]}}\n",
		blocks:  map[string]string{"one": "again", "two": "pure", "three": "pure"},
		script:  func(c harness.BlockCall) *harness.Outcome { return &harness.Outcome{Break: c.Step == "three"} },
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(2)...)} },
	},
	"loop is undone": {
		devices: 2, source: "steps:\n" +
			"  - {label: each, loop: {over: '${[1, 2]}'}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device, parameters: {n: '${item}'}}]}}\n" +
			"  - {label: two, functionBlock: p/again:1, runOn: device}\n",
		blocks:  map[string]string{"one": "again", "two": "again"},
		script:  failCalls("two EXECUTE d001"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(2)...)} },
	},
	"items": {
		devices: 2, source: "steps:\n" +
			"  - {label: one, functionBlock: p/once:1, runOn: item, foreach: {items: '${[\"" + strings.Repeat("a", 150) + "\", 2, 3, 4]}', maxInFlight: 2}, parameters: {n: '${item}'}, retry: {maxRetries: 2}}\n" +
			"  - {label: two, functionBlock: p/again:1, runOn: item, foreach: {items: '${one.results}'}, parameters: {n: '${item.attempt}', i: '${index}'}}\n" +
			"  - {label: three, functionBlock: p/pure:1, runOn: device, condition: size(two.results) == 4}\n",
		blocks: map[string]string{"one": "once", "two": "again", "three": "pure"},
		script: func(c harness.BlockCall) *harness.Outcome {
			if c.Step == "one" && c.Attempt == 1 && strings.Contains(string(c.Parameters), "3") {
				return &harness.Outcome{FailCode: "BUSY", Retryable: true}
			}
			return nil
		},
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(2)...)} },
	},
	"items are undone": {
		devices: 2, source: "steps:\n" +
			"  - {label: one, functionBlock: p/again:1, runOn: item, foreach: {items: '${[1, 2, 3, 4]}'}, condition: item != 3, parameters: {n: '${item}'}}\n" +
			"  - {label: two, functionBlock: p/once:1, runOn: device}\n",
		blocks:  map[string]string{"one": "again", "two": "once"},
		script:  failCalls("two EXECUTE d001"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(2)...)} },
	},
	"rollout": {
		devices: 4, source: "steps:\n" +
			"  - {label: all, rollout: {by: 'entity.id < \"d002\"', order: ['true'], pause: 10m}, workflow: {steps: [" +
			"{label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/once:1, runOn: global}]}}\n",
		blocks:  map[string]string{"one": "again", "two": "once"},
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(4)...)} },
	},
	"rollout is undone": {
		devices: 4, source: "steps:\n" +
			"  - {label: all, rollout: {batches: [1], onFailure: rollbackAll}, workflow: {steps: [{label: one, functionBlock: p/again:1, runOn: device}, {label: two, functionBlock: p/again:1, runOn: device}]}}\n",
		blocks:  map[string]string{"one": "again", "two": "again"},
		script:  failCalls("two EXECUTE d002"),
		execute: func(s *harness.Harness) []string { return []string{s.Start("w", harness.DeviceIDs(4)...)} },
	},
	"is cancelled": {
		devices: 4, source: "config: {maxInFlight: 2}\n" + stepsYAML("one again device"), blocks: map[string]string{"one": "again"},
		execute: func(s *harness.Harness) []string {
			id := s.Start("w", harness.DeviceIDs(4)...)
			s.Deliver()
			for range 20 {
				var err error
				if !faults.CatchCrash(func() {
					_, err = s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{Reason: "enough"})
				}) && !workflow.Is(err, workflow.CodeUnavailable) {
					break
				}
			}
			return []string{id}
		},
	},
}

// Each scenario is repeated with one fault at each of its calls in turn: a crash before
// or after the call, a lost reply, a throttled or a repeated call. Timers bring each
// execution to its expected end.
func TestEngine_SurvivesFaultAtEveryCall(t *testing.T) {
	for name, p := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := p.newHarness(t, 1)
			before := clean.CallCount()
			ids := p.execute(clean)
			clean.RunUntilIdle(48 * time.Hour)
			calls := clean.CallCount() - before
			clean.CheckInvariants()
			for _, id := range ids {
				clean.CheckOutcome(id, p.blocks, p.handled, 0)
			}
			if t.Failed() {
				t.Fatal("the scenario fails without faults")
			}
			if calls < 20 {
				t.Fatalf("only %d calls", calls)
			}
			for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
				for n := 1; n <= calls; n++ {
					clean.Reset(1)
					runWithFault(clean, p, n, fault)
					if t.Failed() {
						t.Fatalf("at call %d of %d: %s", n, calls, fault)
					}
				}
			}
		})
	}
}

func runWithFault(s *harness.Harness, p scenario, n int, fault faults.Fault) {
	s.Helper()
	s.Faults = faults.At(n, fault)
	ids := p.execute(s)
	if !s.RunUntilIdle(48 * time.Hour) {
		s.Errorf("the executions do not end: %v", s.States(harness.Caller.Tenant))
	}
	s.Faults = nil
	s.CheckInvariants()
	for _, id := range ids {
		s.CheckOutcome(id, p.blocks, p.handled, 0)
	}
}

// Messages are delivered twice and in any order.
func TestEngine_ToleratesDuplicateAndReorderedMessages(t *testing.T) {
	for name, p := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := p.newHarness(t, 0)
			for seed := range uint64(30) {
				s.Reset(seed)
				s.QueueFaults.Shuffle, s.QueueFaults.DuplicateOneIn = true, 1
				ids := p.execute(s)
				settle(s)
				for _, id := range ids {
					s.CheckOutcome(id, p.blocks, p.handled, 0)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// N26: a crash between committing a step run and queueing its jobs.
func TestStart_RecoversFromCrashBeforeQueueing(t *testing.T) {
	s := newHarness(t, 2)
	s.Publish("w", stepsYAML("one once device"))
	s.Faults = faults.Next("sender.send_packs", faults.CrashBefore)
	id := s.Start("w", "d000", "d001")
	if n := s.PoolQueue("default").Len(); n != 0 {
		t.Fatalf("%d packs are queued", n)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if len(s.BlockCalls) != 2 {
		t.Errorf("called %v", s.BlockCalls)
	}
}

// N25: a result that a worker reports after it has lost its claim changes nothing.
func TestAdvance_IgnoresLateResult(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one again device"))
	id := s.Start("w", "d000")
	var before *workflow.Execution
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if len(s.BlockCalls) > 1 {
			return &harness.Outcome{Result: []byte(`"second"`)}
		}
		return &harness.Outcome{Result: []byte(`"first"`)}
	}
	late := s.StartTask("late", func() { s.Deliver() })
	late.RunUntil("packs.finish")
	s.RunFor(5 * time.Minute) // another worker takes over and finishes
	before = s.ExpectState(id, sm.ExecutionCompletedAck)
	late.Finish()
	settle(s)
	if after := s.Load(id); after.Version != before.Version {
		t.Error("the late result changed the execution")
	}
	if jobs := s.Jobs(id); len(jobs) != 1 || string(jobs[0].Result) != `"second"` || jobs[0].Attempt != 1 {
		t.Errorf("jobs %+v", jobs)
	}
}
