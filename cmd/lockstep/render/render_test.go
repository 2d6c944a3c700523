package render

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The outcome comes first, and an unsafe outcome is called unsafe, acknowledged or not.
func TestDescribeExecution_StatesOutcomeFirst(t *testing.T) {
	partial, two := workflow.OutcomePartial, 2
	text := func(s string) *string { return &s }
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := started.Add(2340 * time.Millisecond)
	cause := workflow.Cause("STEP_FAILED")
	waiting := func(w views.Waiting) views.ExecutionView {
		w.Since = started
		return views.ExecutionView{State: sm.ExecutionScheduled, Status: sm.StatusPending, Waiting: &w}
	}
	times := strings.NewReplacer("STARTED", started.Local().Format(time.DateTime+" MST"), "ENDED", ended.Local().Format(time.DateTime+" MST"))
	failure := &views.FailureView{Message: "it refuses", Step: text("upgrade"), Entity: text("device/sw-042")}
	for name, c := range map[string]struct {
		x    views.ExecutionView
		want string
	}{
		"running": {
			views.ExecutionView{State: sm.ExecutionRunning, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Progress: views.Progress{Jobs: views.JobCounts{Total: 9, Completed: 4}}},
			`It is in step "upgrade": 4 of 9 jobs so far have completed.`,
		},
		"being cancelled": {
			views.ExecutionView{State: sm.ExecutionCancelling, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Reason: "wrong window"},
			"It is being cancelled (wrong window): no new work starts, and it waits for work in progress.",
		},
		"failing": {
			views.ExecutionView{State: sm.ExecutionError, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Error: failure},
			`It has failed (it refuses, step upgrade, device/sw-042): no new work starts, and it waits for work in progress.`,
		},
		"being rolled back": {
			views.ExecutionView{State: sm.ExecutionRollback, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Reason: "wrong window"},
			`It is being rolled back, currently step "upgrade" (wrong window).`,
		},
		"waiting for a person below": {
			waiting(views.Waiting{Kind: workflow.WaitChildInput, Child: text("c"), Step: text("go"), Reason: text("How many?")}),
			`It has waited since STARTED for a person whom execution c of step "go", or one below it, asks: How many?.`,
		},
		"locking": {
			views.ExecutionView{State: sm.ExecutionLocking, Status: sm.StatusPending},
			"It is acquiring the locks of its entities.",
		},
		"completed": {
			views.ExecutionView{State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, CreatedAt: started, EndedAt: &ended},
			"It completed after 2.34s.",
		},
		"completed with tolerated failures": {
			views.ExecutionView{ID: "x-2", State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, Outcome: &partial, CreatedAt: started, EndedAt: &ended, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2}},
			`It completed after 2.34s, but not everything succeeded: 2 of its entities failed.`,
		},
		"completed with a failure of its own": {
			views.ExecutionView{ID: "x-2", State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, Outcome: &partial, CreatedAt: started, EndedAt: &ended},
			`It completed after 2.34s, but not everything succeeded: "lockstep steps x-2" shows what failed.`,
		},
		"failed with the entity in the message": {
			views.ExecutionView{State: sm.ExecutionFailedSafeAck, Status: sm.StatusFailed, Error: &views.FailureView{Message: "the inventory has no entity device/sw-042", Entity: text("device/sw-042")}},
			"It failed safely: nothing irreversible is left (the inventory has no entity device/sw-042).",
		},
		"failed safely": {
			views.ExecutionView{State: sm.ExecutionFailedSafeAck, Status: sm.StatusFailed, RolledBack: true, Cause: &cause, Error: failure},
			"It failed safely: everything it had changed was rolled back (STEP_FAILED: it refuses, step upgrade, device/sw-042).",
		},
		"failed unsafely for some": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Kept: &two, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 2}, Waiting: &views.Waiting{Kind: workflow.WaitAcknowledge}},
			"It failed UNSAFELY: check 2 of its entities. It keeps the locks of 2 of its entities until somebody runs \"lockstep acknowledge x-1\".",
		},
		"failed unsafely without locks": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Kept: new(int), Waiting: &views.Waiting{Kind: workflow.WaitAcknowledge}},
			"It failed UNSAFELY: check the entities it touched. It waits for somebody to run \"lockstep acknowledge x-1\"; it holds no locks.",
		},
		"failed unsafely": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Cause: &cause, Error: failure, Waiting: &views.Waiting{Kind: workflow.WaitAcknowledge}},
			"It failed UNSAFELY: check the entities it touched (STEP_FAILED: it refuses, step upgrade, device/sw-042). It keeps its locks until somebody runs \"lockstep acknowledge x-1\".",
		},
		"failed unsafely, with a rollback that can be tried again": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Kept: &two, FailedRollback: &views.FailedRollback{Step: "hotel"}, Waiting: &views.Waiting{Kind: workflow.WaitAcknowledge}},
			"It failed UNSAFELY: check the entities it touched. It keeps the locks of 2 of its entities until somebody runs \"lockstep retry x-1 --rollback\", which undoes the rest, or \"lockstep acknowledge x-1\", which gives that up.",
		},
		"failed unsafely, with a rollback that cannot be tried again": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, FailedRollback: &views.FailedRollback{Step: "hotel", Obstacle: text("no")}, Waiting: &views.Waiting{Kind: workflow.WaitAcknowledge}},
			"It failed UNSAFELY: check the entities it touched. It keeps its locks until somebody runs \"lockstep acknowledge x-1\".",
		},
		"cancelled": {
			views.ExecutionView{State: sm.ExecutionCancelledAck, Status: sm.StatusCancelled, RolledBack: true, Reason: "wrong window"},
			"It was cancelled, and everything it had changed was rolled back (wrong window).",
		},
		"cancelled before anything was changed": {
			views.ExecutionView{State: sm.ExecutionCancelledAck, Status: sm.StatusCancelled, Reason: "wrong window"},
			"It was cancelled (wrong window).",
		},
		"cancelled, with changes left": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionCancelled, Status: sm.StatusCancelled, Reason: "wrong window", EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 2}, Waiting: &views.Waiting{Kind: workflow.WaitAcknowledge}},
			"It was cancelled (wrong window); what it had changed is left as it is, on 2 of its entities. It keeps its locks until somebody runs \"lockstep acknowledge x-1\".",
		},
		"cancelled with changes left, and acknowledged": {
			views.ExecutionView{State: sm.ExecutionCancelledAck, Status: sm.StatusCancelled, Acknowledged: &workflow.Acknowledgements{}},
			"It was cancelled; what it had changed is left as it is.",
		},
		"waiting for a lock": {
			waiting(views.Waiting{Kind: workflow.WaitLock, Until: &ended, Blockers: []views.WaitingFor{{Entity: text("device/sw-007"), HeldBy: text("A")}}}),
			"It has waited since STARTED for the lock of device/sw-007, held by A; gives up at ENDED.",
		},
		"waiting for a lock that somebody has to release": {
			waiting(views.Waiting{Kind: workflow.WaitLock, Until: &ended, Reason: text("it is held by A, which ended FAILED_UNSAFE and waits for somebody: \"lockstep status A\" says what to do"), Blockers: []views.WaitingFor{{Entity: text("device/sw-007"), HeldBy: text("A")}}}),
			"It has waited since STARTED for the lock of device/sw-007: it is held by A, which ended FAILED_UNSAFE and waits for somebody: \"lockstep status A\" says what to do; gives up at ENDED.",
		},
		"waiting for its key": {
			waiting(views.Waiting{Kind: workflow.WaitKey, Reason: text("execution A has the key \"k\": it has still to begin"), Blockers: []views.WaitingFor{{HeldBy: text("A")}}}),
			"It has waited since STARTED for its business key: execution A has the key \"k\": it has still to begin.",
		},
		"waiting for a reserved lock": {
			waiting(views.Waiting{Kind: workflow.WaitLock, Blockers: []views.WaitingFor{{Entity: text("device/sw-007"), ReservedBy: text("A")}}}),
			"It has waited since STARTED for the lock of device/sw-007, reserved by A.",
		},
		"waiting for a condition": {
			waiting(views.Waiting{Kind: workflow.WaitCondition, Until: &ended, Condition: text("now > parameters.at")}),
			"It has waited since STARTED for its condition to become true: now > parameters.at; gives up at ENDED.",
		},
		"waiting for a timer": {
			waiting(views.Waiting{Kind: workflow.WaitTimer, Until: &ended, Step: text("reboot")}),
			`It has waited since STARTED until ENDED, at step "reboot".`,
		},
		"waiting for a child": {
			waiting(views.Waiting{Kind: workflow.WaitChild, Child: text("B"), Step: text("site.visit")}),
			`It has waited since STARTED for execution B of step "site.visit".`,
		},
		"waiting for a retry": {
			waiting(views.Waiting{Kind: workflow.WaitRetry, Step: text("upgrade")}),
			`It has waited since STARTED for the next attempt of failed jobs of step "upgrade".`,
		},
		"waiting for a worker": {
			waiting(views.Waiting{Kind: workflow.WaitWorker, Until: &ended, Step: text("upgrade"), Pool: text("lab")}),
			`It has waited since STARTED for a worker of pool lab to claim the jobs of step "upgrade"; gives up some time after ENDED.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := DescribeExecution(c.x), times.Replace(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestIllegalStateHint_NamesAllowedVerbs(t *testing.T) {
	in := func(s sm.ExecutionState) views.ExecutionView { return views.ExecutionView{ID: "X", State: s} }
	for want, got := range map[string]string{
		`"lockstep cancel X"`: IllegalStateHint("retry", in(sm.ExecutionRunning)),
		`"lockstep rerun X --all" executes its workflow again`: IllegalStateHint("retry", in(sm.ExecutionCancelledAck)),
		`"lockstep rerun X --failed" runs it again`:            IllegalStateHint("retry", views.ExecutionView{ID: "X", State: sm.ExecutionCancelledAck, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 1}}),
		`it was run again by Y: "lockstep rerun X --all"`:      IllegalStateHint("acknowledge", views.ExecutionView{ID: "X", State: sm.ExecutionFailedUnsafeAck, RerunBy: []string{"W", "Y"}}) + IllegalStateHint("cancel", views.ExecutionView{ID: "X", State: sm.ExecutionCompletedAck, RerunBy: []string{"W", "Y"}}),
		"resume is for executions in ":                         IllegalStateHint("resume", in(sm.ExecutionRunning)),
		"FAILED_UNSAFE":                                        IllegalStateHint("acknowledge", in(sm.ExecutionRunning)),
		`"lockstep acknowledge X"`:                             IllegalStateHint("cancel", in(sm.ExecutionFailedUnsafe)),
		"unlock is for executions in CANCELLED":                strings.Replace(IllegalStateHint("unlock", in(sm.ExecutionRunning)), "FAILED_UNSAFE, CANCELLED", "CANCELLED", 1),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// Skipped jobs do not keep the bar of a completed execution from being full.
// The bar never goes back within a try: not when the next step begins, and not when a read
// shows less than the one before.
func TestProgressBar_NeverGoesBack(t *testing.T) {
	var out strings.Builder
	bar := NewProgressBar(&out)
	last := 0
	for i, p := range []struct{ try, done, completed, total, want int }{
		{1, 0, 0, 10, 0}, {1, 0, 10, 10, 12}, {1, 1, 10, 20, 12}, {1, 1, 9, 20, 12}, {1, 1, 15, 20, 18}, {2, 1, 10, 20, 12}, {2, 1, 20, 20, 24}, {2, 1, 40, 20, 24},
	} {
		out.Reset()
		bar.Update(views.ExecutionView{State: sm.ExecutionRunning, Status: sm.StatusRunning, Try: p.try, Progress: views.Progress{
			Jobs: views.JobCounts{Total: p.total, Completed: p.completed}, Steps: views.StepProgress{Done: p.done, Total: 2},
		}})
		if n := strings.Count(out.String(), "#"); out.Len() > 0 && n != p.want {
			t.Errorf("update %d fills %d after %d, want %d: %s", i, n, last, p.want, out.String())
		}
		last = p.want
	}
}

func TestProgressBar_FillsWhenJobsSkipped(t *testing.T) {
	var out strings.Builder
	NewProgressBar(&out).Update(views.ExecutionView{State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, Progress: views.Progress{Jobs: views.JobCounts{Total: 41, Completed: 38}}})
	if !strings.Contains(out.String(), "38/38 jobs") || strings.Contains(out.String(), "#.") {
		t.Errorf("got %s", out.String())
	}
}

// lineWriter sends each write to a channel.
type lineWriter chan string

func (c lineWriter) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

func TestStartProgressNotes_StopsAfterStop(t *testing.T) {
	written := make(lineWriter)
	stop := startProgressNotes(written, func() string { return "importing 5 lines" }, time.Millisecond)
	for range 2 {
		if line := <-written; !strings.HasPrefix(line, "note: still importing 5 lines, for ") {
			t.Errorf("got %q", line)
		}
	}
	go func() { // receive a note that is being written while stop is called
		for range written {
		}
	}()
	stop()
	stop()
	close(written) // a note after this would panic
}

// TestDescribeEntities_NamesWhatWasNotUndone: for a failed rollback, the description names what was
// to undo what, on which entities, and both ways to continue.
func TestDescribeEntities_NamesWhatWasNotUndone(t *testing.T) {
	unsafe, safe, kept, undoing := workflow.OutcomeFailedUnsafe, sm.ExecutionFailedSafeAck, sm.ExecutionFailedUnsafe, "u-1"
	remains := "it ended in FAILED_SAFE_ACK"
	x := views.ExecutionView{
		ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Outcome: &unsafe, Kept: new(int), Remains: &remains,
		FailedRollback: &views.FailedRollback{Step: "hotel", Execution: &undoing, State: &safe, Entities: []string{"device/d1", "device/d2"}},
	}
	want := `Not undone: step hotel: execution u-1 was to undo it, and ended in FAILED_SAFE_ACK; entities: device/d1, device/d2 ("lockstep status u-1")
Next: mend what the rollback has failed for, then "lockstep retry x-1 --rollback" undoes the rest; "lockstep retry x-1" goes forward instead, executes again what was undone or was to be, and gives this rollback up; or undo by hand what remains, then "lockstep acknowledge x-1".
`
	if got := DescribeEntities(x); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := DescribeExecution(x); !strings.Contains(got, "something could not be undone") {
		t.Error(got)
	}
	x.FailedRollback.State = &kept
	if got := DescribeEntities(x); !strings.Contains(got, `then "lockstep acknowledge u-1", since another one needs the locks that it keeps, "lockstep retry x-1 --rollback"`) {
		t.Errorf("got\n%s", got)
	}
	obstacle := "its locks are released"
	x.FailedRollback.State, x.FailedRollback.Obstacle = nil, &obstacle
	if got := DescribeEntities(x); !strings.Contains(got, "and never began; entities") || strings.Contains(got, "--rollback") || !strings.Contains(got, `then "lockstep acknowledge x-1" says that somebody has; "lockstep retry x-1" goes forward, and undoes nothing, with all locks taken anew`) {
		t.Errorf("got\n%s", got)
	}
	x.FailedRollback.Obstacle, x.Waiting = nil, nil
	x.ID, x.RerunBy = "", []string{"x-9"}
	if got := DescribeExecution(x) + DescribeEntities(x); strings.Contains(got, `"lockstep`) || !strings.Contains(got, "Not undone") || !strings.Contains(got, "It was run again by x-9.") {
		t.Errorf("of one without an id:\n%s", got)
	}
	if got := DescribeEntities(views.ExecutionView{ID: "x-1", State: sm.ExecutionRunning, RerunBy: []string{"x-9"}}); got != "It was run again by x-9.\n" {
		t.Errorf("of one that is tried again:\n%s", got)
	}
}

// TestDescribeEntities_NamesWhatFailed: what became of the entities, the first that failed,
// and what to do next.
func TestDescribeEntities_NamesWhatFailed(t *testing.T) {
	unsafe := workflow.OutcomeFailedUnsafe
	x := views.ExecutionView{
		ID: "x-1", State: sm.ExecutionFailedUnsafe, Outcome: &unsafe,
		EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 37, workflow.EntityFailedSafe: 1, workflow.EntityFailedUnsafe: 2},
		FailedEntities: []workflow.EntityFailure{{Entity: "device/sw-7", Outcome: workflow.EntityFailedUnsafe, Step: "reload", Code: "TIMEOUT", Message: "no answer\nwithin 5s"}, {Entity: "device/sw-8", Outcome: workflow.EntityFailedUnsafe, Step: "reload", Code: "TIMEOUT", Message: "no answer", Released: true}},
	}
	want := `Entities: 37 SUCCEEDED, 1 FAILED_SAFE, 2 FAILED_UNSAFE.
  device/sw-7  FAILED_UNSAFE  step reload  TIMEOUT: no answer\nwithin 5s
  device/sw-8  FAILED_UNSAFE, released  step reload  TIMEOUT: no answer
  and 1 more: "lockstep jobs x-1 --all" lists the jobs of all
Next: check them, then "lockstep acknowledge x-1" releases their locks; "lockstep retry x-1" tries again on those that are still locked.
`
	if got := DescribeEntities(x); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	kept, key, restored := 2, "order-1", "it keeps locks from before the tables were restored, and a retry takes all of them anew"
	x.Key = &key
	if got := DescribeEntities(x); !strings.Contains(got, `Next: check them, then "lockstep acknowledge x-1" releases their locks; after that "lockstep retry x-1" tries again with its key and all locks taken anew.`) {
		t.Errorf("with a key: got\n%s", got)
	}
	x.Waiting = &views.Waiting{Kind: workflow.WaitAcknowledge, Reason: &restored}
	if got := DescribeEntities(x); !strings.Contains(got, `releases their locks; "lockstep retry x-1" tries again with all locks taken anew.`) {
		t.Errorf("after a restore: got\n%s", got)
	}
	unnamed := views.ExecutionView{ID: "x-2", State: sm.ExecutionFailedUnsafe, Outcome: &unsafe, Kept: &kept, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 2}}
	if got := DescribeEntities(unnamed); !strings.Contains(got, "Entities: 2 FAILED_UNSAFE.\n  \"lockstep locks\" lists those that it keeps") {
		t.Errorf("without a job that has failed: got\n%s", got)
	}
	at, one := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 1
	seen := func(by, reason string, entities *int) workflow.Acknowledgement {
		return workflow.Acknowledgement{By: by, Reason: reason, At: at, Entities: entities}
	}
	acknowledged := views.ExecutionView{ID: "x-2", State: sm.ExecutionFailedUnsafeAck, Outcome: &unsafe, Acknowledged: &workflow.Acknowledgements{Acknowledgement: seen("cleo", "all fine", nil)}}
	when := formatTime(at)
	want = "Acknowledged by cleo at " + when + ": all fine\n"
	if got := DescribeEntities(acknowledged); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	acknowledged.Acknowledged.Earlier, acknowledged.Acknowledged.EarlierMore = []workflow.Acknowledgement{seen("ann", "looked\nat it", &one), seen("bob", "reloaded", &kept)}, 3
	want = "Acknowledged 3 times before these: \"lockstep history x-2\" has all\n1 of its entities acknowledged by ann at " + when + ": looked\\nat it\n2 of its entities acknowledged by bob at " + when + ": reloaded\n" + want
	if got := DescribeEntities(acknowledged); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	partial := workflow.OutcomePartial
	x.Outcome, x.State = &partial, sm.ExecutionCompletedAck
	if got := DescribeEntities(x); !strings.HasSuffix(got, "Next: \"lockstep rerun x-1 --failed\" runs it again on those that failed.\n") {
		t.Errorf("got\n%s", got)
	}
	x.RerunBy = []string{"x-0", "x-9"}
	if got := DescribeEntities(x); !strings.HasSuffix(got, "It was run again by x-9.\nNext: \"lockstep status x-9\" says what became of them then.\n") {
		t.Errorf("got\n%s", got)
	}
	x.State, x.RerunBy = sm.ExecutionCancelled, nil
	if got := DescribeEntities(x); !strings.HasSuffix(got, "Next: check them, then \"lockstep acknowledge x-1\" releases their locks.\n") {
		t.Errorf("got\n%s", got)
	}
	item := "item 3"
	stopped := views.ExecutionView{
		ID: "x-2", State: sm.ExecutionCompletedAck, Outcome: &partial, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 2, workflow.EntitySkipped: 20},
		FailedSteps: []views.FailedStep{
			{Step: "go_approval", Visit: 2, Failure: &views.FailureView{Code: "REJECTED", Message: "ann has rejected it"}},
			{Step: "mail", Visit: 1, Jobs: 4, Failure: &views.FailureView{Code: "BOUNCED", Message: "no such box", Entity: &item}},
			{Step: "check", Visit: 1, Unmet: 3, Failure: &views.FailureView{Code: "ASSERTION", Message: "too old", Entity: &item}},
			{Step: "other", Visit: 1},
		},
	}
	want = `Entities: 2 SUCCEEDED, 20 SKIPPED.
  step go_approval, run 2  REJECTED: ann has rejected it
  step mail, 4 jobs failed, first  item 3  BOUNCED: no such box
  step check, an assertion is not true of 3 entities, first  item 3  ASSERTION: too old
  step other  something in the execution that it has started has failed
Next: "lockstep rerun x-2 --skipped" runs it on those whose turn never came.
`
	if got := DescribeEntities(stopped); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := DescribeEntities(views.ExecutionView{Outcome: &partial}); got != "" {
		t.Errorf("without failures: %q", got)
	}
}

// Of a partial outcome every rule that let the execution complete is told, with the step and the execution that it has
// started, in the sentence at the end and in lists.
func TestDescribePartial_NamesTheRule(t *testing.T) {
	partial, safe := workflow.OutcomePartial, sm.ExecutionFailedSafeAck
	child := &views.ChildView{ID: "c-1", Workflow: workflow.Ref{Package: "p", Name: "sub", Version: "1.0.0"}, State: &safe}
	for _, c := range []struct {
		step views.FailedStep
		want string
	}{
		{views.FailedStep{Step: "a", Jobs: 2, Unmet: 1, Because: views.LeftTolerated}, "step a: 3 failed, which failureTolerance allows"},
		{views.FailedStep{Step: "a", Jobs: 1, Because: views.LeftContinueOnError}, "step a failed, after which continueOnError goes on"},
		{views.FailedStep{Step: "a", Child: child, Because: views.LeftContinueOnError}, "execution c-1 (p/sub:1.0.0), which step a has started, ended in FAILED_SAFE_ACK, after which continueOnError goes on"},
		{views.FailedStep{Step: "a", Because: views.LeftBranch}, "step a failed, whose branch allowPartial leaves out"},
		{views.FailedStep{Step: "a", Because: views.LeftRollout}, "step a failed, which stopped the rollout"},
		{views.FailedStep{Step: "a", Child: child, Because: views.LeftChild}, "execution c-1 (p/sub:1.0.0), which step a has started, completed in part"},
		{views.FailedStep{Step: "a", Because: views.LeftChild}, "something failed in the executions that step a has started"},
		{views.FailedStep{Step: "a\nb"}, `step a\nb failed`},
	} {
		x := views.ExecutionView{ID: "x-1", Status: sm.StatusCompleted, Outcome: &partial, FailedSteps: []views.FailedStep{c.step}}
		if got := DescribePartial(x); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if got := DescribeExecution(x); got != "It completed, but not everything succeeded: "+c.want+"." {
			t.Error(got)
		}
	}
	x := views.ExecutionView{Outcome: &partial, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedSafe: 2}, FailedSteps: make([]views.FailedStep, 5)}
	if got := DescribePartial(x); !strings.HasPrefix(got, "2 of its entities failed; ") || !strings.HasSuffix(got, "; 2 more steps") {
		t.Error(got)
	}
	succeeded := workflow.OutcomeSucceeded
	for _, outcome := range []*workflow.Outcome{nil, &succeeded} {
		if x.Outcome = outcome; DescribePartial(x) != "" {
			t.Error(DescribePartial(x))
		}
	}
}

// For a step with foreach the plan counts items; their number may be unknown.
func TestPrintPlan_TellsItems(t *testing.T) {
	on, step, item := workflow.RunOnItem, "push", 3
	var out strings.Builder
	planned := views.PlannedStep{Label: step, RunOn: &on, Effect: views.EffectPure, Reached: views.ReachedAlways, Jobs: 1, Unknown: []string{"items"}}
	told := planned
	told.Label, told.Unknown, told.Jobs, told.Unmet, told.Tolerated, told.Problem = "told", nil, 41, 2, 5, &views.FailureView{Code: "ASSERTION", Message: "no"}
	if err := PrintPlan(&out, views.PlanView{Steps: []views.PlannedStep{planned, told}}); err != nil {
		t.Fatal(err)
	}
	if err := PrintNext(&out, views.NextView{Step: &step, Block: &step, RunOn: &on, Jobs: 1, Skipped: 3, Items: []views.NextJob{{Item: &item, Parameters: []byte(`{"a":1}`)}}}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"push item - ? 0 pure", "told item - 41 0 pure", "cannot be told before results and variables are known: items",
		"an assertion is false for 2 items, of which 5 may fail: ASSERTION: no", "1 jobs, 3 items skipped", `item 3 {"a":1}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

// Entities that were left out because they were locked are named with the holders, even if all
// others succeeded.
func TestDescribeEntities_NamesWhatWasLocked(t *testing.T) {
	succeeded, entity, holder := workflow.OutcomeSucceeded, "device/sw-7", "x-2"
	x := views.ExecutionView{
		ID: "x-1", State: sm.ExecutionCompletedAck, Outcome: &succeeded, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntitySucceeded: 37, workflow.EntitySkipped: 3},
		Dropped: views.Dropped{Count: 3, Blockers: []views.WaitingFor{{Entity: &entity, HeldBy: &holder}}},
	}
	want := `Entities: 37 SUCCEEDED, 3 SKIPPED.
  Left out, since they were locked: device/sw-7 (held by x-2), 2 more
Next: "lockstep rerun x-1 --skipped" runs it on those that were left out.
`
	if got := DescribeEntities(x); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// If some entities of an unsafe end were acknowledged, the description counts those that are still
// locked.
func TestDescribeExecution_CountsWhatIsStillLocked(t *testing.T) {
	kept, remains := 19, "step reload has no rollback"
	x := views.ExecutionView{
		State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Kept: &kept, Remains: &remains, EntityOutcomes: map[workflow.EntityOutcome]int{workflow.EntityFailedUnsafe: 20},
	}
	if got, want := DescribeExecution(x), "It failed UNSAFELY: check 19 of its entities; 1 are released. What remains: step reload has no rollback."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDescribeUnacknowledged_SaysHowToRetry: an execution with a business key that holds its locks is
// acknowledged before it is retried.
func TestDescribeUnacknowledged_SaysHowToRetry(t *testing.T) {
	key, released := "order-1", "its locks have been released"
	x := views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Unacknowledged: []views.UnacknowledgedChild{{ID: "c-1", State: sm.ExecutionFailedUnsafe, Step: "hotel"}}}
	expect := func(want string) {
		t.Helper()
		if got := DescribeUnacknowledged(x); !strings.Contains(got, `releases its locks; then `+want+`: what it starts`) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	expect(`"lockstep retry x-1"`)
	x.Key = &key
	expect(`"lockstep acknowledge x-1", and "lockstep retry x-1", which takes its key and its locks anew`)
	x.Waiting = &views.Waiting{Kind: workflow.WaitAcknowledge, Reason: &released}
	expect(`"lockstep retry x-1"`)
}
