package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// resumeNow ends a wait at an operator's word: for a condition, for a moment.
// What waits for a child goes on when the child has ended.
func (d *decider) resumeNow(c Command) error {
	data := map[string]any{"reason": c.Reason}
	switch w := d.X.Wait; {
	case d.X.State == sm.ExecutionBlockedWaiting:
		d.X.Wait = nil
		d.Move(sm.EventExecutionReady, sm.ExecutionReady, c.Actor, data)
		return nil
	case d.X.State != sm.ExecutionWaiting || w == nil:
		_, err := sm.MoveExecution(d.X.State, sm.EventExecutionResumed, sm.ExecutionRunning)
		return d.refusal(c, err)
	case w.Kind != workflow.WaitTimer:
		return &workflow.Error{
			Code:    workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("execution %s in state %s waits for execution %s: cancel or retry that one", d.X.ID, d.X.State, w.Child),
		}
	}
	d.X.Rested, d.X.Wait = d.X.RunSeq+1, nil
	d.Move(sm.EventExecutionResumed, sm.ExecutionRunning, c.Actor, data)
	return nil
}

// unlock lets go of the locks of a run that has ended and keeps them for an
// operator to look: the lock epoch grows, so that no lock of the run is live.
func (d *decider) unlock(c Command, data map[string]any) error {
	if _, err := sm.MoveExecution(d.X.State, sm.EventLockReleased, d.X.State); err != nil {
		return d.refusal(c, err)
	}
	if d.X.Unlocked {
		return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("execution %s in state %s holds no locks any more", d.X.ID, d.X.State)}
	}
	d.X.Epoch++
	d.X.Unlocked = true
	d.Move(sm.EventLockReleased, d.X.State, c.Actor, data)
	d.Out.Release = true
	return nil
}

// retry begins a new try of a run that has failed: at the step that failed, or
// the first that was rolled back, or the one that the operator names. A run that
// still holds its locks goes on under them; any other starts over from READY.
func (d *decider) retry(c Command, data map[string]any) error {
	to := sm.ExecutionReady
	if d.X.State == sm.ExecutionFailedUnsafe && !d.X.Unlocked && d.X.Scope.HeldEpoch == d.X.Epoch {
		to = sm.ExecutionRunning
	}
	if _, err := sm.MoveExecution(d.X.State, sm.EventExecutionRetried, to); err != nil {
		return d.refusal(c, err)
	}
	if d.X.Try >= workflow.MaxTries || d.X.Sequence >= workflow.MaxHistory {
		return workflow.Errorf(workflow.CodeLimit, "execution %s has had %d tries and %d events, and at most %d and %d are allowed: start another run",
			d.X.ID, d.X.Try, d.X.Sequence, workflow.MaxTries, workflow.MaxHistory)
	}
	if d.F.Resolved == nil {
		d.Need(Need{Kind: NeedResolved})
		return nil
	}
	if p := d.F.Resolved.Problem; p != nil {
		return workflow.Errorf(workflow.CodeIllegalTransition, "cannot retry execution %s: %s", d.X.ID, p.Message)
	}
	program := d.F.Resolved.Program
	from := d.failedAt(program)
	if c.From != "" {
		if from = program.Index(c.From); from < 0 {
			return invalid("from", fmt.Sprintf("the definition has no step %q", c.From))
		}
		if reached := d.reached(); from > reached {
			return invalid("from", fmt.Sprintf("step %q has not been reached: the run came to step %q", c.From, program.Nodes[reached].Label))
		}
		if undone := d.undoneAt(len(program.Nodes)); from > undone {
			return invalid("from", fmt.Sprintf("step %q was rolled back and has to be done again: begin with it, or before", program.Nodes[undone].Label))
		}
	}
	switch c.Entities {
	case "":
		c.Entities = "failed"
		if d.X.RolledBack {
			c.Entities = "all"
		}
	case "failed", "all":
	default:
		return invalid("entities", "want failed or all")
	}
	d.Out.Release = to == sm.ExecutionReady && d.X.State == sm.ExecutionFailedUnsafe && !d.X.Unlocked // after a restore it may have held its locks until now
	d.again(from, c.Entities == "failed", to)
	data["from"], data["entities"], data["try"] = program.Nodes[from].Label, c.Entities, d.X.Try
	d.Move(sm.EventExecutionRetried, to, c.Actor, data)
	return nil
}

func invalid(path, message string) error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: path, Code: "invalid", Message: message}})
}

// failedAt is the step a retry begins with unless another is named.
func (d *decider) failedAt(p *spec.Program) int {
	at := 0
	if d.X.Error != nil {
		at = max(0, p.Index(d.X.Error.Step))
	}
	for i := range d.X.Runs {
		if r := &d.X.Runs[i]; r.Kind == workflow.JobRollback && r.Try == d.X.Try {
			at = min(at, r.Step)
		}
	}
	return min(at, d.undoneAt(at))
}

// undoneAt is the first step of which something was rolled back and has not been
// done again, none if there is no such step.
func (d *decider) undoneAt(none int) int {
	at := none
	for i := range d.X.Runs {
		u := &d.X.Runs[i]
		if u.Kind != workflow.JobRollback || u.Tally.OK == 0 || u.Step >= at {
			continue
		}
		again := slices.ContainsFunc(d.X.Runs, func(r workflow.StepRun) bool {
			return r.Forward() && r.Step == u.Step && r.Try > u.Try
		})
		if !again {
			at = u.Step
		}
	}
	return at
}

// reached is the last step that any try has come to.
func (d *decider) reached() int {
	at := 0
	for i := range d.X.Runs {
		if r := &d.X.Runs[i]; r.Forward() {
			at = max(at, r.Step)
		}
	}
	return at
}

// again makes the execution that of a new try. What earlier tries have done from
// the step on is done again, apart from what a retry of failures keeps: the
// entities with which a step came to OK.
func (d *decider) again(from int, onlyFailed bool, to sm.ExecutionState) {
	x := d.X
	nodes := d.F.Resolved.Program.Nodes
	for i := range x.Runs {
		r := &x.Runs[i]
		if !r.Forward() || r.Step < from || r.Superseded > 0 {
			continue
		}
		if n := &nodes[r.Step]; onlyFailed && r.HasJobs() && n.RunOn != "" && n.RunOn != workflow.RunOnGlobal {
			continue
		}
		r.Superseded = x.Try + 1
	}
	if x.Past == nil {
		x.Past = map[int]workflow.Scope{}
	}
	x.Past[x.Try] = x.Scope
	x.Try++
	x.At, x.Round, x.OnlyFailed = from, 0, onlyFailed
	x.EndedAt, x.Cause, x.Reason, x.Error, x.RolledBack, x.Cancellation = time.Time{}, "", "", nil, false, nil
	x.Applied, x.Wait, x.BlockedBy, x.Dropped, x.DroppedCount = false, nil, nil, nil, 0
	if x.Deadline = (time.Time{}); d.Config().Timeout > 0 {
		x.Deadline = d.Now.Add(d.Config().Timeout.Std())
	}
	if to == sm.ExecutionReady {
		x.StartedAt, x.LockSince, x.Unlocked = time.Time{}, time.Time{}, false
		d.pin()
	}
	x.Runs = slices.Clone(x.Runs)
}
