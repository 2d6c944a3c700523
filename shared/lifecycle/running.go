package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// run drives RUNNING: it follows the open step run to its end, enters the next
// step, and completes the execution after the last.
func (d *decider) run() {
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	if r := d.x.Run(); r.Open() {
		d.follow(r)
		return
	}
	steps := d.f.Resolved.Definition.Steps
	next := 0
	if r := d.x.Run(); r != nil {
		next = r.Step + 1
	}
	if next < len(steps) {
		d.enter(next, &steps[next])
		return
	}
	d.workflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted)
	d.move(sm.EventExecutionCompleted, sm.ExecutionCompleted, "", nil)
}

// enter begins the visit of a step: which entities take part, whether an
// assertion or a parameter stops it before any job exists, and into how many
// packs its jobs are cut.
func (d *decider) enter(index int, s *workflow.Step) {
	need := Need{Kind: NeedPlan, Step: index}
	plan := d.f.Plans[need]
	if plan == nil {
		d.need(need)
		return
	}
	if len(d.x.Runs) >= d.p.MaxSteps {
		d.fail(workflow.CauseLimit, &workflow.Failure{
			Code: string(workflow.CodeLimit), Step: s.Label,
			Message: fmt.Sprintf("the run has visited %d steps, the limit", d.p.MaxSteps),
		})
		d.move(sm.EventExecutionFailed, sm.ExecutionError, "", nil)
		return
	}
	r := d.newRun(index, s, workflow.JobExecute, plan)
	d.open(r)
	switch {
	case plan.Problem != nil:
		d.fail(plan.Cause, plan.Problem)
		d.exit(d.x.Run(), sm.StepFailed)
		d.move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": s.Label})
	case plan.Jobs == 0 && plan.Skipped > 0:
		d.exit(d.x.Run(), sm.StepSkipped)
	case plan.Jobs == 0:
		d.exit(d.x.Run(), sm.StepCompleted)
	default:
		d.out.Dispatch = true
		d.wait(d.now.Add(d.p.Poll))
	}
}

// newRun cuts a plan into packs. Cutting depends on nothing but the plan, the
// block and the policy that stand in the run, so that it can be repeated.
func (d *decider) newRun(index int, s *workflow.Step, kind workflow.JobKind, plan *Plan) workflow.StepRun {
	b := d.f.Resolved.Blocks[s.FunctionBlock]
	r := workflow.StepRun{
		RunSeq: d.x.RunSeq + 1, Step: index, Label: s.Label, Visit: 1, Kind: kind,
		Status: sm.StepRunning, EnteredAt: d.now, EpochTime: d.now,
		Block: b.Ref().String(), Pool: b.Pool,
		Pure: b.Pure, Idempotent: b.Idempotent, Reversible: b.Reversible, UndoHarmless: b.UndoHarmless,
		Jobs: plan.Jobs, Skipped: plan.Skipped, PackSize: 1, MaxAttempts: 1,
	}
	if s.Retry != nil {
		r.MaxAttempts = 1 + s.Retry.MaxRetries
	}
	limit := d.config().MaxInFlight
	if r.Repeatable() && plan.Jobs >= d.p.PackFrom {
		r.PackSize = max(1, d.p.PackSize)
		if limit > 0 {
			r.PackSize = min(r.PackSize, limit)
		}
	}
	if lanes := max(1, limit/r.PackSize); limit > 0 && lanes < r.Lanes() {
		r.Window = lanes
	}
	return r
}

func (d *decider) config() workflow.Config {
	if d.f.Resolved == nil || d.f.Resolved.Definition == nil {
		return workflow.Config{}
	}
	return d.f.Resolved.Definition.Config
}

// open appends a step run.
func (d *decider) open(r workflow.StepRun) {
	d.x.RunSeq = r.RunSeq
	d.x.Runs = append(d.x.Runs, r)
	data := map[string]any{"jobs": r.Jobs}
	if r.Kind == workflow.JobRollback {
		data["kind"], data["wave"] = r.Kind, r.Wave
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

// report is what the packs of the open run say, or nil after asking for it.
func (d *decider) report(r *workflow.StepRun, kind NeedKind) *Report {
	if f := d.f.Report; f != nil && f.RunSeq == r.RunSeq {
		return f
	}
	d.need(Need{Kind: kind})
	return nil
}

// follow waits for the open run of RUNNING, and ends it: with success, or with
// failure as soon as more jobs have failed than the definition tolerates.
func (d *decider) follow(r *workflow.StepRun) {
	f := d.report(r, NeedReport)
	if f == nil {
		return
	}
	failed := f.Tally.Failed + f.Tally.Unknown
	intolerable := !d.config().FailureTolerance.Allows(failed, r.Jobs)
	switch {
	case f.Complete && !intolerable && f.Tally.NotExecuted == 0:
		d.close(r, f, sm.StepCompleted)
	case f.Complete:
		d.close(r, f, sm.StepFailed)
		d.failStep(r, f.Tally)
	case intolerable:
		d.failStep(r, f.Tally)
		d.stopRun(r)
	case f.Silent:
		d.fail(workflow.CauseUnclaimed, &workflow.Failure{
			Code: "UNCLAIMED", Step: r.Label,
			Message: fmt.Sprintf("no worker of pool %q has claimed the jobs of step %q", r.Pool, r.Label),
		})
		d.move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": r.Label})
		d.stopRun(r)
	default:
		d.linger(r, f)
	}
}

// linger goes on waiting for a run. When the alarm has rung and the messages of
// the run grow old, a new epoch time lets them be sent again.
func (d *decider) linger(r *workflow.StepRun, f *Report) {
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
	d.wait(at)
}

// stopRun forbids the run to start anything more and commits that before any
// pack is touched: the state comes first, then the packs are closed.
func (d *decider) stopRun(r *workflow.StepRun) {
	r.Closing = true
	d.changed = true
	d.pause()
}

// close writes down what came of a run whose every lane is over.
func (d *decider) close(r *workflow.StepRun, f *Report, status sm.StepState) {
	r.Tally = f.Tally
	d.x.Cost.Add(f.Cost)
	d.exit(r, status)
}

// failStep notes the failure of a run of jobs and moves to ERROR.
func (d *decider) failStep(r *workflow.StepRun, t workflow.Tally) {
	cause, why := failureOf(r, t)
	d.fail(cause, why)
	d.move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": r.Label, "failed": t.Failed + t.Unknown})
}

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
