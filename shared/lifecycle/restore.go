package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// restoreGap is by how far a run's counters go on after the tables were restored: beyond
// what devices have seen of step runs that it has forgotten, and what stands in packs
// and locks, if one table was set back by a second less than another.
const restoreGap = 1000

// ForgottenStepRuns is up to which number a run may have had step runs that nobody remembers,
// which is so of one that is made under an id that is known already, after the tables
// were restored: devices may have seen its jobs, which must not be taken for new ones.
func ForgottenStepRuns(p Policy, known bool) int {
	if known && p.MinFencingToken > 0 {
		return restoreGap
	}
	return 0
}

// handleRestore brings a run over that was written before the tables were set back to an
// earlier moment, which shows in the floor of the tokens. Devices, and whoever has
// asked the run meanwhile, may have seen it do what it does not know of any more.
// So it goes on with nothing: what has not ended is closed and left to an operator,
// as unsafe. What has ended stays as it is, but is not gone on with under tokens
// from before.
//
// It reports whether it has met one that had not ended. An operator's verb is not
// carried out then: it was asked for of a run that went on. The run is brought over
// by its next look.
func (d *decider) handleRestore() (interrupted bool, err error) {
	x := d.execution
	switch {
	case x.MinFencingToken == d.policy.MinFencingToken:
		return false, nil
	case x.Version == 0: // it is being made
		x.MinFencingToken = d.policy.MinFencingToken
		return false, nil
	case x.MinFencingToken > d.policy.MinFencingToken:
		return false, workflow.Errorf(workflow.CodeUnavailable,
			"execution %s was written after a restore, with a floor of tokens of %d; this engine knows of %d", x.ID, x.MinFencingToken, d.policy.MinFencingToken)
	}
	if c := d.facts.Command; c != nil && c.Kind != CommandBreak && !sm.Terminal(x.State) {
		return false, &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("cannot %s execution %s: the tables were restored since it was in state %s; it ends, for somebody to look at", c.Kind, x.ID, x.State),
		}
	}
	x.MinFencingToken, x.StepRunSeq, x.Scope.HeldEpoch = d.policy.MinFencingToken, x.StepRunSeq+restoreGap, 0
	if sm.Terminal(x.State) {
		return false, nil // it is written with the next commit, if there is one
	}
	d.changed = true
	why := &workflow.Failure{
		Code: string(workflow.CauseRestored), Message: "the tables were restored to an earlier moment: what the run has done since is not known",
	}
	x.Cause, x.Error, x.Reason, x.Wait, x.BlockedBy = workflow.CauseRestored, why, why.Message, nil, nil
	switch x.State {
	case sm.ExecutionRunning, sm.ExecutionWaiting:
		d.transition(sm.EventExecutionBroken, sm.ExecutionError, "", nil)
		d.stopAll()
	case sm.ExecutionError, sm.ExecutionCancelling, sm.ExecutionRollback:
		d.stopAll()
	default:
		// It holds nothing, and must not seem to hold what it has held before.
		x.Epoch += restoreGap
		d.cancelOpenStepRuns()
		d.end(sm.EventExecutionBroken, sm.ExecutionFailedUnsafe, nil)
		d.decision.WakeWaiters = true
	}
	return true, d.err
}

// endRestored ends a run that the tables were set back under, once nothing of it can start
// any more.
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
