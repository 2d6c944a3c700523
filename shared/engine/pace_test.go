package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// paced notes when the calls of a step begin, by entity, item or number, and checks that none begins
// before its time.
type paced struct {
	*harness.Harness
	each  time.Duration
	first time.Time
	begun map[string]time.Time // first attempts
}

// watchPace watches the calls of the step "one", whose number number gives.
func watchPace(s *harness.Harness, each time.Duration, number func(harness.BlockCall) int, fail func(harness.BlockCall) *harness.Outcome) *paced {
	p := &paced{Harness: s, each: each, begun: map[string]time.Time{}}
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" && c.Attempt <= 1 {
			if p.first.IsZero() {
				for _, r := range s.Load(c.Execution).StepRuns {
					if r.Label == "one" {
						p.first = r.EnteredAt
					}
				}
			}
			key := fmt.Sprint(c.Kind, number(c))
			if _, again := p.begun[key]; !again {
				p.begun[key] = s.Now()
			}
			if early := p.first.Add(time.Duration(number(c)) * each).Sub(s.Now()); early > 0 && c.Kind == workflow.JobExecute {
				s.Errorf("job %d begins %s before its time", number(c), early)
			}
		}
		if fail != nil {
			return fail(c)
		}
		return nil
	}
	return p
}

func ofDevice(c harness.BlockCall) (n int) {
	_, _ = fmt.Sscanf(c.Entity, "d%03d", &n)
	return n
}

// The jobs of a step with a pace begin one after the other, however they are sent, and none waits for
// longer than it has to.
func TestPace_JobsBeginEvenly(t *testing.T) {
	ofItem := func(c harness.BlockCall) (n int) {
		_, _ = fmt.Sscanf(string(c.Parameters), `{"n":%d}`, &n)
		return n
	}
	for name, test := range map[string]struct {
		yaml   string
		jobs   int
		each   time.Duration
		number func(harness.BlockCall) int
	}{
		"all at once":        {stepsYAML("one once device , pace: 2/1m"), 8, 30 * time.Second, ofDevice},
		"of a large step":    {stepsYAML("one again device , pace: 10/1s"), 120, 100 * time.Millisecond, ofDevice},
		"longer than ahead":  {stepsYAML("one again device , pace: 1/4m"), 12, 4 * time.Minute, ofDevice},
		"an hour between":    {stepsYAML("one once device , pace: 1/90m"), 3, 90 * time.Minute, ofDevice}, // longer than jobs may be unclaimed
		"more than a day":    {stepsYAML("one once device , pace: 1/10h"), 4, 10 * time.Hour, ofDevice},   // longer than messages live
		"a few at a time":    {"config: {maxInFlight: 2}\n" + stepsYAML("one pure device , pace: 1/20s"), 6, 20 * time.Second, ofDevice},
		"in pipelines":       {"config: {executionStrategy: {parallel: true}}\n" + stepsYAML("one again device , pace: 1/20s", "two again device"), 6, 20 * time.Second, ofDevice},
		"whose retry asks":   {stepsYAML(`one again device , pace: 1/20s, retry: {maxRetries: 1, when: error.retryable}`), 6, 20 * time.Second, ofDevice},
		"of items":           {stepsYAML(`one again item , pace: 1/20s, foreach: {items: "${[0, 1, 2, 3]}", as: n}, parameters: {n: "${n}"}`), 4, 20 * time.Second, ofItem},
		"with a short delay": {stepsYAML("one again device , pace: 1/20s, delay: 90s"), 3, 20 * time.Second, ofDevice},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, test.jobs)
			s.Publish("w", test.yaml)
			p := watchPace(s, test.each, test.number, nil)
			id := s.Start("w", harness.DeviceIDs(test.jobs)...)
			settle(s)
			x := s.ExpectState(id, sm.ExecutionCompletedAck)
			if len(p.begun) != test.jobs {
				t.Errorf("%d jobs began, want %d", len(p.begun), test.jobs)
			}
			last := p.first.Add(time.Duration(test.jobs-1) * test.each)
			if late := x.EndedAt.Sub(last); late > 2*time.Minute {
				t.Errorf("it ended %s after the last job could begin", late)
			}
			if x.Schema != 2 {
				t.Errorf("an older release may read it")
			}
		})
	}
}

// What is undone keeps the pace, too, and a failed job is tried again by its own pauses.
func TestPace_HoldsWhenUndone(t *testing.T) {
	s := newHarness(t, 4)
	s.Publish("w", stepsYAML("one once device , pace: 1/1m, retry: {maxRetries: 1, delay: 5s}", "two pure global"))
	tried := map[string]int{}
	p := watchPace(s, time.Minute, ofDevice, func(c harness.BlockCall) *harness.Outcome {
		tried[c.Entity]++
		if c.Step == "two" && c.Kind == workflow.JobExecute || c.Kind == workflow.JobExecute && c.Entity == "d001" && c.Attempt == 1 {
			return &harness.Outcome{FailCode: "BROKEN", Retryable: c.Step == "one"}
		}
		return nil
	})
	id := s.Start("w", harness.DeviceIDs(4)...)
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if tried["d001"] != 3 {
		t.Errorf("d001 was called %d times, want twice and once to undo it", tried["d001"])
	}
	undo := p.begun["ROLLBACK0"]
	for n := range 4 {
		if after := p.begun[fmt.Sprint(workflow.JobRollback, n)].Sub(undo); after < time.Duration(n)*time.Minute {
			t.Errorf("%d is undone %s after the first", n, after)
		}
	}
}

// Between two jobs an execution shows what it waits for.
func TestPace_IsShown(t *testing.T) {
	s := newHarness(t, 3)
	s.Publish("w", stepsYAML("one once device , pace: 1/10m"))
	id := s.Start("w", harness.DeviceIDs(3)...)
	s.RunFor(time.Minute)
	v, err := query.New(s.Engine, 1).Execution(context.Background(), harness.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	entered := s.Load(id).LastStepRun().EnteredAt
	if w := v.Waiting; w == nil || w.Kind != workflow.WaitTimer || *w.Step != "one" || !w.Until.Equal(entered.Add(10*time.Minute)) || *w.Reason != "jobs of the step begin 1/10m" {
		t.Errorf("it says that it waits for %+v", w)
	}
	settle(s)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// Whoever dies, no job begins before its time, and all are done.
func TestPace_HoldsUnderRandomFaults(t *testing.T) {
	for seed := range uint64(60) {
		s := harness.New(t, seed, harness.Options())
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(7)...)
		random := rand.New(rand.NewPCG(seed, 83))
		limit := ""
		if random.IntN(2) == 0 {
			limit = fmt.Sprintf("config: {maxInFlight: %d}\n", 1+random.IntN(3))
		}
		s.Publish("w", limit+stepsYAML("one again device , pace: 1/25s, retry: {maxRetries: 3, delay: 1s}"))
		s.Faults = faults.Randomly(random, 30, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		p := watchPace(s, 25*time.Second, ofDevice, func(harness.BlockCall) *harness.Outcome {
			if random.IntN(10) == 0 {
				return &harness.Outcome{Crash: true}
			}
			return nil
		})
		id := s.Start("w", harness.DeviceIDs(7)...)
		settle(s)
		if s.ExpectState(id, sm.ExecutionCompletedAck); len(p.begun) != 7 {
			t.Errorf("seed %d: %d jobs began", seed, len(p.begun))
		}
	}
}
