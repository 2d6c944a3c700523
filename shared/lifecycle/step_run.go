package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newStepRun cuts a plan into packs. Cutting depends on nothing but the plan, the
// block and the policy that stand in the run, so that it can be repeated.
func (d *decider) newStepRun(at int, kind workflow.JobKind, plan *Plan, r workflow.StepRun) workflow.StepRun {
	n := &d.facts.Resolution.Program.Nodes[at]
	r.StepIndex, r.Label, r.Try, r.Kind = at, n.Label, d.execution.Try, kind
	r.Ordinal, r.Status, r.EnteredAt, r.DispatchedAt = 1, sm.StepRunning, d.now, d.now
	for i := range d.execution.StepRuns {
		if old := &d.execution.StepRuns[i]; old.StepIndex == at && old.Forward() {
			r.Ordinal++
		}
	}
	r.Jobs, r.Skipped = plan.Jobs, plan.Skipped
	if n.FunctionBlock != "" {
		b := d.facts.Resolution.Blocks[n.FunctionBlock]
		r.Block, r.Pool = b.Ref().String(), b.Pool
		r.Pure, r.Idempotent, r.Reversible, r.UndoHarmless = b.Pure, b.Idempotent, b.Reversible, b.UndoHarmless
	}
	if kind != "" {
		d.cutPacks(&r, n.Retry)
	}
	return r
}

// cutPacks says how many jobs go into a pack, how often they are tried, and how many
// packs are outstanding at a time.
func (d *decider) cutPacks(r *workflow.StepRun, retry *workflow.Retry) {
	r.PackSize, r.MaxAttempts = 1, 1
	if retry != nil {
		r.MaxAttempts = 1 + retry.MaxRetries
	}
	limit := d.config().MaxInFlight
	if r.Repeatable() && r.Jobs >= d.policy.MinPackedJobs {
		r.PackSize = max(1, d.policy.PackSize)
		if limit > 0 {
			r.PackSize = min(r.PackSize, limit)
		}
	}
	if lanes := max(1, limit/r.PackSize); limit > 0 && lanes < r.Lanes() {
		r.Window = lanes
	}
}

// appendStepRun adds a step run.
func (d *decider) appendStepRun(r workflow.StepRun) {
	d.execution.StepRunSeq = r.Seq
	d.execution.StepRuns = append(d.execution.StepRuns, r)
	data := map[string]any{"jobs": r.Jobs}
	if r.Kind == workflow.JobRollback {
		data["kind"], data["wave"] = r.Kind, r.Wave
	}
	if r.Kind == workflow.JobAcquire {
		data["kind"] = r.Kind
	}
	if r.Iteration > 0 {
		data["repeat"] = r.Iteration
	}
	if r.Child != nil {
		data["child"] = r.Child.ID
	}
	d.record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepEntered), Step: r.Label,
		From: string(sm.StepPending), To: string(sm.StepRunning),
	}, data)
}

// exitStepRun ends a step run. It is local: it closes nothing above.
func (d *decider) exitStepRun(r *workflow.StepRun, status sm.StepState) {
	r.Status, r.EndedAt = status, d.now
	data := map[string]any{}
	for name, n := range map[string]int{
		"ok": r.Counts.OK, "failed": r.Counts.Failed, "unknown": r.Counts.Unknown,
		"notExecuted": r.Counts.NotExecuted, "skipped": r.Skipped,
	} {
		if n > 0 {
			data[name] = n
		}
	}
	d.record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepExited), Step: r.Label,
		From: string(sm.StepRunning), To: string(status),
	}, data)
}

// report is what the packs of an open run say, or nil after asking for it.
func (d *decider) report(r *workflow.StepRun, kind NeedKind) *Report {
	need := Need{Kind: kind, StepRunSeq: r.Seq}
	if f := d.facts.Reports[need]; f != nil {
		return f
	}
	d.need(need)
	return nil
}

// followStepRuns waits for the open visits, and ends each: with success, or with failure
// as soon as more jobs have failed than the definition tolerates.
func (d *decider) followStepRuns(open []*workflow.StepRun) {
	checkAt := d.now.Add(d.policy.PollInterval)
	for _, r := range open {
		kind := NeedReport
		if r.Closing {
			kind = NeedClose
		}
		f := d.report(r, kind)
		if f == nil {
			return
		}
		ended, at := d.evaluateStepRun(r, f)
		if d.err != nil || d.execution.State != sm.ExecutionRunning || d.stopped {
			return
		}
		if !ended {
			checkAt = earlier(checkAt, at)
		}
	}
	if len(d.openStepRuns()) > 0 {
		d.waitUntil(checkAt)
	}
}

// evaluateStepRun looks at one open visit. It says whether the visit has ended, and if not
// when to look again.
func (d *decider) evaluateStepRun(r *workflow.StepRun, f *Report) (ended bool, checkAt time.Time) {
	n := &d.facts.Resolution.Program.Nodes[r.StepIndex]
	failed := f.Counts.Failed + f.Counts.Unknown
	intolerable := !d.config().FailureTolerance.Allows(failed, r.Jobs) || n.RunOn == workflow.RunOnGlobal && failed > 0 // it is about no entity
	handled := d.facts.Resolution.Program.FailureHandler(r.StepIndex) >= 0
	var timeout time.Time
	if n.StepTimeout > 0 && !r.Closing {
		timeout = r.EnteredAt.Add(n.StepTimeout.Std())
	}
	switch {
	case f.Complete && r.Closing && r.Failure != nil:
		d.recordResult(r, f)
		d.failStepRun(r, workflow.CauseTimeout, r.Failure)
	case f.Complete && r.Closing:
		d.recordResult(r, f) // another visit of its stretch has failed
		d.exitStepRun(r, sm.StepCancelled)
		d.leaveFailedContainers(d.facts.Resolution.Program.FailureHandler(r.StepIndex))
	case f.Complete && f.Problem != nil:
		d.recordResult(r, f)
		d.failStepRun(r, f.Cause, f.Problem)
	case f.Problem != nil:
		d.failExecution(r, f.Cause, f.Problem, 0)
	case f.Complete && !intolerable && f.Counts.NotExecuted == 0:
		d.recordResult(r, f)
		d.exitStepRun(r, sm.StepCompleted)
		if last := d.lastInPipeline(r); r.Seq == last {
			d.continueAfter(r)
		}
	case f.Complete:
		d.recordResult(r, f)
		cause, why := failureOf(r, f.Counts)
		d.failStepRun(r, cause, why)
	case intolerable && !handled:
		cause, why := failureOf(r, f.Counts)
		d.failExecution(r, cause, why, failed)
	case f.Unclaimed:
		d.failExecution(r, workflow.CauseUnclaimed, &workflow.Failure{
			Code: "UNCLAIMED", Step: r.Label,
			Message: fmt.Sprintf("no worker of pool %q has claimed the jobs of step %q", r.Pool, r.Label),
		}, 0)
	case !timeout.IsZero() && !d.now.Before(timeout):
		why := &workflow.Failure{Code: "TIMEOUT", Step: r.Label, Message: fmt.Sprintf("step %q has not ended within %s", r.Label, n.StepTimeout.Std())}
		if !handled {
			d.failExecution(r, workflow.CauseTimeout, why, failed)
			return true, checkAt
		}
		r.Failure = why
		d.stopStepRun(r)
	default:
		checkAt = d.nextCheckAt(r, f)
		if !timeout.IsZero() {
			checkAt = earlier(checkAt, timeout)
		}
		return false, checkAt
	}
	return true, checkAt
}

// lastInPipeline is the RunSeq of the last run of the stretch that r belongs to, and
// that of r outside one. A lane is over in a run before it is in the next, so the
// last run of a stretch is the last to end.
func (d *decider) lastInPipeline(r *workflow.StepRun) int {
	last := r.Seq
	for i := range d.execution.StepRuns {
		if o := &d.execution.StepRuns[i]; r.Pipeline != 0 && o.Pipeline == r.Pipeline && o.Kind == r.Kind {
			last = max(last, o.Seq)
		}
	}
	return last
}

// nextCheckAt is when to look at an open run again. When the alarm has rung and the
// messages of the run grow old, a new epoch time lets them be sent again.
func (d *decider) nextCheckAt(r *workflow.StepRun, f *Report) time.Time {
	if d.timerFired && d.now.Sub(r.DispatchedAt) > d.policy.MessageLifetime-2*d.policy.PollInterval {
		r.DispatchedAt = d.now
		d.changed = true
	}
	at := d.now.Add(d.policy.PollInterval)
	if !f.NextCheckAt.IsZero() {
		at = earlier(at, f.NextCheckAt)
		if earliest := d.now.Add(time.Second / 4); at.Before(earliest) {
			at = earliest
		}
	}
	return at
}

// stopStepRun forbids a run to start anything more and commits that before any pack
// is touched: the state comes first, then the packs are closed.
func (d *decider) stopStepRun(r *workflow.StepRun) {
	r.Closing = true
	d.changed = true
	d.commitFirst()
}

// stopAll does so with everything that is open.
func (d *decider) stopAll() {
	for _, r := range d.openStepRuns() {
		d.stopStepRun(r)
	}
}

// recordResult writes down what came of a run whose every lane is over.
func (d *decider) recordResult(r *workflow.StepRun, f *Report) {
	r.Counts, r.HasUpdates = f.Counts, f.HasUpdates
	r.Skipped += f.Skipped
	d.execution.Cost.Add(f.Cost)
}

// failExecution fails the whole run while jobs are outstanding: nothing of it may
// start any more.
func (d *decider) failExecution(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure, failed int) {
	data := map[string]any{"step": r.Label}
	if failed > 0 {
		data["failed"] = failed
	}
	d.setFailure(cause, why)
	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", data)
	d.stopAll()
}

// failStepRun ends a visit as failed. Where the step, or one around it, goes on
// after errors, the run does; otherwise it fails.
func (d *decider) failStepRun(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) {
	p := d.facts.Resolution.Program
	handler := p.FailureHandler(r.StepIndex)
	if r.Failure == nil && r.Counts.Failure == nil {
		r.Failure = why
	}
	d.exitStepRun(r, sm.StepFailed)
	if handler < 0 || isEntityNotHeld(why) {
		data := map[string]any{"step": r.Label}
		if n := r.Counts.Failed + r.Counts.Unknown; n > 0 {
			data["failed"] = n
		}
		d.setFailure(cause, why)
		d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", data)
		d.stopAll()
		return
	}
	if handler == r.StepIndex {
		if r.Seq == d.lastInPipeline(r) {
			d.goToStep(p.Nodes[handler].End)
		}
		return
	}
	if len(d.openStepRuns()) > 0 {
		d.stopAll() // the rest of its stretch ends first
		return
	}
	d.leaveFailedContainers(handler)
}

// leaveFailedContainers goes on behind a step that tolerates the failure of what is nested
// in it.
func (d *decider) leaveFailedContainers(handler int) {
	if len(d.openStepRuns()) > 0 {
		return
	}
	for c := d.openContainer(); c != nil && c.StepIndex >= handler; c = d.openContainer() {
		d.recordWorkflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, c.Label)
		d.exitStepRun(c, sm.StepFailed)
	}
	d.goToStep(d.facts.Resolution.Program.Nodes[handler].End)
}

// CodeEntityNotHeld is the code of a failure because of an entity that the run does not
// hold. Nothing goes on after it, and nothing is written.
const CodeEntityNotHeld = "ENTITY_NOT_HELD"

// isEntityNotHeld reports whether a failure is because of an entity that is not held.
func isEntityNotHeld(why *workflow.Failure) bool { return why != nil && why.Code == CodeEntityNotHeld }

// failureOf explains a tally in one failure, naming step and entity.
func failureOf(r *workflow.StepRun, t workflow.Counts) (workflow.Cause, *workflow.Failure) {
	if t.Failure == nil {
		return workflow.CauseWorkerCrash, &workflow.Failure{
			Code: "WORKER_CRASH", Step: r.Label, Entity: t.UnknownEntity,
			Message: fmt.Sprintf("a worker of step %q died; whether the block ran is not known", r.Label),
		}
	}
	why := *t.Failure
	why.Step = r.Label
	switch why.Code {
	case "TIMEOUT", "HTTP_TIMEOUT":
		return workflow.CauseJobTimeout, &why
	case "WORKER_CRASH":
		return workflow.CauseWorkerCrash, &why
	case "LIMIT":
		return workflow.CauseLimit, &why
	}
	return workflow.CauseStepFailed, &why
}
