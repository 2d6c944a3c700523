package show

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestSentence: what people need to know first comes first, and an unsafe end is
// told as one, acknowledged or not.
func TestSentence(t *testing.T) {
	text := func(s string) *string { return &s }
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := began.Add(2340 * time.Millisecond)
	cause := workflow.Cause("STEP_FAILED")
	failure := &views.FailureView{Message: "it refuses", Step: text("upgrade"), Entity: text("device/sw-042")}
	for name, c := range map[string]struct {
		x    views.ExecutionView
		want string
	}{
		"running": {
			views.ExecutionView{State: sm.ExecutionRunning, Status: sm.StatusRunning, CurrentStep: text("upgrade"), Progress: views.Progress{Jobs: views.JobCounts{Total: 9, Completed: 4}}},
			`It is in step "upgrade": 4 of 9 jobs so far are completed.`,
		},
		"completed": {
			views.ExecutionView{State: sm.ExecutionCompletedAck, Status: sm.StatusCompleted, CreatedAt: began, EndedAt: &ended},
			"It completed after 2.34s.",
		},
		"safe": {
			views.ExecutionView{State: sm.ExecutionFailedSafeAck, Status: sm.StatusFailed, RolledBack: true, Cause: &cause, Error: failure},
			"It failed safely: everything it had changed was rolled back (STEP_FAILED: it refuses, step upgrade, device/sw-042).",
		},
		"unsafe": {
			views.ExecutionView{State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Cause: &cause, Error: failure, Waiting: &views.Waiting{Kind: views.WaitAcknowledge}},
			"It failed UNSAFELY: look at what it touched (STEP_FAILED: it refuses, step upgrade, device/sw-042). It keeps its locks until somebody runs \"lockstep acknowledge\".",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Sentence(c.x); got != c.want {
				t.Errorf("it says\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
