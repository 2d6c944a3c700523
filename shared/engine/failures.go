package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// minFailuresToBreak is how many looks have to fail, one after the other, before a run is
// ended for it, however long that takes.
const minFailuresToBreak = 5

// recordFailure writes down that a look at an execution has failed. It is best effort:
// where the store does not answer, there is nothing to be said.
func recordFailure(ctx context.Context, store port.Store, l workflow.Wakeup, now time.Time, cause error) error {
	x, err := store.Load(ctx, l.Tenant, l.Execution)
	if err != nil {
		return err
	}
	t := workflow.FailureStreak{Since: now, Count: 1, Reason: port.Reason(cause)}
	if before := x.FailureStreak; before != nil {
		t.Since, t.Count = before.Since, before.Count+1
	}
	return store.RecordFailureStreak(ctx, l.Tenant, l.Execution, x.Version, t)
}

// breakCommand is the order to end a run at which every look has failed for as long as
// limit, nil if there is no reason for it. What has ended is left as it is,
// unless its updates of the inventory keep it from letting go of its locks.
func breakCommand(x *workflow.Execution, now time.Time, limit time.Duration) *lifecycle.Command {
	t := x.FailureStreak
	if t == nil || t.Count < minFailuresToBreak || now.Sub(t.Since) < limit || sm.Terminal(x.State) && x.State != sm.ExecutionCompleted {
		return nil
	}
	return &lifecycle.Command{Kind: lifecycle.CommandBreak, Reason: fmt.Sprintf(
		"%d looks at it have failed since %s: %s", t.Count, t.Since.Format(time.RFC3339), t.Reason)}
}
