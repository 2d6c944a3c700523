package render

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestDescribeExecution_StatesOutcomeFirst: what people need to know first comes first, and an unsafe end is
// told as one, acknowledged or not.
func TestDescribeExecution_StatesOutcomeFirst(t *testing.T) {
	text := func(s string) *string { return &s }
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := began.Add(2340 * time.Millisecond)
	cause := workflow.Cause("STEP_FAILED")
	waiting := func(w views.Waiting) views.ExecutionView {
		w.Since = began
		return views.ExecutionView{State: sm.ExecutionScheduled, Status: sm.StatusPending, Waiting: &w}
	}
	moments := strings.NewReplacer("BEGAN", began.Local().Format(time.DateTime+" MST"), "ENDED", ended.Local().Format(time.DateTime+" MST"))
	failure := &views.FailureView{Message: "it refuses", Step: text("upgrade"), Entity: text("device/sw-042")}
	for name, c := range map[string]struct {
		x    views.ExecutionView
		want string
	}{
		"running": {
			views.ExecutionView{State: sm.ExecutionRunning, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Progress: views.Progress{Jobs: views.JobCounts{Total: 9, Completed: 4}}},
			`It is in step "upgrade": 4 of 9 jobs so far are completed.`,
		},
		"being cancelled": {
			views.ExecutionView{State: sm.ExecutionCancelling, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Reason: "wrong window"},
			"It is being cancelled (wrong window): nothing more of it begins, and what has begun is waited for.",
		},
		"failing": {
			views.ExecutionView{State: sm.ExecutionError, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Error: failure},
			`It has failed (it refuses, step upgrade, device/sw-042): nothing more of it begins, and what has begun is waited for.`,
		},
		"being rolled back": {
			views.ExecutionView{State: sm.ExecutionRollback, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Reason: "wrong window"},
			`It is being rolled back, at present step "upgrade" (wrong window).`,
		},
		"asking": {
			views.ExecutionView{State: sm.ExecutionLocking, Status: sm.StatusPending},
			"It asks for the locks of its entities.",
		},
		"completed": {
			views.ExecutionView{State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, CreatedAt: began, EndedAt: &ended},
			"It completed after 2.34s.",
		},
		"completed but for some": {
			views.ExecutionView{ID: "x-2", State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, CreatedAt: began, EndedAt: &ended, Progress: views.Progress{Jobs: views.JobCounts{Total: 9, Completed: 7, Failed: 2}}},
			`It completed after 2.34s. 2 of its jobs failed, which it tolerates: "lockstep jobs x-2 --state FAILED" lists them.`,
		},
		"about an entity that is named already": {
			views.ExecutionView{State: sm.ExecutionFailedSafeAck, Status: sm.StatusFailed, Error: &views.FailureView{Message: "the inventory has no entity device/sw-042", Entity: text("device/sw-042")}},
			"It failed safely: nothing irreversible is left (the inventory has no entity device/sw-042).",
		},
		"safe": {
			views.ExecutionView{State: sm.ExecutionFailedSafeAck, Status: sm.StatusFailed, RolledBack: true, Cause: &cause, Error: failure},
			"It failed safely: everything it had changed was rolled back (STEP_FAILED: it refuses, step upgrade, device/sw-042).",
		},
		"unsafe": {
			views.ExecutionView{ID: "x-1", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Cause: &cause, Error: failure, Waiting: &views.Waiting{Kind: views.WaitAcknowledge}},
			"It failed UNSAFELY: look at what it touched (STEP_FAILED: it refuses, step upgrade, device/sw-042). It keeps its locks until somebody runs \"lockstep acknowledge x-1\".",
		},
		"cancelled": {
			views.ExecutionView{State: sm.ExecutionCancelledAck, Status: sm.StatusCancelled, RolledBack: true, Reason: "wrong window"},
			"It was cancelled, and everything it had changed was rolled back (wrong window).",
		},
		"waiting for a lock": {
			waiting(views.Waiting{Kind: views.WaitLock, Until: &ended, Blockers: []views.WaitingFor{{Entity: text("device/sw-007"), HeldBy: text("A")}}}),
			"It waits since BEGAN for the lock of device/sw-007, held by A; gives up at ENDED.",
		},
		"waiting for a reserved one": {
			waiting(views.Waiting{Kind: views.WaitLock, Blockers: []views.WaitingFor{{Entity: text("device/sw-007"), ReservedBy: text("A")}}}),
			"It waits since BEGAN for the lock of device/sw-007, reserved by A.",
		},
		"waiting for a condition": {
			waiting(views.Waiting{Kind: views.WaitCondition, Until: &ended, Condition: text("now > parameters.at")}),
			"It waits since BEGAN for its condition to become true: now > parameters.at; gives up at ENDED.",
		},
		"waiting for a moment": {
			waiting(views.Waiting{Kind: views.WaitTimer, Until: &ended, Step: text("reboot")}),
			`It waits since BEGAN until ENDED, before step "reboot".`,
		},
		"waiting for a child": {
			waiting(views.Waiting{Kind: views.WaitChild, Child: text("B"), Step: text("site.visit")}),
			`It waits since BEGAN for the run B of step "site.visit".`,
		},
		"waiting for an attempt": {
			waiting(views.Waiting{Kind: views.WaitRetry, Step: text("upgrade")}),
			`It waits since BEGAN for the next attempt of failed jobs of step "upgrade".`,
		},
		"waiting for a worker": {
			waiting(views.Waiting{Kind: views.WaitWorker, Until: &ended, Step: text("upgrade"), Pool: text("lab")}),
			`It waits since BEGAN for a worker of pool lab to claim the jobs of step "upgrade"; gives up at ENDED.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := DescribeExecution(c.x), moments.Replace(c.want); got != want {
				t.Errorf("it says\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestIllegalStateHint_NamesAllowedVerbs: which states allow a verb, and which verb would do.
func TestIllegalStateHint_NamesAllowedVerbs(t *testing.T) {
	for want, got := range map[string]string{
		`"lockstep cancel X"`:             IllegalStateHint("retry", sm.ExecutionRunning, "X"),
		"takes no operator's verb":        IllegalStateHint("retry", sm.ExecutionCompletedAck, "X"),
		"resume is for runs in ":          IllegalStateHint("resume", sm.ExecutionRunning, "X"),
		"FAILED_UNSAFE":                   IllegalStateHint("acknowledge", sm.ExecutionRunning, "X"),
		`"lockstep acknowledge X"`:        IllegalStateHint("cancel", sm.ExecutionFailedUnsafe, "X"),
		"unlock is for runs in CANCELLED": strings.Replace(IllegalStateHint("unlock", sm.ExecutionRunning, "X"), "FAILED_UNSAFE, CANCELLED", "CANCELLED", 1),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// TestProgressBar_FillsWhenJobsSkipped: what was skipped does not keep the bar of a completed run
// from its end.
func TestProgressBar_FillsWhenJobsSkipped(t *testing.T) {
	var out strings.Builder
	NewProgressBar(&out).Update(views.ExecutionView{State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, Progress: views.Progress{Jobs: views.JobCounts{Total: 41, Completed: 38}}})
	if !strings.Contains(out.String(), "38/38 jobs") || strings.Contains(out.String(), "#.") {
		t.Errorf("it shows %s", out.String())
	}
}
