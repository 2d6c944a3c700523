package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// restoreGap is how far the counters of an execution jump after the tables were restored: past the
// step runs that devices have seen but the item has lost, and past the numbers in packs and locks,
// in case one table was restored to a slightly later time than another.
const restoreGap = 1000

// ForgottenStepRuns returns the highest number of step runs that an execution may have had and that
// no table contains any more. It is not zero for an execution that is created, after the tables
// were restored, with an id that is already known: devices may have seen its jobs, and new ones
// must not have the same ids.
func ForgottenStepRuns(p Policy, known bool) int {
	if known && p.MinFencingToken > 0 {
		return restoreGap
	}
	return 0
}

// handleRestore migrates an execution that was written before the tables were restored to an
// earlier time; its MinFencingToken shows that. Devices, and clients that read the execution, may
// have seen it do things that the item has lost. So nothing of it continues: an execution that has
// not ended is closed and left to an operator as unsafe. An execution that has ended stays as it
// is, but never continues under tokens from before.
//
// interrupted reports whether the execution had not ended. The command of an operator is then
// refused, because it was meant for a running execution. The next wake-up migrates the execution.
func (d *decider) handleRestore() (interrupted bool, err error) {
	x := d.execution
	switch {
	case x.MinFencingToken == d.policy.MinFencingToken:
		return false, nil
	case x.Version == 0: // it is being created
		x.MinFencingToken = d.policy.MinFencingToken
		return false, nil
	case x.MinFencingToken > d.policy.MinFencingToken:
		return false, workflow.Errorf(workflow.CodeUnavailable,
			"execution %s was written after a restore, with fencing tokens from %d; this engine has tokens from %d", x.ID, x.MinFencingToken, d.policy.MinFencingToken)
	}
	if c := d.facts.Command; c != nil && c.Kind != CommandBreak && !sm.Terminal(x.State) {
		return false, &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("cannot %s execution %s: the tables were restored since it was in state %s; it ends, and an operator has to check it", c.Kind.verb(), x.ID, x.State),
		}
	}
	x.MinFencingToken, x.StepRunSeq = d.policy.MinFencingToken, x.StepRunSeq+restoreGap
	x.Scope.EpochBeforeRestore, x.Scope.HeldEpoch = x.Scope.LockEpoch(), 0
	if sm.Terminal(x.State) {
		return false, nil // it is written with the next commit, if there is one
	}
	d.changed = true
	why := &workflow.Failure{
		Code: string(workflow.CauseRestored), Message: "the tables were restored to an earlier time: what the execution has done since is unknown",
	}
	x.Cause, x.Error, x.Reason, x.Wait, x.BlockedBy, x.LastEnd = workflow.CauseRestored, why, why.Message, nil, nil, nil
	switch x.State {
	case sm.ExecutionRunning, sm.ExecutionWaiting:
		d.transition(sm.EventExecutionBroken, sm.ExecutionError, "", nil)
		d.stopAll()
	case sm.ExecutionError, sm.ExecutionCancelling, sm.ExecutionRollback:
		d.stopAll()
	default:
		// It holds no lock, and must not seem to hold those it held before.
		x.Epoch += restoreGap
		d.cancelOpenStepRuns()
		d.end(sm.EventExecutionBroken, sm.ExecutionFailedUnsafe, nil)
		d.decision.WakeWaiters = true
	}
	return true, d.err
}

// endRestored ends an execution that a restore interrupted, once none of its jobs can start any
// more. It reports whether this is such an execution.
func (d *decider) endRestored() bool {
	switch d.execution.State {
	case sm.ExecutionError, sm.ExecutionCancelling, sm.ExecutionRollback:
	default:
		return false
	}
	if d.execution.Cause != workflow.CauseRestored {
		return false
	}
	if d.closeOpenSteps() {
		d.end(sm.EventExecutionBroken, sm.ExecutionFailedUnsafe, nil)
	}
	return true
}
