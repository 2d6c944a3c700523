package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// resume ends a wait at an operator's word: for a condition, for a moment.
// What waits for a child goes on when the child has ended.
func (d *decider) resume(c Command) error {
	data := map[string]any{"reason": c.Reason}
	switch w := d.execution.Wait; {
	case d.execution.State == sm.ExecutionBlockedWaiting:
		d.execution.Wait = nil
		d.transition(sm.EventExecutionReady, sm.ExecutionReady, c.Actor, data)
		return nil
	case d.execution.State != sm.ExecutionWaiting || w == nil:
		_, err := sm.TransitionExecution(d.execution.State, sm.EventExecutionResumed, sm.ExecutionRunning)
		return d.refusal(c, err)
	case w.Kind != workflow.WaitTimer:
		return &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("execution %s in state %s waits for execution %s: cancel or retry that one", d.execution.ID, d.execution.State, w.Child),
		}
	}
	d.execution.DelayDoneSeq, d.execution.Wait = d.execution.StepRunSeq+1, nil
	d.transition(sm.EventExecutionResumed, sm.ExecutionRunning, c.Actor, data)
	return nil
}

// releaseLocks lets go of the locks of a run that has ended and keeps them for an
// operator to look: the lock epoch grows, so that no lock of the run is live.
func (d *decider) releaseLocks(c Command, data map[string]any) error {
	if _, err := sm.TransitionExecution(d.execution.State, sm.EventLockReleased, d.execution.State); err != nil {
		return d.refusal(c, err)
	}
	if d.execution.Unlocked {
		return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("execution %s in state %s holds no locks any more", d.execution.ID, d.execution.State)}
	}
	d.execution.Epoch++
	d.execution.Unlocked = true
	d.transition(sm.EventLockReleased, d.execution.State, c.Actor, data)
	d.decision.WakeWaiters = true
	return nil
}

// beginRetry begins a new try of a run that has failed: at the step that failed, or
// the first that was rolled back, or the one that the operator names. A run that
// still holds its locks goes on under them; any other starts over from READY.
func (d *decider) beginRetry(c Command, data map[string]any) error {
	to := sm.ExecutionReady
	if d.execution.State == sm.ExecutionFailedUnsafe && !d.execution.Unlocked && d.execution.Scope.HeldEpoch == d.execution.Epoch {
		to = sm.ExecutionRunning
	}
	if _, err := sm.TransitionExecution(d.execution.State, sm.EventExecutionRetried, to); err != nil {
		return d.refusal(c, err)
	}
	if d.execution.Try >= workflow.MaxTries || d.execution.Sequence >= workflow.MaxEvents {
		return workflow.Errorf(workflow.CodeLimit, "execution %s has had %d tries and %d events, and at most %d and %d are allowed: start another run",
			d.execution.ID, d.execution.Try, d.execution.Sequence, workflow.MaxTries, workflow.MaxEvents)
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	if p := d.facts.Resolution.Problem; p != nil {
		return workflow.Errorf(workflow.CodeIllegalTransition, "cannot retry execution %s: %s", d.execution.ID, p.Message)
	}
	program := d.facts.Resolution.Program
	from := d.failedStep(program)
	if c.FromStep != "" {
		if from = program.IndexOf(c.FromStep); from < 0 {
			return invalidRequest("from", fmt.Sprintf("the definition has no step %q", c.FromStep))
		}
		if reached := d.lastReachedStep(); from > reached {
			return invalidRequest("from", fmt.Sprintf("step %q has not been reached: the run came to step %q", c.FromStep, program.Nodes[reached].Label))
		}
		if undone := d.firstUndoneStep(len(program.Nodes)); from > undone {
			return invalidRequest("from", fmt.Sprintf("step %q was rolled back and has to be done again: begin with it, or before", program.Nodes[undone].Label))
		}
	}
	switch c.Entities {
	case "":
		c.Entities = "failed"
		if d.execution.RolledBack {
			c.Entities = "all"
		}
	case "failed", "all":
	default:
		return invalidRequest("entities", "want failed or all")
	}
	d.decision.WakeWaiters = to == sm.ExecutionReady && d.execution.State == sm.ExecutionFailedUnsafe && !d.execution.Unlocked // after a restore it may have held its locks until now
	d.resetForTry(from, c.Entities == "failed", to)
	data["from"], data["entities"], data["try"] = program.Nodes[from].Label, c.Entities, d.execution.Try
	d.transition(sm.EventExecutionRetried, to, c.Actor, data)
	return nil
}

func invalidRequest(path, message string) error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: path, Code: "invalid", Message: message}})
}

// failedStep is the step a retry begins with unless another is named.
func (d *decider) failedStep(p *spec.Program) int {
	at := 0
	if d.execution.Error != nil {
		at = max(0, p.IndexOf(d.execution.Error.Step))
	}
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Kind == workflow.JobRollback && r.Try == d.execution.Try {
			at = min(at, r.StepIndex)
		}
	}
	return min(at, d.firstUndoneStep(at))
}

// firstUndoneStep is the first step of which something was rolled back and has not been
// done again, none if there is no such step.
func (d *decider) firstUndoneStep(none int) int {
	at := none
	for i := range d.execution.StepRuns {
		u := &d.execution.StepRuns[i]
		if u.Kind != workflow.JobRollback || u.Counts.OK == 0 || u.StepIndex >= at {
			continue
		}
		redone := slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
			return r.Forward() && r.StepIndex == u.StepIndex && r.Try > u.Try
		})
		if !redone {
			at = u.StepIndex
		}
	}
	return at
}

// lastReachedStep is the last step that any try has come to.
func (d *decider) lastReachedStep() int {
	at := 0
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Forward() {
			at = max(at, r.StepIndex)
		}
	}
	return at
}

// resetForTry makes the execution that of a new try. What earlier tries have done from
// the step on is done again, apart from what a retry of failures keeps: the
// entities with which a step came to OK.
func (d *decider) resetForTry(from int, onlyFailed bool, to sm.ExecutionState) {
	x := d.execution
	nodes := d.facts.Resolution.Program.Nodes
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if !r.Forward() || r.StepIndex < from || r.SupersededBy > 0 {
			continue
		}
		if n := &nodes[r.StepIndex]; onlyFailed && r.HasJobs() && n.RunOn != "" && n.RunOn != workflow.RunOnGlobal {
			continue
		}
		r.SupersededBy = x.Try + 1
	}
	if x.PastScopes == nil {
		x.PastScopes = map[int]workflow.Scope{}
	}
	x.PastScopes[x.Try] = x.Scope
	x.Try++
	x.PC, x.Iteration, x.OnlyFailed = from, 0, onlyFailed
	x.EndedAt, x.Cause, x.Reason, x.Error, x.RolledBack, x.Cancellation = time.Time{}, "", "", nil, false, nil
	x.UpdatesApplied, x.Wait, x.BlockedBy, x.Dropped, x.DroppedCount = false, nil, nil, nil, 0
	if x.Deadline = (time.Time{}); d.config().Timeout > 0 {
		x.Deadline = d.now.Add(d.config().Timeout.Std())
	}
	if to == sm.ExecutionReady {
		x.StartedAt, x.LockSince, x.Unlocked = time.Time{}, time.Time{}, false
		d.pin()
	}
	x.StepRuns = slices.Clone(x.StepRuns)
}
