package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// resolve moves NEW to VALID and pins the versions of the blocks, or rejects the
// execution because of an unknown block or invalid parameters.
func (d *decider) resolve() {
	r := d.facts.Resolution
	if r == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if problem := r.Invalid(); problem != nil {
		d.setFailure(workflow.CauseValidation, problem)
		d.failBeforeRunning(sm.EventExecutionRejected, map[string]any{"reason": problem.Message})
		return
	}
	d.pin()
	d.transition(sm.EventExecutionValidated, sm.ExecutionValid, "", nil)
}

// pin stores the versions and the region that the execution uses until it ends, and its deadline.
func (d *decider) pin() {
	r := d.facts.Resolution
	d.execution.Blocks = make(map[string]string, len(r.Blocks))
	for ref, b := range r.Blocks {
		d.execution.Blocks[ref] = b.Version
	}
	d.execution.Workflows, d.execution.Region = maps.Clone(r.Workflows), d.config().Region
	d.execution.Piped = r.Program != nil && r.Program.HasPipes()
	d.execution.Limits = d.config().Limits
	d.setDeadline()
}

// setDeadline sets the deadline of a try that begins now: its timeout, or the end of the time that
// the execution may take with all its tries.
func (d *decider) setDeadline() {
	x := d.execution
	x.Deadline = wallEnd(x)
	if t := d.config().Timeout.Std(); t > 0 && (x.Deadline.IsZero() || d.now.Add(t).Before(x.Deadline)) {
		x.Deadline = d.now.Add(t)
	}
}

// wallEnd returns when the time is over that an execution may take with all its tries; zero if that
// is not limited.
func wallEnd(x *workflow.Execution) (at time.Time) {
	if wall := x.Limits.Wall.Std(); wall > 0 {
		at = x.CreatedAt.Add(wall)
	}
	return at
}

// Invalid returns why the execution must not be started or retried with this resolution; nil if it
// may.
func (r *Resolution) Invalid() *workflow.Failure {
	return cmp.Or(r.Problem, sharedLockProblem(r), branchProblem(r), rolloutProblem(r))
}

// sharedLockProblem returns why an execution must not share its locks: only executions that change
// nothing may. It returns nil for an execution that locks exclusively.
func sharedLockProblem(r *Resolution) *workflow.Failure {
	if r.Program == nil || r.Program.Config.LockMode != workflow.LockShared {
		return nil
	}
	for _, ref := range slices.Sorted(maps.Keys(r.Blocks)) {
		if !r.Blocks[ref].Pure {
			return &workflow.Failure{Code: workflow.CodeInvalid.OfFailure(),
				Message: fmt.Sprintf("only executions whose blocks are all pure may share locks, and %s is not pure", ref)}
		}
	}
	return nil
}
