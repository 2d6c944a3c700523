package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Effects are what a commit causes outside the state item. None is required for
// correctness: if one is lost, the execution's timer brings a handler that repeats it.

// dispatchStepRun sends the packs of a step run that has just been committed, or those of the
// others of its pipeline if it has been closed, or starts its child.
func (w *workspace) dispatchStepRun(ctx context.Context, d lifecycle.Decision) error {
	r := w.execution.StepRunBySeq(d.DispatchSeq)
	if d.DispatchSeq == 0 || r == nil {
		return nil
	}
	if r.IsSet() {
		return w.startChildren(ctx, r)
	}
	if r.Child != nil {
		return w.startChild(ctx, r)
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	if r.Pipeline > 0 && r.Kind == workflow.JobExecute {
		send := p.StartPipeline
		if !r.Open() {
			send = p.ResumePipeline
		}
		ended, err := send(ctx, w.execution, r, w.e.now())
		if ended {
			w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "pipeline")})
		}
		return w.reportPlanError(err)
	}
	stepRun := p.StepRun(w.execution, r)
	if _, err := stepRun.Jobs(ctx); err != nil { // before Take, so that the messages carry its cost
		return err
	}
	carried, err := w.dispatcher().Dispatch(ctx, stepRun, w.e.now(), w.ports.Meter.Take())
	w.forgetRequests(carried)
	return err
}

// startChild starts the child of a step run that has just been committed.
func (w *workspace) startChild(ctx context.Context, r *workflow.StepRun) error {
	err := w.fetchChild(ctx, lifecycle.Need{Kind: lifecycle.NeedChild, StepRunSeq: r.Seq})
	if err != nil {
		w.recorder.Warn(ctx, "child not started; the timer will retry", err)
		return nil
	}
	return w.ports.Sender.SendWakeups(ctx, 0, wakeup(w.execution, "child started"))
}

// sendLane sends the next pack of a lane that its worker could not continue: the lane
// belongs to a pipeline, its retry policy has a condition, or its chain was cut. decides says that
// there is something to decide about the execution then. Mostly there is not: to find that out in
// each wake-up of a lane, all done sets would be read as often as there are lanes.
func (w *workspace) sendLane(ctx context.Context, l workflow.Wakeup) (decides bool, err error) {
	x := w.execution
	r := x.StepRunBySeq(l.StepRunSeq)
	if !planner.CanAdvance(r) || x.MinFencingToken != w.e.Policy.MinFencingToken {
		return true, nil
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return true, err
	}
	now := w.e.now()
	decides, err = p.SendLane(ctx, x, r, *l.Lane, now, &w.pendingCost)
	if err := w.reportPlanError(err); err != nil {
		return true, err
	}
	due := !x.DueAt.IsZero() && !x.DueAt.After(now)
	return decides || due || !r.Open() || x.State != sm.ExecutionRunning || w.unplanned != nil, nil
}

// lanesReadParts reports whether a wake-up of a lane reads no more entities than there are in a
// chunk or two, before it decides anything.
func (w *workspace) lanesReadParts(ctx context.Context, l workflow.Wakeup) bool {
	r := w.execution.StepRunBySeq(l.StepRunSeq)
	if l.Lane == nil || r == nil || r.Pipeline == 0 {
		return false
	}
	p, err := w.ensurePlanner(ctx)
	return err == nil && p.LanesReadParts(w.execution, r) // what reads the program next fails too, and says so
}

// reportPlanError makes an error that says that a lane cannot be planned a fact of the next
// decision, about the step run of the pipeline in which it cannot. It stays one until the end of
// the wake-up, whoever else commits meanwhile: nobody else may find it out before the timer. A
// wake-up that gives up hands it on.
// Any other error it returns.
func (w *workspace) reportPlanError(err error) error {
	var problem *dispatch.PlanError
	if errors.As(err, &problem) {
		w.unplanned = map[lifecycle.Need]*lifecycle.Report{
			{Kind: lifecycle.NeedReport, StepRunSeq: problem.StepRunSeq}: {StepRunSeq: problem.StepRunSeq, Cause: problem.Cause, Problem: problem.Failure},
		}
		w.unplannedLane = wakeup(w.execution, "cannot be planned")
		w.unplannedLane.StepRunSeq, w.unplannedLane.Lane = problem.StepRunSeq, &problem.Lane
		w.facts.Reports = maps.Clone(w.unplanned)
		return nil
	}
	return err
}

// wakeup is a wake-up message for an execution. The reason is for logs.
func wakeup(x *workflow.Execution, reason string) workflow.Wakeup {
	return workflow.Wakeup{Tenant: x.Tenant, Execution: x.ID, Reason: reason}
}

// asksOf is what an execution waits for a person for, as its ancestors show it.
func asksOf(x *workflow.Execution) (asks struct {
	person bool
	what   string
}) {
	if asks.person = lifecycle.WaitsForPerson(x); asks.person {
		asks.what = x.Wait.Reason
	}
	return asks
}

// parentWakeups wakes a parent that waits for this execution, once that is over, and when it
// begins or ends to wait for a person; and one that waits to know whether this execution begins,
// once it is over without that.
func (w *workspace) parentWakeups(ctx context.Context, from, to *workflow.Execution) []workflow.Wakeup {
	ended := !lifecycle.IsOver(from) && lifecycle.IsOver(to)
	if !to.Awaited() && !(ended && lifecycle.NeverBegins(to)) || !ended && asksOf(from) == asksOf(to) {
		return nil
	}
	if to.Parent.Member != nil {
		return w.memberWakeups(ctx, from, to, ended)
	}
	return []workflow.Wakeup{{Tenant: w.tenant, Execution: to.Parent.Execution, Reason: "child " + w.id + " is in " + string(to.State)}}
}

// sendWakeups sends wake-ups. A wake-up that is not sent costs time only: each
// recipient has a timer.
func (w *workspace) sendWakeups(ctx context.Context, recipients string, wakeups []workflow.Wakeup) {
	if len(wakeups) == 0 {
		return
	}
	if err := w.ports.Sender.SendWakeups(ctx, 0, wakeups...); err != nil {
		w.recorder.Warn(ctx, "wake-up not sent; the timer will retry", err, slog.String("recipients", recipients))
	}
}

// maxMessageDelay is the longest delay of a message.
const maxMessageDelay = 15 * time.Minute

// sendDeadlineWakeup sends a delayed wake-up for a deadline, so that what ends then ends
// on time: the sweep of timers is coarser. It sends one for a deadline that is new and
// not further away than the longest delay of a message, and for any other when it
// becomes the execution's timer. If the time has come meanwhile, there is no delay. A check
// that is due at once, because this one has changed what it is about, is sent like a deadline.
func (w *workspace) sendDeadlineWakeup(ctx context.Context, before, after *workflow.Execution) {
	at := lifecycle.NextDeadline(after)
	isNew := !at.IsZero() && (!at.Equal(lifecycle.NextDeadline(before)) || at.Equal(after.DueAt) && !at.Equal(before.DueAt))
	if due := after.DueAt; !due.IsZero() && !due.Equal(before.DueAt) && due.Sub(w.now) <= lifecycle.NextCheckDelay {
		at, isNew = due, true
	}
	if !isNew {
		return
	}
	if delay := at.Sub(w.now); delay <= maxMessageDelay {
		if err := w.ports.Sender.SendWakeups(ctx, max(delay, 0), wakeup(w.execution, "timer")); err != nil {
			w.recorder.Warn(ctx, "delayed wake-up not sent; the timer will retry", err)
		}
	}
}
