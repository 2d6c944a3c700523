package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// failExecutionTimeout ends a run whose deadline has passed: as a failure with the cause
// TIMEOUT, and with a cancellation whose source is the timeout.
func (d *decider) failExecutionTimeout() bool {
	if !d.hasDeadline() || d.now.Before(d.execution.Deadline) {
		return false
	}
	why := &workflow.Failure{
		Code: "TIMEOUT", Message: fmt.Sprintf("the run has not ended by %s, its timeout", d.execution.Deadline.Format(time.RFC3339)),
	}
	if r := d.currentStepRun(); r != nil {
		why.Step = r.Label
	}
	d.setFailure(workflow.CauseTimeout, why)
	d.execution.Cancellation = &workflow.Cancellation{Source: "timeout", Reason: why.Message, At: d.now}
	to := sm.ExecutionFailedSafe
	if d.execution.State == sm.ExecutionRunning || d.execution.State == sm.ExecutionWaiting {
		to = sm.ExecutionError
	}
	d.execution.Wait, d.execution.BlockedBy = nil, nil
	d.transition(sm.EventExecutionExpired, to, "", nil)
	if to == sm.ExecutionError {
		d.stopAll()
	} else {
		d.cancelOpenStepRuns()
	}
	return true
}
