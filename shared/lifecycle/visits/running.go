package visits

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newRun cuts a plan into packs. Cutting depends on nothing but the plan, the
// block and the policy that stand in the run, so that it can be repeated.
func (d *Visits) newRun(at int, kind workflow.JobKind, plan *draft.Plan, r workflow.StepRun) workflow.StepRun {
	n := &d.F.Resolved.Program.Nodes[at]
	r.Step, r.Label, r.Try, r.Kind = at, n.Label, d.X.Try, kind
	r.Visit, r.Status, r.EnteredAt, r.EpochTime = 1, sm.StepRunning, d.Now, d.Now
	for i := range d.X.Runs {
		if old := &d.X.Runs[i]; old.Step == at && old.Forward() {
			r.Visit++
		}
	}
	r.Jobs, r.Skipped = plan.Jobs, plan.Skipped
	if n.FunctionBlock != "" {
		b := d.F.Resolved.Blocks[n.FunctionBlock]
		r.Block, r.Pool = b.Ref().String(), b.Pool
		r.Pure, r.Idempotent, r.Reversible, r.UndoHarmless = b.Pure, b.Idempotent, b.Reversible, b.UndoHarmless
	}
	if kind != "" {
		d.Cut(&r, n.Retry)
	}
	return r
}

// Cut says how many jobs go into a pack, how often they are tried, and how many
// packs are outstanding at a time.
func (d *Visits) Cut(r *workflow.StepRun, retry *workflow.Retry) {
	r.PackSize, r.MaxAttempts = 1, 1
	if retry != nil {
		r.MaxAttempts = 1 + retry.MaxRetries
	}
	limit := d.Config().MaxInFlight
	if r.Repeatable() && r.Jobs >= d.P.PackFrom {
		r.PackSize = max(1, d.P.PackSize)
		if limit > 0 {
			r.PackSize = min(r.PackSize, limit)
		}
	}
	if lanes := max(1, limit/r.PackSize); limit > 0 && lanes < r.Lanes() {
		r.Window = lanes
	}
}

// Append adds a step run.
func (d *Visits) Append(r workflow.StepRun) {
	d.X.RunSeq = r.RunSeq
	d.X.Runs = append(d.X.Runs, r)
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
	d.Record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepEntered), Step: r.Label,
		From: string(sm.StepPending), To: string(sm.StepRunning),
	}, data)
}

// Exit ends a step run. It is local: it closes nothing above.
func (d *Visits) Exit(r *workflow.StepRun, status sm.StepState) {
	r.Status, r.EndedAt = status, d.Now
	data := map[string]any{}
	for name, n := range map[string]int{
		"ok": r.Tally.OK, "failed": r.Tally.Failed, "unknown": r.Tally.Unknown,
		"notExecuted": r.Tally.NotExecuted, "skipped": r.Skipped,
	} {
		if n > 0 {
			data[name] = n
		}
	}
	d.Record(workflow.Event{
		Layer: string(sm.LayerStep), Type: string(sm.EventStepExited), Step: r.Label,
		From: string(sm.StepRunning), To: string(status),
	}, data)
}

// Report is what the packs of an open run say, or nil after asking for it.
func (d *Visits) Report(r *workflow.StepRun, kind draft.NeedKind) *draft.Report {
	need := draft.Need{Kind: kind, RunSeq: r.RunSeq}
	if f := d.F.Reports[need]; f != nil {
		return f
	}
	d.Need(need)
	return nil
}

// follow waits for the open visits, and ends each: with success, or with failure
// as soon as more jobs have failed than the definition tolerates.
func (d *Visits) follow(open []*workflow.StepRun) {
	look := d.Now.Add(d.P.Poll)
	for _, r := range open {
		kind := draft.NeedReport
		if r.Closing {
			kind = draft.NeedClosing
		}
		f := d.Report(r, kind)
		if f == nil {
			return
		}
		ended, at := d.judge(r, f)
		if d.Err != nil || d.X.State != sm.ExecutionRunning || d.Stop {
			return
		}
		if !ended {
			look = draft.Earlier(look, at)
		}
	}
	if len(d.Open()) > 0 {
		d.Wait(look)
	}
}

// judge looks at one open visit. It says whether the visit has ended, and if not
// when to look again.
func (d *Visits) judge(r *workflow.StepRun, f *draft.Report) (ended bool, look time.Time) {
	n := &d.F.Resolved.Program.Nodes[r.Step]
	failed := f.Tally.Failed + f.Tally.Unknown
	intolerable := !d.Config().FailureTolerance.Allows(failed, r.Jobs) || n.RunOn == workflow.RunOnGlobal && failed > 0 // it is about no entity
	handled := d.F.Resolved.Program.Handler(r.Step) >= 0
	var timeout time.Time
	if n.StepTimeout > 0 && !r.Closing {
		timeout = r.EnteredAt.Add(n.StepTimeout.Std())
	}
	switch {
	case f.Complete && r.Closing && r.Failure != nil:
		d.Finish(r, f)
		d.failVisit(r, workflow.CauseTimeout, r.Failure)
	case f.Complete && r.Closing:
		d.Finish(r, f) // another visit of its stretch has failed
		d.Exit(r, sm.StepCancelled)
		d.leaveFailed(d.F.Resolved.Program.Handler(r.Step))
	case f.Complete && f.Problem != nil:
		d.Finish(r, f)
		d.failVisit(r, f.Cause, f.Problem)
	case f.Problem != nil:
		d.failRun(r, f.Cause, f.Problem, 0)
	case f.Complete && !intolerable && f.Tally.NotExecuted == 0:
		d.Finish(r, f)
		d.Exit(r, sm.StepCompleted)
		if last := d.stretchLast(r); r.RunSeq == last {
			d.visited(r)
		}
	case f.Complete:
		d.Finish(r, f)
		cause, why := FailureOf(r, f.Tally)
		d.failVisit(r, cause, why)
	case intolerable && !handled:
		cause, why := FailureOf(r, f.Tally)
		d.failRun(r, cause, why, failed)
	case f.Silent:
		d.failRun(r, workflow.CauseUnclaimed, &workflow.Failure{
			Code: "UNCLAIMED", Step: r.Label,
			Message: fmt.Sprintf("no worker of pool %q has claimed the jobs of step %q", r.Pool, r.Label),
		}, 0)
	case !timeout.IsZero() && !d.Now.Before(timeout):
		why := &workflow.Failure{Code: "TIMEOUT", Step: r.Label, Message: fmt.Sprintf("step %q has not ended within %s", r.Label, n.StepTimeout.Std())}
		if !handled {
			d.failRun(r, workflow.CauseTimeout, why, failed)
			return true, look
		}
		r.Failure = why
		d.stopRun(r)
	default:
		look = d.NextLook(r, f)
		if !timeout.IsZero() {
			look = draft.Earlier(look, timeout)
		}
		return false, look
	}
	return true, look
}

// stretchLast is the RunSeq of the last run of the stretch that r belongs to, and
// that of r outside one. A lane is over in a run before it is in the next, so the
// last run of a stretch is the last to end.
func (d *Visits) stretchLast(r *workflow.StepRun) int {
	last := r.RunSeq
	for i := range d.X.Runs {
		if o := &d.X.Runs[i]; r.Stretch != 0 && o.Stretch == r.Stretch && o.Kind == r.Kind {
			last = max(last, o.RunSeq)
		}
	}
	return last
}

// NextLook is when to look at an open run again. When the alarm has rung and the
// messages of the run grow old, a new epoch time lets them be sent again.
func (d *Visits) NextLook(r *workflow.StepRun, f *draft.Report) time.Time {
	if d.Rang && d.Now.Sub(r.EpochTime) > d.P.MessageLife-2*d.P.Poll {
		r.EpochTime = d.Now
		d.Changed = true
	}
	at := d.Now.Add(d.P.Poll)
	if !f.NextLook.IsZero() {
		at = draft.Earlier(at, f.NextLook)
		if floor := d.Now.Add(time.Second / 4); at.Before(floor) {
			at = floor
		}
	}
	return at
}

// stopRun forbids a run to start anything more and commits that before any pack
// is touched: the state comes first, then the packs are closed.
func (d *Visits) stopRun(r *workflow.StepRun) {
	r.Closing = true
	d.Changed = true
	d.Pause()
}

// StopAll does so with everything that is open.
func (d *Visits) StopAll() {
	for _, r := range d.Open() {
		d.stopRun(r)
	}
}

// Finish writes down what came of a run whose every lane is over.
func (d *Visits) Finish(r *workflow.StepRun, f *draft.Report) {
	r.Tally, r.Updates = f.Tally, f.Updates
	r.Skipped += f.Skipped
	d.X.Cost.Add(f.Cost)
}

// failRun fails the whole run while jobs are outstanding: nothing of it may
// start any more.
func (d *Visits) failRun(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure, failed int) {
	data := map[string]any{"step": r.Label}
	if failed > 0 {
		data["failed"] = failed
	}
	d.Fail(cause, why)
	d.Move(sm.EventExecutionFailed, sm.ExecutionError, "", data)
	d.StopAll()
}

// failVisit ends a visit as failed. Where the step, or one around it, goes on
// after errors, the run does; otherwise it fails.
func (d *Visits) failVisit(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) {
	p := d.F.Resolved.Program
	handler := p.Handler(r.Step)
	if r.Failure == nil && r.Tally.Failure == nil {
		r.Failure = why
	}
	d.Exit(r, sm.StepFailed)
	if handler < 0 || Forbidden(why) {
		data := map[string]any{"step": r.Label}
		if n := r.Tally.Failed + r.Tally.Unknown; n > 0 {
			data["failed"] = n
		}
		d.Fail(cause, why)
		d.Move(sm.EventExecutionFailed, sm.ExecutionError, "", data)
		d.StopAll()
		return
	}
	if handler == r.Step {
		if r.RunSeq == d.stretchLast(r) {
			d.advance(p.Nodes[handler].End)
		}
		return
	}
	if len(d.Open()) > 0 {
		d.StopAll() // the rest of its stretch ends first
		return
	}
	d.leaveFailed(handler)
}

// leaveFailed goes on behind a step that tolerates the failure of what is nested
// in it.
func (d *Visits) leaveFailed(handler int) {
	if len(d.Open()) > 0 {
		return
	}
	for c := d.container(); c != nil && c.Step >= handler; c = d.container() {
		d.Workflow(sm.EventWorkflowFailed, sm.WorkflowRunning, sm.WorkflowFailed, c.Label)
		d.Exit(c, sm.StepFailed)
	}
	d.advance(d.F.Resolved.Program.Nodes[handler].End)
}

// CodeNotHeld is the code of a failure because of an entity that the run does not
// hold. Nothing goes on after it, and nothing is written.
const CodeNotHeld = "ENTITY_NOT_HELD"

// Forbidden reports whether a failure is because of an entity that is not held.
func Forbidden(why *workflow.Failure) bool { return why != nil && why.Code == CodeNotHeld }

// FailureOf explains a tally in one failure, naming step and entity.
func FailureOf(r *workflow.StepRun, t workflow.Tally) (workflow.Cause, *workflow.Failure) {
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
