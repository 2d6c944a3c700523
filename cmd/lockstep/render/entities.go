package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// failedCount returns the number of entities that failed.
func failedCount(x views.ExecutionView) int {
	return x.EntityOutcomes[workflow.EntityFailedSafe] + x.EntityOutcomes[workflow.EntityLeft] + x.EntityOutcomes[workflow.EntityFailedUnsafe]
}

// hasSkipped reports whether some entities never had their turn although the execution completed.
func hasSkipped(x views.ExecutionView) bool {
	return x.EntityOutcomes[workflow.EntitySkipped] > 0 && x.Outcome != nil && (*x.Outcome == workflow.OutcomePartial || *x.Outcome == workflow.OutcomeSucceeded && x.Dropped.Count > 0)
}

// skippedEntities describes those entities.
func skippedEntities(x views.ExecutionView) string {
	if x.Dropped.Count > 0 {
		return "those that were left out"
	}
	return "those whose turn never came"
}

// DescribeEntities describes the entities of an execution in which something failed: their number
// by outcome, the first that failed, the steps that failed without naming one, who acknowledged the
// end, and what to do next. For any other execution it only names those, and the one that has run it
// again. It suggests no command for an execution without an id.
func DescribeEntities(x views.ExecutionView) string {
	var b strings.Builder
	steps := unnamedSteps(x)
	if x.Outcome == nil || failedCount(x) == 0 && len(steps) == 0 && x.FailedRollback == nil && x.Dropped.Count == 0 {
		addAcknowledged(&b, x)
		addRerunBy(&b, x)
		return b.String()
	}
	var counts []string
	for _, outcome := range workflow.EntityOutcomes() {
		if n := x.EntityOutcomes[outcome]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	if len(counts) > 0 {
		fmt.Fprintf(&b, "Entities: %s.\n", strings.Join(counts, ", "))
	}
	for _, f := range x.FailedEntities {
		released := ""
		if f.Released {
			released = ", released"
		}
		b.WriteString(OneLine(fmt.Sprintf("  %s  %s%s  step %s  %s: %s", f.Entity, f.Outcome, released, f.Step, f.Code, f.Message)) + "\n")
	}
	if more := failedCount(x) - len(x.FailedEntities); more > 0 && len(x.FailedEntities) > 0 {
		fmt.Fprintf(&b, "  and %d more", more)
		if x.ID != "" {
			fmt.Fprintf(&b, ": \"lockstep jobs %s --all\" lists the jobs of all", x.ID)
		}
		b.WriteString("\n")
	}
	if len(x.FailedEntities) == 0 && failedCount(x) > 0 && x.Kept != nil && *x.Kept > 0 && x.ID != "" {
		b.WriteString("  \"lockstep locks\" lists those that it keeps: no job of theirs has failed\n")
	}
	if x.Dropped.Count > 0 {
		b.WriteString(OneLine("  "+describeDropped(x.Dropped)) + "\n")
	}
	for _, s := range steps {
		b.WriteString(OneLine("  "+describeFailedStep(s)) + "\n")
	}
	if f := x.FailedRollback; f != nil && f.Execution != nil {
		b.WriteString(OneLine("Not undone: "+describeFailedUndo(f, x.ID != "")) + "\n")
	}
	addAcknowledged(&b, x)
	addRerunBy(&b, x)
	if x.ID == "" {
		return b.String()
	}
	next := func(format string, args ...any) { fmt.Fprintf(&b, "Next: "+format+"\n", args...) }
	again := "tries again"
	if x.FailedRollback != nil {
		again = "goes forward, and undoes nothing,"
	}
	switch f := x.FailedRollback; {
	case f != nil && f.Obstacle == nil:
		first := ""
		if f.Execution != nil && f.State != nil && *f.State == sm.ExecutionFailedUnsafe {
			first = fmt.Sprintf(`"lockstep acknowledge %s", since another one needs the locks that it keeps, `, *f.Execution)
		}
		next(`mend what the rollback has failed for, then %s"lockstep retry %s --rollback" undoes the rest; "lockstep retry %s" goes forward instead, executes again what was undone or was to be, and gives this rollback up; or undo by hand what remains, then "lockstep acknowledge %s".`, first, x.ID, x.ID, x.ID)
	case x.State == sm.ExecutionFailedUnsafe && x.Kept != nil && *x.Kept == 0:
		next(`check what remains, then "lockstep acknowledge %s" says that somebody has; "lockstep retry %s" %s with all locks taken anew%s.`, x.ID, x.ID, again, parentHint(x))
	case x.State == sm.ExecutionFailedUnsafe && x.Parent != nil:
		next(`check them, then "lockstep acknowledge %s" releases their locks%s.`, x.ID, parentHint(x))
	case x.State == sm.ExecutionFailedUnsafe && locksAnew(x):
		next(`check them, then "lockstep acknowledge %s" releases their locks; "lockstep retry %s" %s with all locks taken anew.`, x.ID, x.ID, again)
	case x.State == sm.ExecutionFailedUnsafe && x.Key != nil:
		next(`check them, then "lockstep acknowledge %s" releases their locks; after that "lockstep retry %s" %s with its key and all locks taken anew.`, x.ID, x.ID, again)
	case x.State == sm.ExecutionFailedUnsafe:
		next(`check them, then "lockstep acknowledge %s" releases their locks; "lockstep retry %s" %s on those that are still locked.`, x.ID, x.ID, again)
	case x.State == sm.ExecutionCancelled:
		next(`check them, then "lockstep acknowledge %s" releases their locks.`, x.ID)
	case len(x.RerunBy) > 0:
		next(`"lockstep status %s" says what became of them then.`, x.RerunBy[len(x.RerunBy)-1])
		return b.String()
	case failedCount(x) > 0:
		next("%s.", rerunHint(x))
		return b.String()
	}
	if hasSkipped(x) {
		next(`"lockstep rerun %s --skipped" runs it on %s.`, x.ID, skippedEntities(x))
	}
	return b.String()
}

// addAcknowledged adds who acknowledged the end, or entities, and why.
func addAcknowledged(b *strings.Builder, x views.ExecutionView) {
	all := x.Acknowledged
	if all == nil {
		return
	}
	if all.EarlierMore > 0 {
		where := "its history"
		if x.ID != "" {
			where = fmt.Sprintf(`"lockstep history %s"`, x.ID)
		}
		fmt.Fprintf(b, "Acknowledged %d times before these: %s has all\n", all.EarlierMore, where)
	}
	for _, a := range append(slices.Clone(all.Earlier), all.Acknowledgement) {
		what := "Acknowledged"
		if a.Entities != nil {
			what = fmt.Sprintf("%d of its entities acknowledged", *a.Entities)
		}
		b.WriteString(OneLine(fmt.Sprintf("%s by %s at %s: %s", what, a.By, formatTime(a.At), a.Reason)) + "\n")
	}
}

// addRerunBy adds which execution ran this one again last.
func addRerunBy(b *strings.Builder, x views.ExecutionView) {
	if n := len(x.RerunBy); n > 0 {
		fmt.Fprintf(b, "It was run again by %s.\n", x.RerunBy[n-1])
	}
}

// describeFailedUndo describes a failed compensation: which execution was to undo the work of a
// step, how it ended, on which entities, and the command that shows them if they are still known.
func describeFailedUndo(f *views.FailedRollback, known bool) string {
	text := fmt.Sprintf("step %s: execution %s was to undo it, and never began", f.Step, *f.Execution)
	if f.State != nil {
		text = fmt.Sprintf("step %s: execution %s was to undo it, and ended in %s", f.Step, *f.Execution, *f.State)
	}
	if len(f.Entities) > 0 {
		text += "; entities: " + strings.Join(f.Entities, ", ")
	}
	if !known {
		return text
	}
	return text + fmt.Sprintf(` ("lockstep status %s")`, *f.Execution)
}

// describeDropped names the entities that were left out because they were locked, and the holders.
func describeDropped(d views.Dropped) string {
	var named []string
	for _, f := range d.Blockers[:min(len(d.Blockers), workflow.MaxNamedFailures)] {
		named = append(named, OrDash(f.Entity)+" (held by "+OrDash(cmp.Or(f.HeldBy, f.ReservedBy))+")")
	}
	if more := d.Count - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return "Left out, since they were locked: " + strings.Join(named, ", ")
}

// parentHint suggests what to retry for a child: its parent no longer waits for it once it has
// ended.
func parentHint(x views.ExecutionView) string {
	if x.Parent == nil {
		return ""
	}
	return fmt.Sprintf(`; "lockstep retry %s" has the execution that started it begin its step again`, *x.Parent)
}

// locksAnew reports whether a retry of an execution that waits to be acknowledged does not continue
// under the locks that it keeps, if it keeps any: the reason that is given says so.
func locksAnew(x views.ExecutionView) bool {
	return x.Waiting != nil && x.Waiting.Kind == workflow.WaitAcknowledge && x.Waiting.Reason != nil
}

// unnamedSteps returns the steps that failed without naming an entity.
func unnamedSteps(x views.ExecutionView) (steps []views.FailedStep) {
	for _, s := range x.FailedSteps {
		if !slices.ContainsFunc(x.FailedEntities, func(f workflow.EntityFailure) bool { return f.Step == s.Step }) {
			steps = append(steps, s)
		}
	}
	return steps
}

func describeFailedStep(s views.FailedStep) string {
	text := "step " + s.Step
	if s.Visit > 1 {
		text += fmt.Sprintf(", run %d", s.Visit)
	}
	if s.Jobs > 1 {
		text += fmt.Sprintf(", %d jobs failed", s.Jobs)
	}
	if s.Unmet > 1 {
		text += fmt.Sprintf(", an assertion is not true of %d entities", s.Unmet)
	}
	if s.Jobs > 1 || s.Unmet > 1 {
		text += ", first"
	}
	if s.Failure == nil {
		text += "  something in the execution that it has started has failed"
	}
	if f := s.Failure; f != nil {
		if f.Entity != nil && !strings.Contains(f.Message, *f.Entity) {
			text += "  " + *f.Entity
		}
		text += "  " + f.Code + ": " + f.Message
	}
	return text
}
