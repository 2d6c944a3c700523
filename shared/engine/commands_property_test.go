package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// ofEverything has a step of each kind that waits, repeats or branches.
const ofEverything = `config: {executionStrategy: {parallel: PIPELINES}, rollback: ROLLBACK}
steps:
  - {label: one, functionBlock: p/pure:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device}
  - {label: items, functionBlock: p/again:1, runOn: item, foreach: {items: "${[1,2,3]}", maxInFlight: 2, failureTolerance: 1}, parameters: {n: "${item}"}}
  - label: gather
    parallel:
      allowPartial: PARTIAL
      branches:
        - {label: a, steps: [{label: signal, wait: {signal: {name: go, deadline: 3h, onTimeout: {answer: 1}}}}, {label: a2, functionBlock: p/again:1, runOn: device}]}
        - {label: b, steps: [{label: time, wait: {for: 7m}}, {label: b2, functionBlock: p/again:1, runOn: item, foreach: {items: "${[4, 5]}"}, parameters: {n: "${item}"}}]}
        - {label: c, steps: [{label: ask, wait: {approval: {deadline: 4h, escalate: [{after: 1h}]}}}]}
  - label: times
    loop: {over: "${[1,2]}", as: each}
    workflow:
      steps:
        - {label: again, wait: {signal: {name: go, deadline: 2h, onTimeout: {next: three}}}}
        - {label: three, functionBlock: p/again:1, runOn: device, delay: 3m, onFailure: [{steps: [{label: hand, functionBlock: p/again:1, runOn: global}]}]}
  - {label: last, functionBlock: p/again:1, runOn: device}
`

// Whatever people send, and whenever handlers and workers crash: an execution ends, leaves nothing
// open, and what is reported as safe or cancelled is undone.
func TestCommands_AtRandom(t *testing.T) {
	for seed := uint64(1); seed <= 150 && !t.Failed(); seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		pick := func(s ...string) string { return s[r.IntN(len(s))] }
		s := newHarness(t, 3)
		s.Publish("w", strings.NewReplacer("PIPELINES", pick("true", "false"), "ROLLBACK", pick("auto", "never"), "PARTIAL", pick("true", "false")).Replace(ofEverything))
		failing := r.IntN(3) == 0
		s.Script = func(harness.BlockCall) *harness.Outcome {
			if !failing || r.IntN(12) > 0 {
				return nil
			}
			return []*harness.Outcome{{Crash: true}, {FailCode: "NO"}, {FailCode: "BUSY", Retryable: true}}[r.IntN(3)]
		}
		rate := []int{0, 0, 60, 25}[r.IntN(4)]
		s.Faults = func(faults.Call) faults.Fault {
			if rate > 0 && r.IntN(rate) == 0 {
				return []faults.Fault{faults.CrashBefore, faults.CrashAfter}[r.IntN(2)]
			}
			return faults.None
		}
		req := harness.NewStartRequest("w", harness.DeviceIDs(3)...)
		if r.IntN(2) == 0 {
			req.Mode = views.ModeStep
		}
		req.Hold = r.IntN(4) == 0
		var id string
		s.WithoutFaults(func() { id = s.StartWith(req) })
		var sent []string
		for k := range 40 {
			s.RunFor(time.Duration(r.IntN(20)) * time.Minute)
			var x *workflow.Execution
			s.WithoutFaults(func() { x = s.Load(id) })
			if sm.Terminal(x.State) && r.IntN(2) == 0 {
				break
			}
			faults.CatchCrash(func() { sent = append(sent, sendAtRandom(t, s, x, r, k)) })
		}
		s.Faults = nil
		if x := s.Load(id); !sm.Terminal(x.State) {
			if _, err := s.Engine.Cancel(t.Context(), harness.Caller, id, views.CancelRequest{}); err != nil && !workflow.Is(err, workflow.CodeIllegalTransition) {
				t.Errorf("seed %d: cancel: %v", seed, err)
			}
		}
		s.RunFor(30 * time.Hour)
		s.CheckInvariants()
		if wrong := leftOpen(s.Load(id)); wrong != "" {
			t.Errorf("seed %d: %s, after %v", seed, wrong, sent)
		}
	}
}

// sendAtRandom sends one command that may or may not be allowed now, and names it.
func sendAtRandom(t *testing.T, s *harness.Harness, x *workflow.Execution, r *rand.Rand, k int) (what string) {
	var err error
	e, c, key := s.Engine, harness.Caller, fmt.Sprint(k)
	switch n := r.IntN(10); {
	case x.State == sm.ExecutionFailedUnsafe:
		what = "retry"
		_, err = e.Retry(t.Context(), c, x.ID, views.RetryRequest{Reason: "mended"})
	case n < 4 && x.Wait != nil && x.Wait.Kind == workflow.WaitStep:
		what = "next"
		_, err = e.NextStep(t.Context(), c, x.ID, views.NextRequest{Sequence: x.Wait.Event, All: r.IntN(12) == 0})
	case n < 5:
		what = "resume"
		_, err = e.ResumeStep(t.Context(), c, x.ID, []string{"", "time", "ask"}[r.IntN(3)], "")
	case n < 7:
		what = "signal"
		_, err = e.Signal(t.Context(), c, x.ID, "go", []byte("1"), key, "")
	case n < 8:
		what = "answer"
		_, err = e.Answer(t.Context(), c, x.ID, views.AnswerRequest{Input: []byte(`{"approved":true}`), IdempotencyKey: key})
	case n < 9:
		to := []string{"one", "two", "items", "gather", "times", "again", "three", "hand", "last", "a2"}[r.IntN(10)]
		what = "rewind to " + to
		_, err = e.Rewind(t.Context(), c, x.ID, views.RewindRequest{To: to, Force: r.IntN(2) == 0})
	case r.IntN(6) == 0:
		what = "cancel"
		_, err = e.Cancel(t.Context(), c, x.ID, views.CancelRequest{})
	}
	if workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("%s: %v", what, err)
	}
	return what
}

// leftOpen describes what an ended execution has wrongly left open.
func leftOpen(x *workflow.Execution) (wrong string) {
	if !sm.Terminal(x.State) || len(x.Threads) > 0 || x.Cause == workflow.CauseInternal {
		wrong = fmt.Sprintf("%s, cause %s, %+v, %d threads", x.State, x.Cause, x.Error, len(x.Threads))
	}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if r.Open() {
			wrong += fmt.Sprintf("; step run %d of %s is open", r.Seq, r.Label)
		}
		if x.State != sm.ExecutionFailedSafeAck && x.State != sm.ExecutionCancelledAck || r.Kind != workflow.JobExecute || r.Pure || r.Counts.Executed() == 0 {
			continue
		}
		undone := false
		for _, u := range x.StepRuns {
			undone = undone || u.Kind == workflow.JobRollback && u.Undoes == r.Seq && u.Status == sm.StepCompleted
		}
		if !undone {
			wrong += fmt.Sprintf("; %s, and step run %d of %s is not undone", x.State, r.Seq, r.Label)
		}
	}
	return wrong
}
