package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// expired ends a run whose deadline has passed: as a failure with the cause
// TIMEOUT, and with a cancellation whose source is the timeout.
func (d *decider) expired() bool {
	if !d.Deadlined() || d.Now.Before(d.X.Deadline) {
		return false
	}
	why := &workflow.Failure{
		Code: "TIMEOUT", Message: fmt.Sprintf("the run has not ended by %s, its timeout", d.X.Deadline.Format(time.RFC3339)),
	}
	if r := d.Current(); r != nil {
		why.Step = r.Label
	}
	d.Fail(workflow.CauseTimeout, why)
	d.X.Cancellation = &workflow.Cancellation{Source: "timeout", Reason: why.Message, At: d.Now}
	to := sm.ExecutionFailedSafe
	if d.X.State == sm.ExecutionRunning || d.X.State == sm.ExecutionWaiting {
		to = sm.ExecutionError
	}
	d.X.Wait, d.X.BlockedBy = nil, nil
	d.Move(sm.EventExecutionExpired, to, "", nil)
	if to == sm.ExecutionError {
		d.StopAll()
	} else {
		d.abandon()
	}
	return true
}
