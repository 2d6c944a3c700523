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

// Effects are what a commit causes outside of the state item. Correctness needs none of them: if
// one is lost, the execution's timer brings a handler that repeats it.

// dispatchStepRun starts the work of a step run that has just been committed: it sends its packs or
// starts its children. If the step run of a pipeline has been closed, it sends the packs of the
// pipeline's other steps.
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

// sendLane sends the next pack of a lane that its worker could not continue, because the lane
// belongs to a pipeline, its retry policy has a condition, or its chain was cut.
//
// decides says whether there is something to decide about the execution afterwards. Usually there
// is not. If every wake-up of a lane had to find that out, all done sets would be read as many
// times as there are lanes.
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

// lanesReadParts reports whether a wake-up of a lane reads only its own part of the scope, a chunk
// or two, before it decides anything. SendLane asks again: until then the execution may have been
// loaded anew. It costs no read.
func (w *workspace) lanesReadParts(ctx context.Context, l workflow.Wakeup) bool {
	r := w.execution.StepRunBySeq(l.StepRunSeq)
	if l.Lane == nil || r == nil || r.Pipeline == 0 {
		return false
	}
	p, err := w.ensurePlanner(ctx)
	return err == nil && w.execution.ScopeOf(r).InParts() && p.LanesReadParts(w.execution, r) // on an error the next reader of the program fails too, and reports it
}

// reportPlanError turns a PlanError into a report for the next decision: this lane of the step run
// cannot be planned. It returns any other error unchanged.
//
// The report stays a fact until the end of the wake-up, even if others commit meanwhile, because
// nobody else may find the problem before the timer does. A wake-up that gives up passes it on in a
// message.
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

// wakeup makes a wake-up message for an execution. The reason is for logs.
func wakeup(x *workflow.Execution, reason string) workflow.Wakeup {
	return workflow.Wakeup{Tenant: x.Tenant, Execution: x.ID, Reason: reason}
}

// pendingQuestion returns whether an execution waits for a person, and what it asks. Its ancestors show
// this.
func pendingQuestion(x *workflow.Execution) (asks struct {
	person bool
	what   string
}) {
	if asks.person = lifecycle.WaitsForPerson(x); asks.person {
		asks.what = x.Wait.Reason
	}
	return asks
}

// parentWakeups returns the wake-ups for the parent of an execution that was committed. A parent
// that waits for the execution is woken when it ends, and when it starts or stops waiting for a
// person. A parent that only waits to see it begin is woken if it ends without ever beginning.
func (w *workspace) parentWakeups(ctx context.Context, from, to *workflow.Execution) []workflow.Wakeup {
	ended := !lifecycle.IsOver(from) && lifecycle.IsOver(to)
	if !to.Awaited() && !(ended && lifecycle.NeverBegins(to)) || !ended && pendingQuestion(from) == pendingQuestion(to) {
		return nil
	}
	if to.Parent.Member != nil {
		return w.memberWakeups(ctx, from, to, ended)
	}
	return []workflow.Wakeup{{Tenant: w.tenant, Execution: to.Parent.Execution, Reason: "child " + w.id + " is in " + string(to.State)}}
}

// sendWakeups sends wake-ups. A lost wake-up only costs time, because each recipient has a timer.
func (w *workspace) sendWakeups(ctx context.Context, recipients string, wakeups []workflow.Wakeup) {
	if len(wakeups) == 0 {
		return
	}
	if err := w.ports.Sender.SendWakeups(ctx, 0, wakeups...); err != nil {
		w.recorder.Warn(ctx, "wake-up not sent; the timer will retry", err, slog.String("recipients", recipients))
	}
}

// maxMessageDelay is the longest delay that a message can have.
const maxMessageDelay = 15 * time.Minute

// sendDeadlineWakeup sends a delayed wake-up for a deadline, so that a wait ends on time: the sweep
// of timers is coarser. It sends one for a new deadline within the longest message delay, and for a
// later deadline once that becomes the execution's timer. If the time has already come, it sends
// without delay. A check that is due at once, and a timer that the decision asks for, are sent in
// the same way.
func (w *workspace) sendDeadlineWakeup(ctx context.Context, before, after *workflow.Execution, timer bool) {
	at := lifecycle.NextDeadline(after)
	isNew := !at.IsZero() && (!at.Equal(lifecycle.NextDeadline(before)) || at.Equal(after.DueAt) && !at.Equal(before.DueAt))
	if due := after.DueAt; !due.IsZero() && !due.Equal(before.DueAt) && (timer || due.Sub(w.now) <= lifecycle.NextCheckDelay) {
		at, isNew = due, true
	}
	if !isNew {
		return
	}
	if delay := at.Sub(w.now); delay <= maxMessageDelay {
		message := wakeup(w.execution, "timer")
		message.OfTimer = true
		if err := w.ports.Sender.SendWakeups(ctx, max(delay, 0), message); err != nil {
			w.recorder.Warn(ctx, "delayed wake-up not sent; the timer will retry", err)
		}
	}
}
