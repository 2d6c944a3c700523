package httpapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// noise is a text of n bytes that cannot be compressed much.
func noise(random *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(byte('!' + random.IntN('~'-'!')))
	}
	return b.String()
}

// newSizedFixture measures state items as they are stored.
func newSizedFixture(t *testing.T, stepRuns int) (*fixture, *rand.Rand) {
	o := harness.Options()
	o.Policy.MaxStepRuns = stepRuns
	f := newFixtureWith(t, 1, o)
	f.ExecutionBytes = func(x *workflow.Execution) int {
		doc, err := codec.EncodeExecution(x)
		if err != nil {
			t.Fatal(err)
		}
		return len(doc) + 1<<10 // its other attributes
	}
	return f, rand.New(rand.NewPCG(1, 1))
}

// loop publishes a step that runs n times, in all iterations of a step around it.
func (f *fixture) loop(n int, block string) {
	f.Publish("loop", fmt.Sprintf(`
steps:
  - label: all
    repeat: {count: %d}
    workflow:
      steps:
        - {label: one, functionBlock: %s, runOn: global, continueOnError: true}
  - {label: last, functionBlock: p/forever:1, runOn: global}
`, n, block))
}

// A thousand step runs that all fail with the longest messages leave room for every
// command of an operator, and the jobs show the messages in full.
func TestState_KeepsRoomForOperators(t *testing.T) {
	f, random := newSizedFixture(t, 1100)
	message := ""
	f.Script = func(c harness.BlockCall) *harness.Outcome {
		message = noise(random, workflow.MaxFailureMessage)
		return &harness.Outcome{FailCode: noise(random, workflow.MaxFailureCode), FailMessage: message}
	}
	f.loop(500, "p/forever:1")
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/loop"}`)
	for range 100 {
		if s := f.Load(x.ID); sm.Terminal(s.State) {
			break
		}
		f.RunFor(time.Hour)
	}
	s := f.Load(x.ID)
	t.Logf("%s with %d step runs in %d bytes", s.State, len(s.StepRuns), s.ItemBytes)
	if s.State != sm.ExecutionFailedUnsafe || len(s.StepRuns) != 1001 {
		t.Fatalf("%s (%s) with %d step runs", s.State, s.Reason, len(s.StepRuns))
	}
	if last := s.StepRuns[len(s.StepRuns)-1]; last.Counts.Failure.Message != message {
		t.Errorf("the last failure is %q", last.Counts.Failure.Message)
	}
	var jobs struct {
		Items []struct{ Error struct{ Message string } }
	}
	f.mustDo(&jobs, "GET", "/workflow-execution/id/"+x.ID+"/jobs?limit=1000&step=one", "")
	for _, j := range jobs.Items {
		if len(j.Error.Message) != workflow.MaxFailureMessage {
			t.Fatalf("a job shows %d bytes of its message", len(j.Error.Message))
		}
	}
	if len(jobs.Items) == 0 {
		t.Error("no job is shown")
	}
	reason := fmt.Sprintf(`{"reason":%q}`, strings.Repeat("\U0001d11e", 1000))
	f.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/retry", reason)
	f.awaitEnd(x.ID)
	f.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/acknowledge", reason)
	if s := f.Load(x.ID); s.State != sm.ExecutionFailedUnsafeAck {
		t.Errorf("acknowledged: %s", s.State)
	}
}

// An execution enters no step whose rollback would have no number any more.
func TestState_KeepsNumbersForRollback(t *testing.T) {
	f, _ := newSizedFixture(t, 100)
	f.Publish("three", "steps: [{label: one, functionBlock: p/once:1, runOn: global, delay: 1h}, {label: two, functionBlock: p/once:1, runOn: global}, {label: three, functionBlock: p/once:1, runOn: global}]")
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/three"}`)
	f.Drain()
	s := f.Load(x.ID)
	seen := s.Version
	s.Version++
	s.Commit, s.StepRunSeq = f.Nonce(), workflow.MaxStepRunSeq-5
	if _, ok, err := f.Open().Store.Commit(t.Context(), seen, s, workflow.CommitOptions{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	f.awaitEnd(x.ID)
	s = f.Load(x.ID)
	if s.State != sm.ExecutionFailedSafeAck || !s.RolledBack || s.Cause != workflow.CauseLimit || s.StepRunSeq != workflow.MaxStepRunSeq-1 {
		t.Errorf("%s, cause %s, rolled back %v, %d step runs: %s", s.State, s.Cause, s.RolledBack, s.StepRunSeq, s.Reason)
	}
}

// An execution that grows beyond its room fails in time: nothing is left that an operator
// could not end.
func TestState_FailsBeforeItIsFull(t *testing.T) {
	f, _ := newSizedFixture(t, 1000)
	size := f.ExecutionBytes
	f.ExecutionBytes = func(x *workflow.Execution) int { return size(x) + len(x.StepRuns)*20<<10 }
	f.Publish("loop", "steps: [{label: one, functionBlock: p/once:1, runOn: global, repeat: {count: 1000}}]")
	x := f.execute(`{"workflow":"p/loop"}`)
	s := f.Load(x.ID)
	if s.Cause != workflow.CauseLimit || s.ItemBytes > workflow.MaxItemBytes {
		t.Fatalf("%s, cause %s with %d step runs in %d bytes: %s", s.State, s.Cause, len(s.StepRuns), s.ItemBytes, s.Reason)
	}
	if s.State != sm.ExecutionFailedUnsafe || !strings.Contains(string(f.lastData(s)), "undo the rest by hand") {
		t.Errorf("%s: %s", s.State, f.lastData(s))
	}
	f.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/retry", `{"reason":"checked"}`)
	f.awaitEnd(x.ID)
	f.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/acknowledge", `{"reason":"checked"}`)
}

// lastData is the data of the last event.
func (f *fixture) lastData(x *workflow.Execution) json.RawMessage {
	return x.Events[len(x.Events)-1].Data
}
