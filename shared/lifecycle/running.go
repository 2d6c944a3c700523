package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newRun cuts a plan into packs. Cutting depends on nothing but the plan, the
// block and the policy that stand in the run, so that it can be repeated.
func (d *decider) newRun(at int, kind workflow.JobKind, plan *Plan, r workflow.StepRun) workflow.StepRun {
	n := &d.f.Resolved.Program.Nodes[at]
	r.Step, r.Label, r.Try, r.Kind = at, n.Label, d.x.Try, kind
	r.Visit, r.Status, r.EnteredAt, r.EpochTime = 1, sm.StepRunning, d.now, d.now
	for i := range d.x.Runs {
		if old := &d.x.Runs[i]; old.Step == at && old.Forward() {
			r.Visit++
		}
	}
	r.Jobs, r.Skipped = plan.Jobs, plan.Skipped
	if n.FunctionBlock != "" {
		b := d.f.Resolved.Blocks[n.FunctionBlock]
		r.Block, r.Pool = b.Ref().String(), b.Pool
		r.Pure, r.Idempotent, r.Reversible, r.UndoHarmless = b.Pure, b.Idempotent, b.Reversible, b.UndoHarmless
	}
	if kind != "" {
		d.cut(&r, n.Retry)
	}
	return r
}

// cut says how many jobs go into a pack, how often they are tried, and how many
// packs are outstanding at a time.
func (d *decider) cut(r *workflow.StepRun, retry *workflow.Retry) {
	r.PackSize, r.MaxAttempts = 1, 1
	if retry != nil {
		r.MaxAttempts = 1 + retry.MaxRetries
	}
	limit := d.config().MaxInFlight
	if r.Repeatable() && r.Jobs >= d.p.PackFrom {
		r.PackSize = max(1, d.p.PackSize)
		if limit > 0 {
			r.PackSize = min(r.PackSize, limit)
		}
	}
	if lanes := max(1, limit/r.PackSize); limit > 0 && lanes < r.Lanes() {
		r.Window = lanes
	}
}

func (d *decider) config() workflow.Config {
	if d.f.Resolved == nil || d.f.Resolved.Program == nil {
		return workflow.Config{}
	}
	return d.f.Resolved.Program.Config
}

// append adds a step run.
func (d *decider) append(r workflow.StepRun) {
	d.x.RunSeq = r.RunSeq
	d.x.Runs = append(d.x.Runs, r)
	data := map[string]any{"jobs": r.Jobs}
	if r.Kind == workflow.JobRollback {
		data["kind"], data["wave"] = r.Kind, r.Wave
	}
	if r.Kind == workflow.JobAcquire {
		data["kind"] = r.Kind
	}
	if r.Repeat > 0 {
		data["repeat"] = r.Repeat
	}
	if r.Child != nil {
		data["child"] = r.Child.ID
	}
	d.record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepEntered), Step: r.Label,
		From: string(sm.StepPending), To: string(sm.StepRunning),
	}, data)
}

// exit ends a step run. It is local: it closes nothing above.
func (d *decider) exit(r *workflow.StepRun, status sm.StepState) {
	r.Status, r.EndedAt = status, d.now
	data := map[string]any{}
	for name, n := range map[string]int{
		"ok": r.Tally.OK, "failed": r.Tally.Failed, "unknown": r.Tally.Unknown,
		"notExecuted": r.Tally.NotExecuted, "skipped": r.Skipped,
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
	if f := d.f.Reports[r.RunSeq]; f != nil {
		return f
	}
	d.need(Need{Kind: kind, RunSeq: r.RunSeq})
	return nil
}

// follow waits for the open visits, and ends each: with success, or with failure
// as soon as more jobs have failed than the definition tolerates.
func (d *decider) follow(open []*workflow.StepRun) {
	look := d.now.Add(d.p.Poll)
	for _, r := range open {
		kind := NeedReport
		if r.Closing {
			kind = NeedClosing
		}
		f := d.report(r, kind)
		if f == nil {
			return
		}
		ended, at := d.judge(r, f)
		if d.err != nil || d.x.State != sm.ExecutionRunning || d.stop {
			return
		}
		if !ended {
			look = earlier(look, at)
		}
	}
	if len(d.open()) > 0 {
		d.wait(look)
	}
}

// judge looks at one open visit. It says whether the visit has ended, and if not
// when to look again.
func (d *decider) judge(r *workflow.StepRun, f *Report) (ended bool, look time.Time) {
	n := &d.f.Resolved.Program.Nodes[r.Step]
	failed := f.Tally.Failed + f.Tally.Unknown
	intolerable := !d.config().FailureTolerance.Allows(failed, r.Jobs)
	handled := d.f.Resolved.Program.Handler(r.Step) >= 0
	var timeout time.Time
	if n.StepTimeout > 0 && !r.Closing {
		timeout = r.EnteredAt.Add(n.StepTimeout.Std())
	}
	switch {
	case f.Complete && r.Closing && r.Failure != nil:
		d.finish(r, f)
		d.failVisit(r, workflow.CauseTimeout, r.Failure)
	case f.Complete && r.Closing:
		d.finish(r, f) // another visit of its stretch has failed
		d.exit(r, sm.StepCancelled)
		d.leaveFailed(d.f.Resolved.Program.Handler(r.Step))
	case f.Complete && f.Problem != nil:
		d.finish(r, f)
		d.failVisit(r, f.Cause, f.Problem)
	case f.Problem != nil:
		d.failRun(r, f.Cause, f.Problem, 0)
	case f.Complete && !intolerable && f.Tally.NotExecuted == 0:
		d.finish(r, f)
		d.exit(r, sm.StepCompleted)
		if last := d.stretchLast(r); r.RunSeq == last {
			d.visited(r)
		}
	case f.Complete:
		d.finish(r, f)
		cause, why := failureOf(r, f.Tally)
		d.failVisit(r, cause, why)
	case intolerable && !handled:
		cause, why := failureOf(r, f.Tally)
		d.failRun(r, cause, why, failed)
	case f.Silent:
		d.failRun(r, workflow.CauseUnclaimed, &workflow.Failure{
			Code: "UNCLAIMED", Step: r.Label,
			Message: fmt.Sprintf("no worker of pool %q has claimed the jobs of step %q", r.Pool, r.Label),
		}, 0)
	case !timeout.IsZero() && !d.now.Before(timeout):
		why := &workflow.Failure{Code: "TIMEOUT", Step: r.Label, Message: fmt.Sprintf("step %q has not ended within %s", r.Label, n.StepTimeout.Std())}
		if !handled {
			d.failRun(r, workflow.CauseTimeout, why, failed)
			return true, look
		}
		r.Failure = why
		d.stopRun(r)
	default:
		look = d.nextLook(r, f)
		if !timeout.IsZero() {
			look = earlier(look, timeout)
		}
		return false, look
	}
	return true, look
}

// stretchLast is the RunSeq of the last run of the stretch that r belongs to, and
// that of r outside one. A lane is over in a run before it is in the next, so the
// last run of a stretch is the last to end.
func (d *decider) stretchLast(r *workflow.StepRun) int {
	last := r.RunSeq
	for i := range d.x.Runs {
		if o := &d.x.Runs[i]; r.Stretch != 0 && o.Stretch == r.Stretch && o.Kind == r.Kind {
			last = max(last, o.RunSeq)
		}
	}
	return last
}

// nextLook is when to look at an open run again. When the alarm has rung and the
// messages of the run grow old, a new epoch time lets them be sent again.
func (d *decider) nextLook(r *workflow.StepRun, f *Report) time.Time {
	if d.rang && d.now.Sub(r.EpochTime) > d.p.MessageLife-2*d.p.Poll {
		r.EpochTime = d.now
		d.changed = true
	}
	at := d.now.Add(d.p.Poll)
	if !f.NextLook.IsZero() {
		at = earlier(at, f.NextLook)
		if floor := d.now.Add(time.Second / 4); at.Before(floor) {
			at = floor
		}
	}
	return at
}

// stopRun forbids a run to start anything more and commits that before any pack
// is touched: the state comes first, then the packs are closed.
func (d *decider) stopRun(r *workflow.StepRun) {
	r.Closing = true
	d.changed = true
	d.pause()
}

// stopAll does so with everything that is open.
func (d *decider) stopAll() {
	for _, r := range d.open() {
		d.stopRun(r)
	}
}

// finish writes down what came of a run whose every lane is over.
func (d *decider) finish(r *workflow.StepRun, f *Report) {
	r.Tally, r.Updates = f.Tally, f.Updates
	r.Skipped += f.Skipped
	d.x.Cost.Add(f.Cost)
}

// failRun fails the whole run while jobs are outstanding: nothing of it may
// start any more.
func (d *decider) failRun(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure, failed int) {
	data := map[string]any{"step": r.Label}
	if failed > 0 {
		data["failed"] = failed
	}
	d.fail(cause, why)
	d.move(sm.EventExecutionFailed, sm.ExecutionError, "", data)
	d.stopAll()
}

// failVisit ends a visit as failed. Where the step, or one around it, goes on
// after errors, the run does; otherwise it fails.
func (d *decider) failVisit(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) {
	p := d.f.Resolved.Program
	handler := p.Handler(r.Step)
	if r.Failure == nil && r.Tally.Failure == nil {
		r.Failure = why
	}
	d.exit(r, sm.StepFailed)
	if handler < 0 || forbidden(why) {
		data := map[string]any{"step": r.Label}
		if n := r.Tally.Failed + r.Tally.Unknown; n > 0 {
			data["failed"] = n
		}
		d.fail(cause, why)
		d.move(sm.EventExecutionFailed, sm.ExecutionError, "", data)
		d.stopAll()
		return
	}
	if handler == r.Step {
		if r.RunSeq == d.stretchLast(r) {
			d.advance(p.Nodes[handler].End)
		}
		return
	}
	if len(d.open()) > 0 {
		d.stopAll() // the rest of its stretch ends first
		return
	}
	d.leaveFailed(handler)
}

// leaveFailed goes on behind a step that tolerates the failure of what is nested
// in it.
func (d *decider) leaveFailed(handler int) {
	if len(d.open()) > 0 {
		return
	}
	for c := d.container(); c != nil && c.Step >= handler; c = d.container() {
		d.workflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, c.Label)
		d.exit(c, sm.StepFailed)
	}
	d.advance(d.f.Resolved.Program.Nodes[handler].End)
}

// CodeNotHeld is the code of a failure because of an entity that the run does not
// hold. Nothing goes on after it, and nothing is written.
const CodeNotHeld = "ENTITY_NOT_HELD"

func forbidden(why *workflow.Failure) bool { return why != nil && why.Code == CodeNotHeld }

// failureOf explains a tally in one failure, naming step and entity.
func failureOf(r *workflow.StepRun, t workflow.Tally) (workflow.Cause, *workflow.Failure) {
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
