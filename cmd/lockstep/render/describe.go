package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// DescribeExecution says how a run stands: what it does, what it waits for, since when
// and until when, or how it ended and why.
func DescribeExecution(x views.ExecutionView) string {
	if x.Waiting == nil {
		return describeState(x)
	}
	s := "It " + DescribeWaiting(x.Waiting) + "."
	if x.Waiting.Kind == views.WaitAcknowledge {
		s = strings.Replace(s, "lockstep acknowledge", "lockstep acknowledge "+x.ID, 1)
		return describeState(x) + " " + s // how it ended is what the operator needs to know first
	}
	return s
}

// describeState is the sentence of a run that waits for nothing, or whose end matters
// more than what it waits for.
func describeState(x views.ExecutionView) string {
	switch x.Status {
	case sm.StatusCompleted:
		s := "It completed" + elapsedText(x) + "."
		if n := x.Progress.Jobs.Failed; n > 0 {
			s += fmt.Sprintf(" %d of its jobs failed, which it tolerates: \"lockstep jobs %s --state FAILED\" lists them.", n, x.ID)
		}
		return s
	case sm.StatusCancelled:
		if x.RolledBack {
			return "It was cancelled, and everything it had changed was rolled back" + failureText(x) + "."
		}
		return "It was cancelled" + failureText(x) + "."
	case sm.StatusFailed:
		how := "It failed safely: nothing irreversible is left"
		if x.RolledBack {
			how = "It failed safely: everything it had changed was rolled back"
		}
		if strings.HasPrefix(string(x.State), "FAILED_UNSAFE") {
			how = "It failed UNSAFELY: look at what it touched"
		}
		return how + failureText(x) + "."
	}
	switch x.State {
	case sm.ExecutionCancelling:
		return "It is being cancelled" + failureText(x) + ": nothing more of it begins, and what has begun is waited for."
	case sm.ExecutionError:
		return "It has failed" + failureText(x) + ": nothing more of it begins, and what has begun is waited for."
	case sm.ExecutionRollback:
		at := ""
		if x.CurrentStep != nil {
			at = fmt.Sprintf(", at present step %q", *x.CurrentStep)
		}
		return "It is being rolled back" + at + failureText(x) + "."
	case sm.ExecutionLocking:
		return "It asks for the locks of its entities."
	}
	if x.CurrentStep != nil {
		return fmt.Sprintf("It is in step %q: %d of %d jobs so far are completed.", *x.CurrentStep, x.Progress.Jobs.Completed, x.Progress.Jobs.Total)
	}
	return fmt.Sprintf("It is in state %s.", x.State)
}

// DescribeWaiting says what a run waits for, as what is said of it: "waits since 10:03:11
// for the lock of device/sw-007, held by ...; gives up at 11:03:11".
func DescribeWaiting(w *views.Waiting) string {
	switch w.Kind {
	case views.WaitAcknowledge:
		if w.Reason != nil {
			return "waits for somebody to run \"lockstep acknowledge\"; " + *w.Reason
		}
		return "keeps its locks until somebody runs \"lockstep acknowledge\""
	case views.WaitTimer:
		s := "waits since " + formatTime(w.Since)
		if w.Until != nil {
			s += " until " + formatTime(*w.Until)
		}
		if w.Step != nil {
			s += fmt.Sprintf(", before step %q", *w.Step)
		}
		return s
	}
	s := "waits since " + formatTime(w.Since) + " for " + waitTarget(w)
	if w.Until != nil {
		s += "; gives up at " + formatTime(*w.Until)
	}
	return s
}

func waitTarget(w *views.Waiting) string {
	of := ""
	if w.Step != nil {
		of = fmt.Sprintf(" of step %q", *w.Step)
	}
	switch w.Kind {
	case views.WaitLock:
		if len(w.Blockers) == 0 {
			return "a lock"
		}
		f := w.Blockers[0]
		s := "the lock of " + OrDash(f.Entity)
		switch {
		case f.HeldBy != nil:
			s += ", held by " + *f.HeldBy
		case f.ReservedBy != nil:
			s += ", reserved by " + *f.ReservedBy
		}
		return s
	case views.WaitCondition:
		return "its condition to become true: " + OrDash(w.Condition)
	case views.WaitChild:
		return "the run " + OrDash(w.Child) + of
	case views.WaitWorker:
		if w.Pool == nil {
			return "a worker to claim the jobs" + of
		}
		return "a worker of pool " + *w.Pool + " to claim the jobs" + of
	case views.WaitEngine:
		return "the engine, whose looks at it fail (" + OrDash(w.Reason) + ")"
	case views.WaitRetry:
		return "the next attempt of failed jobs" + of
	}
	return string(w.Kind) + of
}

// formatTime is a time for a sentence: without its day if that is today.
func formatTime(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly + " MST")
	}
	return t.Format(time.DateTime + " MST")
}

func failureText(x views.ExecutionView) string {
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
	if x.Error.Entity != nil && !strings.Contains(x.Error.Message, *x.Error.Entity) {
		s += ", " + *x.Error.Entity
	}
	return s + ")"
}

func elapsedText(x views.ExecutionView) string {
	if x.EndedAt == nil {
		return ""
	}
	return " after " + x.EndedAt.Sub(x.CreatedAt).Round(10*time.Millisecond).String()
}
