package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// waitingView returns what the execution waits for, as the view shows it.
func waitingView(s *harness.Harness, id string) (w *views.Waiting) {
	s.Helper()
	s.WithoutFaults(func() {
		x, err := s.Query.Execution(s.Context(), harness.Caller, id)
		if err != nil {
			s.Fatal(err)
		}
		w = x.Waiting
	})
	return w
}

// An execution whose wake-ups fail shows why, and is ended if that lasts: safely before
// any job was executed, unsafely after that.
func TestFailures_EndStalledExecution(t *testing.T) {
	const one = "{label: one, functionBlock: p/once:1, runOn: device}"
	noPacks := []string{"packs.put_cancelled", "packs.shard_packs", "packs.lane_packs", "packs.pack", "packs.done_set"}
	for name, c := range map[string]struct {
		step   string
		refuse []string
		want   sm.ExecutionState
	}{
		"no locks":                      {one, []string{"locks.", "store.heads"}, sm.ExecutionFailedSafeAck},
		"nothing is closed":             {one, noPacks, sm.ExecutionFailedUnsafe},
		"nothing is closed in branches": {"{label: both, parallel: {branches: [" + one + ", {label: wait, wait: {for: 240h}}]}}", noPacks, sm.ExecutionFailedUnsafe},
		"nothing is closed in a loop":   {"{label: twice, repeat: {count: 2}, workflow: {steps: [" + one + "]}}", noPacks, sm.ExecutionFailedUnsafe},
	} {
		s := newHarness(t, 1)
		s.Publish("w", "steps: ["+c.step+"]\n")
		s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
		s.Faults = faults.Every(faults.Broken, c.refuse...)
		id := s.Start("w", "d000")
		s.RunFor(10 * time.Minute)
		w := waitingView(s, id)
		if w == nil || w.Kind != workflow.WaitEngine || w.Reason == nil || *w.Reason == "" || w.Until == nil {
			t.Errorf("%s: waits for %+v", name, w)
		}
		s.RunFor(3 * time.Hour)
		x := s.ExpectState(id, c.want)
		if x.Cause != workflow.CauseInternal || !strings.Contains(x.Reason, "wake-ups have failed since") || !strings.Contains(x.Reason, ": internal error") || x.FailureStreak != nil {
			t.Errorf("%s: %s, %q, %+v", name, x.Cause, x.Reason, x.FailureStreak)
		}
		if open := slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Open() }); open || len(x.Threads) > 0 {
			t.Errorf("%s: the execution has ended, but not %+v", name, x.StepRuns)
		}
	}
}

// Of two handlers that end the same execution at the same time, one does. The other one does not end it again,
// which would leave its jobs as they are.
func TestFailures_OneHandlerEndsAnExecution(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Script = func(harness.BlockCall) *harness.Outcome { return &harness.Outcome{FailCode: "REFUSED"} }
	s.Faults = faults.Every(faults.Broken, "packs.")
	id := s.Start("w", "d000")
	s.RunFor(59 * time.Minute)
	s.ExpectState(id, sm.ExecutionRunning)
	s.Advance(5 * time.Minute)
	advance := func() {
		_ = s.Engine.Advance(context.Background(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
	}
	first := s.StartTask("first", advance)
	first.RunUntil("store.commit")
	advance()
	first.Finish()
	if x := s.ExpectState(id, sm.ExecutionError); x.StepRuns[0].Status != sm.StepRunning {
		t.Errorf("%+v", x.StepRuns)
	}
	s.Faults = nil
	settle(s)
	s.ExpectState(id, sm.ExecutionFailedSafeAck)
}

// A failure streak that ends leaves no trace: the execution continues, however long the
// streak was.
func TestFailures_ClearedByRecovery(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Broken, "locks.")
	id := s.Start("w", "d000")
	s.RunFor(50 * time.Minute)
	s.Faults = nil
	settle(s)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.FailureStreak != nil || waitingView(s, id) != nil {
		t.Errorf("failure streak %+v", x.FailureStreak)
	}
}

// An outage of a table is waited out, however long it lasts, and shown meanwhile.
func TestFailures_OutageIsWaitedOut(t *testing.T) {
	for _, calls := range []string{"packs.", "locks.", "sender."} {
		s := newHarness(t, 1)
		s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
		s.Faults = faults.Every(faults.Throttled, calls)
		id := s.Start("w", "d000")
		s.RunFor(3 * time.Hour)
		x := s.Load(id)
		if sm.Terminal(x.State) {
			t.Errorf("%s: the outage ended the execution: %s %s", calls, x.State, x.Reason)
		}
		if w := waitingView(s, id); calls != "sender." && (x.FailureStreak == nil || x.FailureStreak.UnavailableSince.IsZero() || w == nil || w.Kind != workflow.WaitEngine || w.Reason == nil || w.Until != nil) {
			t.Errorf("%s: streak %+v, waits for %+v", calls, x.FailureStreak, w)
		}
		s.Faults = nil
		settle(s)
		if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.FailureStreak != nil {
			t.Errorf("%s: %+v", calls, x.FailureStreak)
		}
	}
}

// A wake-up that succeeds ends the streak even if it commits nothing, and an execution is
// ended only by a wake-up that fails itself.
func TestFailures_SuccessWithoutCommitEndsStreak(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	req := harness.NewStartRequest("w", "d000")
	req.NotBefore = s.Now().Add(24 * time.Hour)
	id := s.StartWith(req)
	x := s.ExpectState(id, sm.ExecutionBlockedWaiting)
	stale := workflow.FailureStreak{Since: s.Now().Add(-5 * time.Hour), Count: 7, Reason: "an old fault"}
	s.WithoutFaults(func() {
		if _, err := s.Open().Store.RecordFailureStreak(s.Context(), x.Tenant, id, x.Version, x.FailureStreak, stale); err != nil {
			t.Fatal(err)
		}
		if err := s.Engine.Advance(s.Context(), workflow.Wakeup{Tenant: x.Tenant, Execution: id}); err != nil {
			t.Fatal(err)
		}
	})
	if after := s.Load(id); after.FailureStreak != nil || after.State != x.State || after.Version != x.Version {
		t.Errorf("streak %+v, %s, version %d", after.FailureStreak, after.State, after.Version)
	}
}

// A wake-up that dies without a trace, of memory for example, is counted when the queue
// delivers it again, and ends the execution if that does not stop.
func TestFailures_WakeupsThatDieEndTheExecution(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Throttled, "locks.")
	id := s.Start("w", "d000")
	s.Faults = faults.Every(faults.CrashBefore, "locks.")
	wakeup := workflow.Wakeup{Tenant: s.Load(id).Tenant, Execution: id, Redelivered: true}
	deaths := 0
	for range 20 {
		if sm.Terminal(s.Load(id).State) {
			break
		}
		if faults.CatchCrash(func() { _ = s.Engine.Advance(s.Context(), wakeup) }) {
			deaths++
		}
		s.Advance(15 * time.Minute)
	}
	x := s.Load(id)
	if x.State != sm.ExecutionFailedSafeAck || x.Cause != workflow.CauseInternal || !strings.Contains(x.Reason, "run out of memory or time") || deaths < 5 {
		t.Errorf("%s, %s, %q after %d deaths", x.State, x.Cause, x.Reason, deaths)
	}
}

// endingStore answers nothing once the context of a call has ended, as the real store.
type endingStore struct{ port.Store }

func (s endingStore) Load(ctx context.Context, tenant, id string) (*workflow.Execution, error) {
	if ctx.Err() != nil {
		return nil, workflow.Errorf(workflow.CodeUnavailable, "not read: %w", ctx.Err())
	}
	return s.Store.Load(ctx, tenant, id)
}

func (s endingStore) Commit(ctx context.Context, seen int64, next *workflow.Execution, o workflow.CommitOptions) ([]string, bool, error) {
	if ctx.Err() != nil {
		return nil, false, workflow.Errorf(workflow.CodeUnavailable, "not written: %w", ctx.Err())
	}
	return s.Store.Commit(ctx, seen, next, o)
}

// An execution whose every wake-up runs out of time is ended, although nothing can be
// written in the time of the wake-up.
func TestFailures_WakeupsOutOfTimeEndTheExecution(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Throttled, "locks.")
	id := s.Start("w", "d000")
	open := s.Engine.OpenPorts
	s.Engine.OpenPorts = func() port.Ports {
		p := open()
		p.Store = endingStore{p.Store}
		return p
	}
	wakeup := workflow.Wakeup{Tenant: s.Load(id).Tenant, Execution: id}
	for i := range 40 {
		ctx, cancel := context.WithCancel(s.Context())
		s.Faults = func(c faults.Call) faults.Fault {
			if strings.HasPrefix(c.Name, "locks.") {
				cancel() // its time is over
				return faults.Throttled
			}
			return faults.None
		}
		wakeup.Redelivered = i%10 != 0
		if err := s.Engine.Advance(ctx, wakeup); err != nil {
			s.Engine.RecordFailure(s.Context(), wakeup, err)
		}
		cancel()
		s.Advance(12 * time.Minute)
	}
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseInternal || !strings.Contains(x.Reason, "out of memory or time") && !strings.Contains(x.Reason, "ran out of time") {
		t.Errorf("%s, %q", x.Cause, x.Reason)
	}
}

// An outage now and then neither ends an execution nor keeps one alive whose wake-ups
// fail for another reason.
func TestFailures_OutagesPauseTheStreak(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	began := s.Now()
	s.Faults = func(c faults.Call) faults.Fault {
		if !strings.HasPrefix(c.Name, "locks.") {
			return faults.None
		}
		if minute := int(s.Now().Sub(began) / time.Minute); minute%30 < 3 {
			return faults.Throttled
		}
		return faults.Broken
	}
	id := s.Start("w", "d000")
	s.RunFor(5 * time.Hour)
	if x := s.ExpectState(id, sm.ExecutionFailedSafeAck); x.Cause != workflow.CauseInternal {
		t.Errorf("%s, %q", x.Cause, x.Reason)
	}
}

// A wake-up that is delivered again and then succeeds leaves no streak.
func TestFailures_RedeliveryThatSucceedsIsForgotten(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	req := harness.NewStartRequest("w", "d000")
	req.NotBefore = s.Now().Add(24 * time.Hour)
	id := s.StartWith(req)
	for range 2 * 5 {
		if err := s.Engine.Advance(s.Context(), workflow.Wakeup{Tenant: s.Load(id).Tenant, Execution: id, Redelivered: true}); err != nil {
			t.Fatal(err)
		}
	}
	if x := s.ExpectState(id, sm.ExecutionBlockedWaiting); x.FailureStreak != nil {
		t.Errorf("streak %+v", x.FailureStreak)
	}
}

// A wake-up that only starts the next child of a set ends the streak, too.
func TestFailures_StartOfTheNextChildEndsTheStreak(t *testing.T) {
	s, id := setOf(t, `items: "${`+names(2)+`}", maxInFlight: 1`, waitingYAML)
	s.Drain()
	x, lane := s.Load(id), 1
	next := workflow.Wakeup{Tenant: x.Tenant, Execution: id, StepRunSeq: 1, Lane: &lane}
	s.Faults = faults.Every(faults.Broken, "store.create")
	for range 3 {
		if err := s.Engine.Advance(s.Context(), next); err == nil {
			t.Fatal("the wake-up has not failed")
		} else {
			s.Engine.RecordFailure(s.Context(), next, err)
		}
		next.Redelivered = true
	}
	if streak := s.Load(id).FailureStreak; streak == nil || streak.Count < 3 {
		t.Fatalf("streak %+v after three failures", streak)
	}
	s.Faults = nil
	if err := s.Engine.Advance(s.Context(), next); err != nil {
		t.Fatal(err)
	}
	if c, streak := members(s, id, 1)[1], s.Load(id).FailureStreak; c == nil || streak != nil {
		t.Errorf("child %+v, streak %+v", c, streak)
	}
}

// A step run that could not be closed before the engine gave up on the execution is closed before
// an operator's command releases the locks: an unclaimed pack must not start under the locks of the
// next execution.
func TestFailures_StepRunsAreClosedBeforeLocksRelease(t *testing.T) {
	for name, release := range map[string]func(s *harness.Harness, id string) error{
		"acknowledge": func(s *harness.Harness, id string) error {
			_, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen")
			return err
		},
		"unlock": func(s *harness.Harness, id string) error {
			_, err := s.Engine.Unlock(s.Context(), harness.Caller, id, "seen")
			return err
		},
		"retry": func(s *harness.Harness, id string) error {
			_, err := s.Engine.Retry(s.Context(), harness.Caller, id, views.RetryRequest{Reason: "again"})
			return err
		},
	} {
		s := newHarness(t, 1)
		s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
		// No worker can claim the pack. When that ends the execution, nothing can be
		// closed either.
		s.Faults = faults.Every(faults.Broken, "packs.")
		id := s.Start("w", "d000")
		s.RunFor(6 * time.Hour)
		s.ExpectState(id, sm.ExecutionFailedUnsafe)

		s.Faults = faults.Every(faults.Throttled, "packs.")
		if err := release(s, id); workflow.CodeOf(err) != workflow.CodeUnavailable {
			t.Errorf("%s while nothing can be closed: %v", name, err)
		}
		s.Faults = nil
		if err := release(s, id); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		calls := len(s.CallsOf(id))
		first := s.Load(id).StepRuns[0]
		if first.Counts.NotExecuted != 1 || calls != 0 {
			t.Errorf("%s: %d calls, counts %+v", name, calls, first.Counts)
		}
		s.RunFor(time.Hour)
		for _, c := range s.CallsOf(id) {
			if name != "retry" {
				t.Errorf("%s: called after its locks were released: %s", name, c)
			}
		}
	}
}

// An acknowledge closes and counts open step runs first, however late it comes.
func TestAcknowledge_ClosesStepRunsHoweverLate(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Broken, "packs.")
	id := s.Start("w", "d000")
	s.RunFor(60 * time.Hour)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	s.Faults = nil
	if _, err := s.Engine.Acknowledge(s.Context(), harness.Caller, id, "seen"); err != nil {
		t.Fatal(err)
	}
	history := s.History(id)
	last := history[len(history)-1]
	if counts := s.Load(id).StepRuns[0].Counts; counts.NotExecuted != 1 || last.Type != "execution.acknowledged" || !strings.Contains(string(last.Data), `"notExecuted":1`) {
		t.Errorf("counts %+v; the history ends with %s %s", counts, last.Type, last.Data)
	}
}

// A completed execution whose updates cannot be written releases its locks in the end,
// and its error says that the updates are missing.
func TestApplyUpdates_GivesUpAndReleasesLocks(t *testing.T) {
	s := newUpdateHarness(t, 1)
	s.Faults = faults.Every(faults.Broken, "registry.replace_entity")
	id := s.Start("w", "d000")
	s.RunFor(30 * time.Minute)
	if w := waitingView(s, id); w == nil || w.Kind != workflow.WaitEngine {
		t.Errorf("waits for %+v", w)
	}
	s.RunFor(3 * time.Hour)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if x.Error == nil || x.Error.Code != "UPDATES_NOT_APPLIED" || !strings.Contains(x.Error.Message, "have failed") || x.Cause != "" || x.FailureStreak != nil {
		t.Errorf("cause %q, error %+v", x.Cause, x.Error)
	}
	s.Faults = nil
	other := s.Start("w", "d000")
	s.RunFor(time.Hour)
	if x := s.ExpectState(other, sm.ExecutionCompletedAck); x.Error != nil {
		t.Errorf("the next execution: %+v", x.Error)
	}
	s.CheckInvariants()
}

// A handler that pauses between a failure and its record may find an outage that began later. That makes the
// streak no older than it was.
func TestFailures_LateRecordMakesNoStreakOlder(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Throttled, "locks.")
	id := s.Start("w", "d000")
	s.Faults = nil
	x := s.Load(id)
	began := s.Now()
	fail := errors.New("it fails")
	wakeup := workflow.Wakeup{Tenant: x.Tenant, Execution: id}
	s.Engine.RecordFailure(s.Context(), wakeup, fail)
	outage := workflow.FailureStreak{Since: began, Count: 1, Reason: "it fails", UnavailableSince: began.Add(3 * time.Minute)}
	if _, err := s.Open().Store.RecordFailureStreak(s.Context(), x.Tenant, id, x.Version, s.Load(id).FailureStreak, outage); err != nil {
		t.Fatal(err)
	}
	s.Engine.RecordFailure(s.Context(), wakeup, fail) // of a wake-up from before the outage
	got := s.Load(id).FailureStreak
	if got == nil || got.Since.Before(began) || got.Count != 2 {
		t.Fatalf("failures since %s: %+v", began, got)
	}
	if !got.UnavailableSince.Equal(outage.UnavailableSince) {
		t.Errorf("a failure from before the outage has ended it: %+v", got)
	}
	s.Advance(5 * time.Minute)
	s.Engine.RecordFailure(s.Context(), wakeup, fail)
	if got := s.Load(id).FailureStreak; got.Count != 3 || !got.UnavailableSince.IsZero() || !got.Since.Equal(began.Add(2*time.Minute)) {
		t.Errorf("after an outage of two minutes: %+v", got)
	}
}

// startWithoutLocks starts an execution that does not get its locks, and returns its id and what records a failure of it.
func startWithoutLocks(s *harness.Harness) (id string, record func()) {
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = faults.Every(faults.Throttled, "locks.")
	id = s.Start("w", "d000")
	s.Faults = nil
	wakeup := workflow.Wakeup{Tenant: s.Load(id).Tenant, Execution: id}
	return id, func() { s.Engine.RecordFailure(s.Context(), wakeup, errors.New("it fails")) }
}

// Each failure of an execution counts, also where several wake-ups count theirs at once.
func TestFailures_WakeupsCountBesideEachOther(t *testing.T) {
	s := newHarness(t, 1)
	id, record := startWithoutLocks(s)
	first := s.StartTask("first", record)
	if !first.RunUntil("store.record_failure_streak") {
		t.Fatal("the failure is not recorded")
	}
	record()
	first.Finish()
	if got := s.Load(id).FailureStreak; got == nil || got.Count != 2 {
		t.Errorf("after two failures: %+v", got)
	}
}

// A failure that others have kept from being counted, each time that it was tried, is logged.
func TestFailures_LogsWhatItCouldNotCount(t *testing.T) {
	s := newHarness(t, 1)
	var log bytes.Buffer
	s.Engine.Log = observe.NewLog(observe.Options{Writer: &log, Level: slog.LevelDebug})
	id, record := startWithoutLocks(s)
	late := s.StartTask("late", record)
	tries := 0
	for ; late.RunUntil("store.record_failure_streak"); tries++ {
		record()
		if !late.RunPast("store.record_failure_streak") {
			break
		}
	}
	late.Finish()
	if got := s.Load(id).FailureStreak; got == nil || got.Count != tries {
		t.Errorf("%d were counted: %+v", tries, got)
	}
	if !strings.Contains(log.String(), "failure streak not changed") {
		t.Errorf("after %d tries: %s", tries, log.String())
	}
}
