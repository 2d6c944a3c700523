package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// DescribeExecution describes an execution in a sentence or two: what it does or waits for, since
// when and until when, or how it ended and why. It suggests no command for an execution without an
// id.
func DescribeExecution(x views.ExecutionView) string { return OneLine(describeExecution(x)) }

func describeExecution(x views.ExecutionView) string {
	if x.Waiting == nil {
		return describeState(x)
	}
	s := "It " + DescribeWait(x) + "."
	if x.Waiting.Kind == workflow.WaitAcknowledge {
		return describeState(x) + " " + s // the operator needs the outcome first
	}
	return s
}

// describeState describes an execution without what it waits for.
func describeState(x views.ExecutionView) string {
	switch x.Status {
	case sm.StatusCompleted:
		if x.Outcome == nil || *x.Outcome != workflow.OutcomePartial {
			return "It completed" + elapsedText(x) + "."
		}
		s := "It completed" + elapsedText(x) + ", but not everything succeeded"
		if why := DescribePartial(x); why != "" {
			return s + ": " + why + "."
		}
		if x.ID == "" {
			return s + "."
		}
		return s + fmt.Sprintf(": \"lockstep steps %s\" shows what failed.", x.ID)
	case sm.StatusCancelled:
		if x.RolledBack {
			return "It was cancelled, and everything it had changed was rolled back" + failureText(x) + "."
		}
		if x.State == sm.ExecutionCancelled || x.Acknowledged != nil { // an execution that left nothing behind needs nobody
			left := "; what it had changed is left as it is"
			if n := x.EntityOutcomes[workflow.EntityFailedUnsafe] + x.EntityOutcomes[workflow.EntityLeft]; n > 0 {
				left += fmt.Sprintf(", on %d of its entities", n)
			}
			return "It was cancelled" + failureText(x) + left + "."
		}
		return "It was cancelled" + failureText(x) + "."
	case sm.StatusFailed:
		outcome := "It failed safely: nothing irreversible is left"
		if x.RolledBack {
			outcome = "It failed safely: everything it had changed was rolled back"
		}
		if strings.HasPrefix(string(x.State), "FAILED_UNSAFE") {
			checked := x.State == sm.ExecutionFailedUnsafeAck
			outcome = "It failed UNSAFELY: check the entities it touched"
			if checked {
				outcome = "It failed UNSAFELY, which somebody has acknowledged"
			} else if x.Remains != nil && x.EntityOutcomes[workflow.EntityFailedUnsafe] == 0 && x.FailedRollback != nil {
				outcome = "It failed UNSAFELY: something could not be undone"
			} else if x.Remains != nil && x.EntityOutcomes[workflow.EntityFailedUnsafe] == 0 && len(x.Unacknowledged) > 0 {
				outcome = "It failed UNSAFELY: what it has started is to be checked"
			} else if x.Remains != nil && x.EntityOutcomes[workflow.EntityFailedUnsafe] == 0 {
				outcome = "It failed UNSAFELY, though no entity of it needs a look"
			}
			if n := x.EntityOutcomes[workflow.EntityFailedUnsafe]; n > 0 && checked {
				outcome = fmt.Sprintf("It failed UNSAFELY on %d of its entities, which somebody has acknowledged", n)
			} else if n > 0 {
				outcome = fmt.Sprintf("It failed UNSAFELY: check %d of its entities", n)
				if x.Kept != nil && x.State == sm.ExecutionFailedUnsafe && *x.Kept > 0 && *x.Kept < n {
					outcome = fmt.Sprintf("It failed UNSAFELY: check %d of its entities; %d are released", *x.Kept, n-*x.Kept)
				}
			}
			if x.Remains != nil && checked {
				return outcome + failureText(x) + ". What remained: " + *x.Remains + "."
			}
			if x.Remains != nil {
				return outcome + failureText(x) + ". What remains: " + *x.Remains + "."
			}
		}
		return outcome + failureText(x) + "."
	}
	switch x.State {
	case sm.ExecutionCancelling:
		return "It is being cancelled" + failureText(x) + ": no new work starts, and it waits for work in progress."
	case sm.ExecutionError:
		return "It has failed" + failureText(x) + ": no new work starts, and it waits for work in progress."
	case sm.ExecutionRollback:
		at := ""
		if x.CurrentStep != nil {
			at = fmt.Sprintf(", currently step %q", *x.CurrentStep)
		}
		return "It is being rolled back" + at + failureText(x) + "."
	case sm.ExecutionLocking:
		return "It is acquiring the locks of its entities."
	}
	if x.CurrentStep != nil {
		text := fmt.Sprintf("It is in step %q: %d of %d jobs so far have completed.", *x.CurrentStep, x.Progress.Jobs.Completed, x.Progress.Jobs.Total)
		if running := jobProgress(x.Progress); running != "" {
			text += " Of those that are running it is said: " + running + "."
		}
		return text
	}
	return fmt.Sprintf("It is in state %s.", x.State)
}

// DescribeUnacknowledged returns a line for each execution that an execution has started and that
// waits to be acknowledged, and a line that says what to do about them; empty if there is none.
func DescribeUnacknowledged(x views.ExecutionView) string {
	var s strings.Builder
	for _, c := range x.Unacknowledged {
		of := "step " + c.Step
		if c.Item != nil {
			of += fmt.Sprintf(", item %d (%s)", *c.Item, OrDash(c.ItemText))
		}
		s.WriteString(OneLine(fmt.Sprintf("To be acknowledged: %s  %s  by %s", c.ID, c.State, of)) + "\n")
	}
	if x.UnacknowledgedMore {
		s.WriteString(OneLine(fmt.Sprintf("It may have started others that wait to be acknowledged: \"lockstep tree %s\" lists all, with their states.", x.ID)) + "\n")
	}
	if len(x.Unacknowledged) == 0 {
		return s.String()
	}
	first := x.Unacknowledged[0].ID
	fmt.Fprintf(&s, "Next: \"lockstep status %s\" says what to check of it, and \"lockstep acknowledge %s\" releases its locks", first, first)
	switch {
	case !sm.Terminal(x.State):
		s.WriteString("; what a retry has started in its place waits for them until then")
	case x.Parent == nil && x.State == sm.ExecutionFailedUnsafe && x.Key != nil && !locksAnew(x):
		fmt.Fprintf(&s, "; then \"lockstep acknowledge %s\", and \"lockstep retry %s\", which takes its key and its locks anew: what it starts in its place would wait for these locks", x.ID, x.ID)
	case VerbAllowed("retry", x.State) && x.Parent == nil:
		fmt.Fprintf(&s, "; then \"lockstep retry %s\": what it starts in its place would wait for these locks", x.ID)
	}
	s.WriteString(".\n")
	return s.String()
}

// DescribeWait returns what DescribeWaiting does and adds the commands for a complete execution.
// Retrying its rollback comes first, if possible, since an acknowledgement gives that up.
func DescribeWait(x views.ExecutionView) string {
	if x.Waiting.Kind != workflow.WaitAcknowledge {
		return DescribeWaiting(x.Waiting)
	}
	run := fmt.Sprintf("\"lockstep acknowledge %s\"", x.ID)
	if canRetryRollback(x) {
		run = fmt.Sprintf("\"lockstep retry %s --rollback\", which undoes the rest, or %s, which gives that up", x.ID, run)
	}
	switch {
	case x.Waiting.Reason != nil:
		return OneLine("waits for somebody to run " + run + "; " + *x.Waiting.Reason)
	case x.Kept != nil && *x.Kept == 0:
		return "waits for somebody to run " + run + "; it holds no locks"
	case x.Kept != nil:
		return fmt.Sprintf("keeps the locks of %d of its entities until somebody runs %s", *x.Kept, run)
	}
	return "keeps its locks until somebody runs " + run
}

// canRetryRollback reports whether a rollback of an execution has failed and can be retried.
func canRetryRollback(x views.ExecutionView) bool {
	return x.FailedRollback != nil && x.FailedRollback.Obstacle == nil
}

// DescribeWaiting returns a predicate for what an execution waits for, such as "has waited since
// 10:03:11 for the lock of device/sw-007, held by ...; gives up at 11:03:11".
func DescribeWaiting(w *views.Waiting) string { return OneLine(describeWaiting(w)) }

// usualClaim is how long jobs may stay unclaimed without a note.
const usualClaim = 10 * time.Second

func describeWaiting(w *views.Waiting) string {
	switch w.Kind {
	case workflow.WaitAcknowledge:
		if w.Reason != nil {
			return "waits for somebody: \"lockstep status\" says what to do; " + *w.Reason
		}
		return "keeps its locks, and waits for somebody: \"lockstep status\" says what to do"
	case workflow.WaitTimer:
		s := "has waited since " + formatTime(w.Since)
		if w.Until != nil {
			s += " until " + formatTime(*w.Until)
		}
		if w.Step != nil {
			s += fmt.Sprintf(", at step %q", *w.Step)
		}
		if w.Reason != nil {
			s += " (" + *w.Reason + ")"
		}
		return s + otherWaits(w)
	}
	s := "has waited since " + formatTime(w.Since) + " for " + waitTarget(w)
	if w.Kind == workflow.WaitWorker && time.Since(w.Since) < usualClaim {
		return "waits for " + waitTarget(w) + otherWaits(w)
	}
	switch {
	case w.Until != nil && w.Kind == workflow.WaitWorker:
		s += "; gives up some time after " + formatTime(*w.Until)
	case w.Until != nil:
		s += "; gives up at " + formatTime(*w.Until)
	}
	return s + otherWaits(w)
}

// otherWaits describes what else an execution waits for.
func otherWaits(w *views.Waiting) (s string) {
	for _, o := range w.All {
		if w.Step != nil && o.Step == *w.Step {
			continue
		}
		s += fmt.Sprintf("; also waits for %s at step %s", otherWaitTargets[o.Kind], o.Step)
		if o.Until != nil {
			s += ", until " + formatTime(*o.Until)
		}
	}
	return s
}

// otherWaitTargets describe what concurrent steps wait for.
var otherWaitTargets = map[workflow.WaitKind]string{
	workflow.WaitCondition: "a condition", workflow.WaitInput: "an answer", workflow.WaitTimer: "a time", workflow.WaitSignal: "a signal",
	workflow.WaitChild: "what it has started", workflow.WaitChildInput: "a person whom an execution asks",
}

// regionOfPool describes the region of a pool.
func regionOfPool(pool string) string {
	if _, region, found := strings.Cut(pool, "@"); found {
		return " (region " + region + ")"
	}
	return ""
}

func waitTarget(w *views.Waiting) string {
	of := ""
	if w.Step != nil {
		of = fmt.Sprintf(" of step %q", *w.Step)
	}
	switch w.Kind {
	case workflow.WaitLock:
		if len(w.Blockers) == 0 {
			return "a lock"
		}
		blocker := w.Blockers[0]
		s := "the lock of " + OrDash(blocker.Entity)
		switch {
		case w.Reason != nil:
			s += ": " + *w.Reason
		case blocker.HeldBy != nil:
			s += ", held by " + *blocker.HeldBy
		case blocker.ReservedBy != nil:
			s += ", reserved by " + *blocker.ReservedBy
		}
		return s
	case workflow.WaitCondition:
		return "its condition to become true: " + OrDash(w.Condition)
	case workflow.WaitChild:
		if w.Child == nil {
			return "the executions that it has started" + of
		}
		return "execution " + OrDash(w.Child) + of
	case workflow.WaitChildInput:
		return "a person whom execution " + OrDash(w.Child) + of + ", or one below it, asks: " + OrDash(w.Reason)
	case workflow.WaitWorker:
		if w.Pool == nil {
			return "a worker to claim the jobs" + of
		}
		return "a worker of pool " + *w.Pool + regionOfPool(*w.Pool) + " to claim the jobs" + of
	case workflow.WaitKey:
		return "its business key: " + OrDash(w.Reason)
	case workflow.WaitEngine:
		return "the engine, which fails to advance it (" + OrDash(w.Reason) + ")"
	case workflow.WaitSignal:
		s := "the signal " + w.Signal + of
		if w.Reason != nil && *w.Reason != w.Signal {
			s += fmt.Sprintf(" (%q)", *w.Reason)
		}
		if w.Unfit > 0 {
			s += fmt.Sprintf(" (%d that did not fit came; the history has the first)", w.Unfit)
		}
		return s
	case workflow.WaitInput:
		s := "somebody to answer step " + OrDash(w.Step)
		if w.Reason != nil {
			s += fmt.Sprintf(" (%q)", *w.Reason)
		}
		if w.Answers != nil && w.Need != nil && *w.Need > 1 {
			return s + fmt.Sprintf(" with \"lockstep answer\"; %d of %d answers have come", *w.Answers, *w.Need)
		}
		return s + " with \"lockstep answer\""
	case workflow.WaitHold:
		return "somebody to release it with \"lockstep resume\": its starter holds it, and it has no locks"
	case workflow.WaitStep:
		return "somebody to let it enter step " + OrDash(w.Step) + " with \"lockstep resume\"; its entities stay locked meanwhile"
	case workflow.WaitRetry:
		return "the next attempt of failed jobs" + of
	}
	return string(w.Kind) + of
}

// formatTime formats a time for a sentence, without the date if it is today.
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
	if s += x.Error.Message; x.Error.Code != "" && !strings.Contains(x.Error.Message, x.Error.Code) {
		s += " [" + x.Error.Code + "]"
	}
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

// operatorVerbs are the verbs with which an operator changes an execution, and the event that each
// requests.
var operatorVerbs = []struct {
	verb  string
	event sm.Event
}{
	{"cancel", sm.EventCancelRequested},
	{"retry", sm.EventExecutionRetried},
	{"resume", sm.EventExecutionResumed},
	{"rewind", sm.EventExecutionRewound},
	{"unlock", sm.EventLockReleased},
	{"acknowledge", sm.EventExecutionAcknowledged},
}

// VerbAllowed reports whether an execution in the state may accept the verb.
func VerbAllowed(verb string, state sm.ExecutionState) bool {
	for _, o := range operatorVerbs {
		if o.verb != verb {
			continue
		}
		if verb == "resume" { // waits end by other events too, but an operator may end only these
			return state == sm.ExecutionBlockedWaiting || state == sm.ExecutionWaiting
		}
		for _, to := range sm.ExecutionStates() {
			if _, err := sm.TransitionExecution(state, o.event, to); err == nil {
				return true
			}
		}
	}
	return false
}

// IllegalStateHint names the states in which an execution accepts the verb, and the verbs that it
// accepts in its present state.
func IllegalStateHint(verb string, x views.ExecutionView) string {
	state, id := x.State, x.ID
	var allowed, alternatives []string
	for _, s := range sm.ExecutionStates() {
		if VerbAllowed(verb, s) {
			allowed = append(allowed, string(s))
		}
	}
	for _, o := range operatorVerbs {
		switch {
		case o.verb == verb || !VerbAllowed(o.verb, state):
		case o.verb == "retry" && x.Parent != nil && sm.Terminal(state): // it waits for no execution that has ended
			alternatives = append(alternatives, fmt.Sprintf("\"lockstep retry %s\" (which started it)", *x.Parent))
		default:
			alternatives = append(alternatives, "\"lockstep "+o.verb+" "+id+"\"")
		}
	}
	s := verb + " is for executions in " + strings.Join(slices.Compact(allowed), ", ")
	switch {
	case len(alternatives) == 0 && sm.Terminal(state):
		s += "; for one in " + string(state) + " nothing is left to do"
		if n := len(x.RerunBy); n > 0 {
			s += "; it was run again by " + x.RerunBy[n-1]
		}
		return s + ": " + rerunHint(x)
	case len(alternatives) == 0:
		return s + "; an execution in " + string(state) + " accepts no operator verb"
	}
	return s + "; this one, in " + string(state) + ", accepts " + strings.Join(alternatives, " or ")
}

// rerunHint returns the command that runs an ended execution again, on its remaining entities.
func rerunHint(x views.ExecutionView) string {
	switch skipped := hasSkipped(x); {
	case failedCount(x) > 0 && skipped:
		return fmt.Sprintf(`"lockstep rerun %s --unfinished" runs it again on those that failed, and on %s; --failed or --skipped alone is one of the two`, x.ID, skippedEntities(x))
	case failedCount(x) > 0:
		return fmt.Sprintf(`"lockstep rerun %s --failed" runs it again on those that failed`, x.ID)
	case skipped:
		return fmt.Sprintf(`"lockstep rerun %s --skipped" runs it on %s`, x.ID, skippedEntities(x))
	}
	return fmt.Sprintf(`"lockstep rerun %s --all" executes its workflow again`, x.ID)
}
