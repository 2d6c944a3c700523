package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// maxAlertEntities bounds how many entities an alert names.
const maxAlertEntities = 5

// alertText returns the text of an alert about an execution that has ended: which one it is, why it
// failed, which entities need a look, and how to see the rest. It returns "" if the execution ended
// well, or ended as somebody requested. The text contains codes and names only, no texts from
// blocks or callers. It describes the execution as it is now, which may be later than the event.
func (e *Engine) alertText(ctx context.Context, tenant, id string) (string, error) {
	x, err := e.OpenPorts().Store.Load(ctx, tenant, id)
	if err != nil {
		return "", err
	}
	person := x.OwnerStatus().NeedsPerson()
	switch outcome := x.Outcome(); {
	case !statemachines.Terminal(x.State):
		return "", nil // it has been retried since
	case outcome == workflow.OutcomeSucceeded, outcome == workflow.OutcomeProbed:
		return "", nil
	case lifecycle.IsCancelled(x) && x.Error == nil && !person:
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", x.Workflow, x.State, x.Outcome())
	if x.Error != nil {
		fmt.Fprintf(&b, ", %s", x.Error.Code)
		if x.Error.Step != "" {
			fmt.Fprintf(&b, " at step %s", x.Error.Step)
		}
	}
	b.WriteString("\n")
	switch {
	case person && (x.Unlocked || x.Kept != nil && x.Kept.Len() == 0):
		b.WriteString("It waits until somebody acknowledges it, and holds no locks.\n")
	case person:
		b.WriteString("It keeps its locks until somebody acknowledges it.\n")
	}
	if x.Result != nil && len(x.Result.Named) > 0 {
		total := 0
		for outcome, n := range x.Result.Count {
			if outcome != workflow.EntitySkipped {
				total += n
			}
		}
		shown := x.Result.Named[:min(len(x.Result.Named), maxAlertEntities)]
		total = max(total, len(shown))
		b.WriteString("To look at:")
		for i, n := range shown {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %s (%s, %s at step %s)", n.Entity, n.Outcome, n.Code, n.Step)
		}
		if more := total - len(shown); more > 0 {
			fmt.Fprintf(&b, ", and %d more", more)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "lockstep status %s; lockstep failures", x.ID)
	if x.Tenant != "" {
		fmt.Fprintf(&b, " --tenant %s", x.Tenant)
	}
	return b.String(), nil
}
