package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Sentence says how a run stands: what it does, what it waits for, since when
// and until when, or how it ended and why.
func Sentence(x views.ExecutionView) string {
	if x.Waiting == nil {
		return stands(x)
	}
	if x.Waiting.Kind == views.WaitAcknowledge {
		return stands(x) + " " + waits(x.Waiting) + "." // how it ended is what the operator needs to know first
	}
	return waits(x.Waiting) + "."
}

// stands is the sentence of a run that waits for nothing, or whose end matters
// more than what it waits for.
func stands(x views.ExecutionView) string {
	switch x.Status {
	case sm.StatusCompleted:
		return "It completed" + after(x) + "."
	case sm.StatusCancelled:
		return "It was cancelled" + because(x) + "."
	case sm.StatusFailed:
		how := "It failed safely: nothing irreversible is left"
		if x.RolledBack {
			how = "It failed safely: everything it had changed was rolled back"
		}
		if strings.HasPrefix(string(x.State), "FAILED_UNSAFE") {
			how = "It failed UNSAFELY: look at what it touched"
		}
		return how + because(x) + "."
	}
	if x.CurrentStep != nil {
		return fmt.Sprintf("It is in step %q: %d of %d jobs so far are completed.", *x.CurrentStep, x.Progress.Jobs.Completed, x.Progress.Jobs.Total)
	}
	return fmt.Sprintf("It is in state %s.", x.State)
}

func waits(w *views.Waiting) string {
	var s string
	switch w.Kind {
	case views.WaitLock:
		s = "It waits for a lock"
		for i, f := range w.For {
			if i == 0 {
				s = "It waits for the lock of " + Text(f.Entity)
			}
			switch {
			case f.HeldBy != nil:
				s += ", held by " + *f.HeldBy
			case f.ReservedBy != nil:
				s += ", reserved by " + *f.ReservedBy
			}
		}
	case views.WaitWorker:
		s = "It waits for a worker to claim its jobs"
	case views.WaitRetry:
		s = "It waits to try failed jobs again"
	case views.WaitAcknowledge:
		return "It keeps its locks until somebody runs \"lockstep acknowledge\""
	default:
		s = "It waits for " + string(w.Kind)
	}
	s += ", since " + w.Since.Local().Format(time.DateTime)
	if w.Until != nil {
		s += ", until " + w.Until.Local().Format(time.DateTime) + " at the latest"
	}
	return s
}

func because(x views.ExecutionView) string {
	if x.Error == nil {
		if x.Reason == "" {
			return ""
		}
		return " (" + x.Reason + ")"
	}
	s := " ("
	if x.Cause != nil {
		s += string(*x.Cause) + ": "
	}
	s += x.Error.Message
	if x.Error.Step != nil {
		s += ", step " + *x.Error.Step
	}
	if x.Error.Entity != nil {
		s += ", " + *x.Error.Entity
	}
	return s + ")"
}

func after(x views.ExecutionView) string {
	if x.EndedAt == nil {
		return ""
	}
	return " after " + x.EndedAt.Sub(x.CreatedAt).Round(10*time.Millisecond).String()
}
