package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// play is a story with its steps' blocks. act returns the runs it has started.
type play struct {
	devices int
	source  string
	blocks  map[string]string
	script  func(stage.Call) *stage.Outcome
	act     func(s *stage.Stage) []string
}

func (p play) stage(t testing.TB, seed uint64) *stage.Stage {
	s := stage.New(t, seed, stage.Options())
	s.Blocks()
	s.Devices(stage.Names(p.devices)...)
	s.Publish("w", p.source)
	s.Script = p.script
	return s
}

var plays = map[string]play{
	"completes": {
		devices: 3, source: steps("one once device", "two again device", "three pure global"),
		blocks: map[string]string{"one": "once", "two": "again", "three": "pure"},
		act:    func(s *stage.Stage) []string { return []string{s.Start("w", stage.Names(3)...)} },
	},
	"rolls back": {
		devices: 3, source: steps("one once device", "two again device"),
		blocks: map[string]string{"one": "once", "two": "again"},
		script: failing("two EXECUTE d001"),
		act:    func(s *stage.Stage) []string { return []string{s.Start("w", stage.Names(3)...)} },
	},
	"conflicts": {
		devices: 3, source: steps("one again device"), blocks: map[string]string{"one": "again"},
		act: func(s *stage.Stage) []string {
			a := s.Start("w", "d000", "d001")
			return []string{a, s.Start("w", "d001", "d002"), s.Start("w", "d002", "d000")}
		},
	},
	"retries": {
		devices: 4, source: "config: {maxInFlight: 2}\n" + steps("one again device , retry: {maxRetries: 2, delay: 10s}", "two pure device"),
		blocks: map[string]string{"one": "again", "two": "pure"},
		script: func(c stage.Call) *stage.Outcome {
			if c.Step == "one" && c.Kind == workflow.JobExecute && c.Attempt < 3 && (c.Entity == "d001" || c.Entity == "d002") {
				return &stage.Outcome{Fail: "BUSY", Retryable: true}
			}
			return nil
		},
		act: func(s *stage.Stage) []string { return []string{s.Start("w", stage.Names(4)...)} },
	},
	"is cancelled": {
		devices: 4, source: "config: {maxInFlight: 2}\n" + steps("one again device"), blocks: map[string]string{"one": "again"},
		act: func(s *stage.Stage) []string {
			id := s.Start("w", stage.Names(4)...)
			s.Deliver()
			for range 20 {
				var err error
				if !fate.Survive(func() {
					_, err = s.Engine.Cancel(context.Background(), stage.Caller, id, views.CancelRequest{Reason: "enough"})
				}) && !workflow.Is(err, workflow.CodeUnavailable) {
					break
				}
			}
			return []string{id}
		},
	},
}

// TestCrashAtEveryCall lets whoever makes it die, or lose the reply, at every
// single call of a play: alarms bring each run to its right end.
func TestCrashAtEveryCall(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := p.stage(t, 1)
			before := clean.Calls()
			ids := p.act(clean)
			clean.Settle(48 * time.Hour)
			calls := clean.Calls() - before
			clean.Judge()
			for _, id := range ids {
				clean.Oracle(id, p.blocks, nil, 0)
			}
			if t.Failed() {
				t.Fatal("not even undisturbed")
			}
			if calls < 20 {
				t.Fatalf("only %d calls were seen", calls)
			}
			for _, fault := range []fate.Fault{fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated} {
				for n := 1; n <= calls; n++ {
					clean.Sequel(1)
					disturbed(clean, p, n, fault)
					if t.Failed() {
						t.Fatalf("at call %d of %d: %s", n, calls, fault)
					}
				}
			}
		})
	}
}

func disturbed(s *stage.Stage, p play, n int, fault fate.Fault) {
	s.Helper()
	s.Faults = fate.At(n, fault)
	ids := p.act(s)
	if !s.Settle(48 * time.Hour) {
		s.Errorf("it never ends: %v", s.States(stage.Caller.Tenant))
	}
	s.Faults = nil
	s.Judge()
	for _, id := range ids {
		s.Oracle(id, p.blocks, nil, 0)
	}
}

// TestDuplicatesAndDisorder delivers messages twice and in any order.
func TestDuplicatesAndDisorder(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := p.stage(t, 0)
			for seed := range uint64(30) {
				s.Sequel(seed)
				s.Deliveries.Shuffle, s.Deliveries.Duplicate = true, 1
				ids := p.act(s)
				settle(s)
				for _, id := range ids {
					s.Oracle(id, p.blocks, nil, 0)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// N26: a crash between storing a step's start and queueing its jobs.
func TestN26CrashBeforeQueueing(t *testing.T) {
	s := open(t, 2)
	s.Publish("w", steps("one once device"))
	s.Faults = fate.Next("board.offer", fate.CrashBefore)
	id := s.Start("w", "d000", "d001")
	if n := s.MakePool("default").Len(); n != 0 {
		t.Fatalf("%d packs are queued", n)
	}
	settle(s)
	s.Ends(id, sm.ExecutionCompletedAck)
	if len(s.Called) != 2 {
		t.Errorf("called %v", s.Called)
	}
}

// N25: a result that is pushed twice, or by a worker that has lost its claim,
// changes nothing.
func TestN25LateResult(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one again device"))
	id := s.Start("w", "d000")
	var before *workflow.Execution
	s.Script = func(c stage.Call) *stage.Outcome {
		if len(s.Called) > 1 {
			return &stage.Outcome{Result: []byte(`"second"`)}
		}
		return &stage.Outcome{Result: []byte(`"first"`)}
	}
	late := s.Task("late", func() { s.Deliver() })
	late.Until("packs.finish")
	s.Tick(5 * time.Minute) // somebody else takes over and finishes
	before = s.Ends(id, sm.ExecutionCompletedAck)
	late.Finish()
	settle(s)
	if after := s.Load(id); after.Version != before.Version {
		t.Error("the late result changed the run")
	}
	if jobs := s.Jobs(id); len(jobs) != 1 || string(jobs[0].Result) != `"second"` || jobs[0].Attempt != 1 {
		t.Errorf("jobs %+v", jobs)
	}
}
