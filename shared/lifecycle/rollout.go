package lifecycle

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A rollout is one step run that stays open while its steps are executed wave by wave, as a loop
// executes its steps round by round. The list of the step run says which entity is in which wave. A
// wave that fails ends the rollout, unless the definition says to undo everything: the waves before
// it stand, and the work of the failed wave is undone at the end.

// enterRollout begins the step run of a rollout.
func (d *decider) enterRollout(at int, plan *Plan, r workflow.StepRun) {
	r.List, r.Items, r.Waves = plan.Value, plan.Items, plan.Waves
	d.appendStepRun(d.newStepRun(at, "", &Plan{}, r))
	d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, d.facts.Resolution.Program.Nodes[at].Label)
	d.endWave(d.execution.LastStepRun())
}

// endWave continues before the first wave of a rollout and after each wave: with the step between
// two waves, with the next wave, or after the rollout. It skips waves without entities.
func (d *decider) endWave(c *workflow.StepRun) {
	next := d.again(c)
	n := d.node(c)
	switch {
	case next == nil:
	case !next.More:
		d.endLoop(c)
	case c.Times > 0 && n.Between > 0 && !d.pausedAfter(c):
		d.goToStep(n.Between)
	default:
		c.Times = next.Wave - 1
		d.beginRound(c)
	}
}

// pausedAfter reports whether the step between two waves has been executed after this wave.
func (d *decider) pausedAfter(c *workflow.StepRun) bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.StepIndex == d.node(c).Between && r.Forward() && r.In == c.LoopSeq() && r.Index == c.Times-1 && r.Status == sm.StepCompleted && r.SupersededBy == 0
	})
}

// sameWave reports whether two step runs were entered in the same wave of the same rollout, or both
// outside of rollouts.
func (d *decider) sameWave(a, b *workflow.StepRun) bool {
	rolloutA, waveA := d.execution.WaveOf(a)
	rolloutB, waveB := d.execution.WaveOf(b)
	return rolloutA == rolloutB && waveA == waveB
}

// waveTolerance returns how many entities may fail in the wave of a step run, and how many entities
// it has; nil if the tolerance of the definition applies.
func (d *decider) waveTolerance(r *workflow.StepRun) (*spec.Tolerance, int) {
	c, wave := d.execution.WaveOf(r)
	if c == nil || d.node(c).Rollout.FailureTolerance == nil || wave >= len(c.Waves) {
		return nil, 0
	}
	return d.node(c).Rollout.FailureTolerance, c.Waves[wave]
}

// inWave reports whether a step run was entered in a wave of a rollout.
func (d *decider) inWave(r *workflow.StepRun) bool {
	c, _ := d.execution.WaveOf(r)
	return c != nil
}

// leftDoubtInWave reports whether a step run in a wave, or one of its pipeline, has ended in doubt.
// Nothing in the wave handles that.
func (d *decider) leftDoubtInWave(r *workflow.StepRun) bool {
	return d.inWave(r) && slices.ContainsFunc(d.execution.StepRuns, func(o workflow.StepRun) bool {
		return o.InDoubt && (o.Seq == r.Seq || r.Pipeline > 0 && o.Pipeline == r.Pipeline)
	})
}

// endsWave reports whether a failure of a step run, or the doubt that it leaves, ends its wave, so
// that the rollout stops.
func (d *decider) endsWave(r *workflow.StepRun, doubt bool) bool {
	c, _ := d.execution.WaveOf(r)
	if c == nil || !d.node(c).StopsAtFailure() {
		return false
	}
	return doubt || d.facts.Resolution.Program.FailureHandler(r.StepIndex) == c.StepIndex
}

// endWaveEarly stops the running work of a wave that has failed. Once that is final, the rollout
// stops.
func (d *decider) endWaveEarly(r *workflow.StepRun, why *workflow.Failure) {
	r.Failure = why
	d.stopStepRun(r)
}

// canStop reports whether the wave in which a step run has failed can be undone without the waves
// before it. Work on entities is judged at the end, for each entity; everything else must be
// undoable.
func (d *decider) canStop(failed *workflow.StepRun) bool {
	return !slices.ContainsFunc(stepRunsToUndo(d.execution), func(r *workflow.StepRun) bool {
		if !d.sameWave(r, failed) || d.node(r).OnEntities() {
			return false
		}
		return r.Child != nil || !r.Reversible || r.Counts.Unknown > 0 && !r.UndoHarmless || d.config().Rollback == workflow.RollbackNever
	})
}

// stopRollout ends a rollout in which a wave has failed, and with it the steps of the execution.
func (d *decider) stopRollout(r *workflow.StepRun, rollout int, why *workflow.Failure) {
	c := d.openRollout(rollout)
	c.StoppedAt = c.Times
	if !d.facts.Resolution.Program.InWave(rollout, r.StepIndex) {
		c.StoppedAt++ // the wave ended well, but the step between it and the next did not
	}
	if r.Open() {
		d.exitStepRun(r, sm.StepFailed)
	}
	d.leaveFailedContainers(rollout, why, nil)
	d.jump(rollout, &spec.Target{Node: len(d.facts.Resolution.Program.Nodes), In: -1})
}

// openRollout returns the open step run of a node with a rollout.
func (d *decider) openRollout(node int) *workflow.StepRun {
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Open() && r.StepIndex == node {
			return r
		}
	}
	return nil
}

// rolloutProblem returns why a rollout of an embedded definition is not allowed in its place; see
// package program for rollouts of one definition.
func rolloutProblem(r *Resolution) *workflow.Failure {
	if r.Program == nil {
		return nil
	}
	p := r.Program
	for at := range p.Nodes {
		n := &p.Nodes[at]
		if n.Rollout == nil && n.Parallel == nil {
			continue
		}
		for around := n.Parent; around >= 0; around = p.Nodes[around].Parent {
			s := p.Nodes[around].Step
			if n.Rollout != nil && (s.Rollout != nil || s.Loop != nil || s.Repeat != nil || s.Parallel != nil || s.ContinueOnError || len(s.OnFailure) > 0) || n.Parallel != nil && s.Rollout != nil {
				return &workflow.Failure{Code: string(workflow.CodeNotImplemented.OfFailure()), Step: n.Label,
					Message: fmt.Sprintf("step %q cannot be in step %q: a rollout is in no step that is executed several times, has branches or goes on after a failure, and has no branches in it", n.Label, p.Nodes[around].Label)}
			}
		}
	}
	return nil
}
