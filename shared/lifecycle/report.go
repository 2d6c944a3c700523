package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// report returns the report on the packs of an open step run, or nil after asking for
// it.
func (d *decider) report(r *workflow.StepRun, kind NeedKind) *Report {
	need := Need{Kind: kind, StepRunSeq: r.Seq}
	if f := d.facts.Reports[need]; f != nil {
		return f
	}
	d.need(need)
	return nil
}

// followStepRuns waits for the open step runs and ends each: with success, or with failure as soon
// as more jobs have failed than the definition tolerates.
func (d *decider) followStepRuns(open []*workflow.StepRun) {
	checkAt := d.now.Add(d.policy.PollInterval)
	if !d.closePipelines(open) {
		return
	}
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
		if d.err != nil || d.decision.Need != nil || d.execution.State != sm.ExecutionRunning || d.stopped {
			return
		}
		if !ended {
			checkAt = earlier(checkAt, at)
		}
	}
	if len(d.openStepRuns()) == 0 {
		return
	}
	if waiting := d.waitingStepRuns(); len(waiting) > 0 {
		at, goesOn := d.followEach(waiting)
		if goesOn {
			return
		}
		checkAt = earlier(checkAt, at)
	}
	d.waitUntil(checkAt)
}

// evaluateStepRun evaluates one open step run. It reports whether the step run has
// ended and, if not, when to check it again.
func (d *decider) evaluateStepRun(r *workflow.StepRun, f *Report) (ended bool, checkAt time.Time) {
	n := &d.facts.Resolution.Program.Nodes[r.StepIndex]
	failed := f.Counts.Failed + f.Counts.Unknown + f.Unmet
	doubt := d.leavesDoubt(r, f)
	r.InDoubt = doubt && f.Complete
	intolerable := failed > 0 && (doubt || !d.tolerates(r, n, failed+r.Unmet, r.Jobs+r.Unmet))
	handled := d.facts.Resolution.Program.FailureHandler(r.StepIndex) >= 0 || d.thread != nil
	switch {
	case f.Complete && r.Closing && r.Failure != nil:
		d.recordResult(r, f)
		if n.OnTimeout != nil && r.Wait != nil && r.Wait.Lapsed && failed == 0 {
			d.endWaitAt(r, r.Failure, n.OnTimeout)
			break
		}
		cause := workflow.CauseTimeout
		if r.Failure.Code != workflow.FailureTimeout {
			cause = causeOf(r.Failure.Code)
		}
		d.failStepRun(r, cause, r.Failure)
	case f.Complete && r.Closing && d.thread != nil && d.execution.StepRunBySeq(d.thread.In).Closing:
		d.recordResult(r, f) // its branch is closed
		status := sm.StepCancelled
		if d.endedWell(r) && f.Wait == nil { // a block that asks to wait has not returned the result of its step
			status = sm.StepCompleted
		}
		d.exitStepRun(r, status)
	case f.Complete && r.Closing:
		d.recordResult(r, f) // another step run of its pipeline has failed
		d.exitStepRun(r, sm.StepCancelled)
		if first := d.failedInPipeline(r.Pipeline); first != nil && len(d.openStepRuns()) == 0 {
			why := cmp.Or(first.Failure, first.Counts.Failure)
			if why == nil {
				_, why = FailureOf(first, first.Counts)
			}
			d.handleOrFail(first, causeOf(why.Code), why)
		}
	case f.Complete && f.Problem != nil:
		d.recordResult(r, f)
		d.failStepRun(r, f.Cause, f.Problem)
	case f.Problem != nil && handled && !r.Closing && !isEntityNotHeld(f.Problem):
		r.Failure = f.Problem // once its jobs are final, it fails
		d.stopStepRun(r)
	case f.Problem != nil:
		d.failExecution(r, f.Cause, f.Problem, 0)
	case f.Complete && !intolerable && f.Counts.NotExecuted == 0 && r.Waiting():
		d.recordResult(r, f)
		r.JobsOver, d.changed = true, true
	case f.Complete && !intolerable && f.Counts.NotExecuted == 0 && f.Wait != nil:
		d.recordResult(r, f)
		d.askedWait(r, f)
	case f.Complete && !intolerable && f.Counts.NotExecuted == 0:
		d.recordResult(r, f)
		d.exitStepRun(r, sm.StepCompleted)
		switch {
		case f.Goto != nil:
			r.Next = f.Next
			d.jump(r.StepIndex, f.Goto)
		case f.Breaks && d.breakOut(r):
		case r.Seq == d.lastInPipeline(r):
			d.continueAfter(r)
		}
	case f.Complete:
		d.recordResult(r, f)
		if f.Counts.Failed+f.Counts.Unknown == 0 && f.UnmetFailure != nil {
			d.failStepRun(r, workflow.CauseAssertion, f.UnmetFailure)
			break
		}
		cause, why := failureOfReport(r, f, doubt)
		d.failStepRun(r, cause, why)
	case intolerable && (!handled || !r.Closing && d.endsWave(r, doubt)):
		if f.Brief {
			if f = d.report(r, NeedFailure); f == nil {
				return false, checkAt
			}
		}
		cause, why := failureOfReport(r, f, doubt)
		if handled {
			d.endWaveEarly(r, why)
			break
		}
		d.failExecution(r, cause, why, failed)
	case f.Unclaimed:
		why := &workflow.Failure{
			Code: workflow.FailureUnclaimed, Step: r.Label,
			Message: fmt.Sprintf("no worker of pool %q has claimed the jobs of step %q", r.Pool, r.Label) + regionHint(r.Pool),
		}
		if !r.Closing && d.endsWave(r, doubt) {
			d.endWaveEarly(r, why)
			break
		}
		d.failExecution(r, workflow.CauseUnclaimed, why, 0)
	case d.stepTimedOut(r):
		why := stepTimeoutFailure(r, n.StepTimeout)
		if !handled {
			d.failExecution(r, workflow.CauseTimeout, why, failed)
			return true, checkAt
		}
		r.Failure = why
		d.stopStepRun(r)
	default:
		return false, d.nextCheckAt(r, f)
	}
	return true, checkAt
}

// leavesDoubt reports whether it is unknown what a job has done, in a way that cannot be tolerated.
// Work on entities is judged at the end, for each entity. But no wave continues with a doubt, not
// even one that an undo would settle.
func (d *decider) leavesDoubt(r *workflow.StepRun, f *Report) bool {
	inWave := d.inWave(r)
	switch {
	case inWave && f.Counts.Unknown > 0 && !r.Pure:
		return true
	case d.node(r).OnEntities() && !inWave || !canBeInDoubt(r):
		return false
	}
	return f.Counts.Unknown > 0 || f.Doubt != nil
}

// canBeInDoubt reports whether a job of the step run with an unknown end leaves a doubt that only
// an undo or a person can settle.
func canBeInDoubt(r *workflow.StepRun) bool { return !r.Pure && !(r.Idempotent && r.Reversible) }

// failureOfReport returns why a step run fails. A doubt takes precedence over failures, which may
// be tolerated.
func failureOfReport(r *workflow.StepRun, f *Report, doubt bool) (workflow.Cause, *workflow.Failure) {
	if !doubt || f.Doubt == nil {
		return FailureOf(r, f.Counts)
	}
	why := *f.Doubt
	why.Step = r.Label
	return causeOf(why.Code), &why
}

// tolerates reports whether the given number of entities may fail in the step run.
//
// If the step has its own tolerance, or the definition continues after its failure, only this step
// run counts. Otherwise entities that have failed in other steps of the definition count too, and
// the tolerance refers to all entities of the execution. In a rollout it refers to the entities of
// the wave and to those that failed in it. A failed entity takes no part in later steps, so only an
// entity that fails in several branches counts more than once.
func (d *decider) tolerates(r *workflow.StepRun, n *spec.Node, failed, entities int) bool {
	tolerance, total := d.facts.Resolution.Program.DefinitionTolerance(n), d.execution.Scope.Total()
	ofWave, inWave := d.waveTolerance(r)
	if ofWave != nil {
		tolerance, total = *ofWave, inWave
	}
	switch {
	case n.Foreach != nil:
		return n.Foreach.FailureTolerance.Allows(failed, entities)
	case !n.OnEntities():
		return failed == 0 // the tolerance refers to entities
	case n.FailureTolerance != nil:
		return n.FailureTolerance.Allows(failed, entities)
	case d.facts.Resolution.Program.ContinuesOnError(r.StepIndex):
		return tolerance.Allows(failed, entities)
	}
	for _, o := range d.path() { // a try repeats what comes after its beginning, so failures there do not count yet
		if o.Seq == r.Seq || !d.countsAsFailed(o) {
			continue
		}
		other, _ := d.waveTolerance(o)
		if other == ofWave && (ofWave == nil && d.node(o).DefinitionTolerance == n.DefinitionTolerance || ofWave != nil && d.sameWave(o, r)) {
			failed += d.failedIn(o)
		}
	}
	return tolerance.Allows(failed, total)
}

// countsAsFailed reports whether the entities that failed in a step run on the path are still
// excluded from the execution.
func (d *decider) countsAsFailed(r *workflow.StepRun) bool {
	n := d.node(r)
	if r.Kind != workflow.JobExecute || r.SupersededBy > 0 || !n.OnEntities() || n.FailureTolerance != nil || r.Handled > 0 || d.facts.Resolution.Program.ContinuesOnError(r.StepIndex) {
		return false
	}
	return r.Try == d.execution.Try || r.Status == sm.StepCompleted
}

// failedIn returns how many entities have failed in a step run, as far as known.
func (d *decider) failedIn(r *workflow.StepRun) int {
	counts := r.Counts
	for _, kind := range []NeedKind{NeedReport, NeedClose} {
		if f := d.facts.Reports[Need{Kind: kind, StepRunSeq: r.Seq}]; f != nil && r.Open() {
			counts = f.Counts
		}
	}
	return counts.Failed + counts.Unknown + r.Unmet
}

// lastInPipeline returns the number of the last step run of r's pipeline; outside a pipeline, that
// of r. A lane is over in one step run before it is over in the next, so the last step run of a
// pipeline ends last.
func (d *decider) lastInPipeline(r *workflow.StepRun) int {
	last := r.Seq
	for i := range d.execution.StepRuns {
		if o := &d.execution.StepRuns[i]; r.Pipeline != 0 && o.Pipeline == r.Pipeline && o.Kind == r.Kind {
			last = max(last, o.Seq)
		}
	}
	return last
}

// NextCheckDelay is the delay until the next check of a step run that is due at once.
const NextCheckDelay = time.Second / 4

// nextCheckAt returns when to check an open step run again. When the timer fires and the messages
// of the step run are about to expire, it also renews DispatchedAt, so that they can be sent again.
func (d *decider) nextCheckAt(r *workflow.StepRun, f *Report) time.Time {
	if f.Offered {
		r.OfferedAt = d.now
		d.changed = true
	}
	if f.PassedOver && !r.PassedOver() {
		r.PassedOverAt = d.now
		d.changed = true
	}
	if f.Behind && r.PassedOver() {
		r.PassedOverAt = time.Time{}
		d.changed = true
	}
	if d.timerFired && d.now.Sub(r.DispatchedAt) > d.policy.MessageLifetime-2*d.policy.PollInterval {
		r.DispatchedAt = d.now
		d.changed = true
	}
	at := d.now.Add(d.policy.PollInterval)
	if !f.NextCheckAt.IsZero() {
		at = earlier(at, f.NextCheckAt)
		if earliest := d.now.Add(NextCheckDelay); at.Before(earliest) {
			at = earliest
		}
	}
	return at
}

// recordResult stores, once, the result of a step run all of whose lanes are over.
func (d *decider) recordResult(r *workflow.StepRun, f *Report) {
	if r.JobsOver {
		return
	}
	r.Counts, r.HasUpdates = f.Counts, f.HasUpdates
	r.Broke = f.Breaks && r.Kind == workflow.JobExecute && d.node(r).OnEntities() && d.facts.Resolution.Program.RepeatAround(r.StepIndex) >= 0
	if r.Broke {
		r.Left = f.Left
	}
	r.Skipped, r.Unmet = r.Skipped+f.Skipped, r.Unmet+f.Unmet
	d.execution.Cost.Add(f.Cost)
}

// failExecution fails the execution because of a step run and stops every open step
// run.
func (d *decider) failExecution(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure, failed int) {
	data := map[string]any{"step": r.Label}
	if failed > 0 {
		data["failed"] = failed
	}
	d.setFailure(cause, why)
	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", data)
	d.thread = nil
	d.stopAll()
}

// failStepRun ends a step run as failed. If the step, or a surrounding one, has continueOnError,
// the execution continues; otherwise it fails.
func (d *decider) failStepRun(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) {
	p := d.facts.Resolution.Program
	handler := p.FailureHandler(r.StepIndex)
	if r.Failure == nil && r.Counts.Failure == nil {
		r.Failure = why
	}
	if (handler >= 0 || d.thread != nil) && handler != r.StepIndex && len(d.openStepRuns()) > 1 && !isEntityNotHeld(why) {
		d.exitStepRun(r, sm.StepFailed)
		d.stopAll() // the other step runs of its pipeline end first
		return
	}
	d.handleOrFail(r, cause, why)
}

// handleOrFail continues after a failed step run as the definition says, and fails the execution if
// it says nothing.
func (d *decider) handleOrFail(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) {
	if !isEntityNotHeld(why) {
		if handled, missing := d.handleFailure(r, cause, why); handled || missing {
			return
		}
	}
	if r.Open() {
		d.exitStepRun(r, sm.StepFailed)
	}
	d.failExecution(r, cause, why, r.Counts.Failed+r.Counts.Unknown)
}

// isEntityNotHeld reports whether the failure is about an entity that the execution
// does not hold.
func isEntityNotHeld(why *workflow.Failure) bool {
	return why != nil && why.Code == workflow.FailureEntityNotHeld
}

func stepTimeoutFailure(r *workflow.StepRun, timeout workflow.Duration) *workflow.Failure {
	return &workflow.Failure{Code: workflow.FailureTimeout, Step: r.Label, Message: fmt.Sprintf("step %q has not ended within %s", r.Label, timeout.Std())}
}

// FailureOf summarises counts in one failure that names the step and an entity.
func FailureOf(r *workflow.StepRun, t workflow.Counts) (workflow.Cause, *workflow.Failure) {
	if t.Failure == nil {
		return workflow.CauseWorkerCrash, &workflow.Failure{
			Code: workflow.FailureWorkerCrash, Step: r.Label, Entity: t.UnknownEntity,
			Message: fmt.Sprintf("a worker of step %q crashed; whether the block was executed is unknown", r.Label),
		}
	}
	why := *t.Failure
	why.Step = r.Label
	return causeOf(why.Code), &why
}

// causeOf returns the cause that corresponds to the failure code of a job.
func causeOf(code string) workflow.Cause {
	switch code {
	case workflow.FailureTimeout, workflow.FailureHTTPTimeout:
		return workflow.CauseJobTimeout
	case workflow.FailureWorkerCrash:
		return workflow.CauseWorkerCrash
	case workflow.FailureAssertion:
		return workflow.CauseAssertion
	case workflow.FailureLimit:
		return workflow.CauseLimit
	}
	return workflow.CauseStepFailed
}
