package render

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// failedCount is the number of entities that failed.
func failedCount(x views.ExecutionView) int {
	return x.EntityOutcomes[workflow.EntityFailedSafe] + x.EntityOutcomes[workflow.EntityLeft] + x.EntityOutcomes[workflow.EntityFailedUnsafe]
}

// DescribeEntities describes what became of the entities of an execution in which something
// failed: their number by outcome, the first that failed, who acknowledged the end, and what
// to do next. It is empty for any other execution.
func DescribeEntities(x views.ExecutionView) string {
	if x.Outcome == nil || failedCount(x) == 0 {
		return ""
	}
	var b strings.Builder
	var counts []string
	for _, outcome := range workflow.EntityOutcomes() {
		if n := x.EntityOutcomes[outcome]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	fmt.Fprintf(&b, "Entities: %s.\n", strings.Join(counts, ", "))
	for _, f := range x.FailedEntities {
		b.WriteString(OneLine(fmt.Sprintf("  %s  %s  step %s  %s: %s", f.Entity, f.Outcome, f.Step, f.Code, f.Message)) + "\n")
	}
	if more := failedCount(x) - len(x.FailedEntities); more > 0 && len(x.FailedEntities) > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	if a := x.Acknowledged; a != nil {
		b.WriteString(OneLine(fmt.Sprintf("Acknowledged by %s at %s: %s", a.By, formatTime(a.At), a.Reason)) + "\n")
	}
	switch {
	case x.State == sm.ExecutionFailedUnsafe:
		fmt.Fprintf(&b, "Next: check them, then \"lockstep acknowledge %s\" releases their locks; \"lockstep retry %s\" tries again on those that are still locked.\n", x.ID, x.ID)
	default:
		fmt.Fprintf(&b, "Next: \"lockstep rerun %s --failed\" runs it again on those that failed.\n", x.ID)
	}
	return b.String()
}
