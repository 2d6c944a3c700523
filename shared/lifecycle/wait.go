package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A waiting step run is open for as long as it waits. The wait ends with one commit on the version
// of the execution, so that there is one outcome: its time or deadline has passed, its condition
// has become true, or somebody has ended it.

// waitingStepRuns lists the step runs that wait: those of the thread that makes a transition, or
// all.
func (d *decider) waitingStepRuns() []*workflow.StepRun {
	var open []*workflow.StepRun
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Waiting() && d.inThread(r) {
			open = append(open, r)
		}
	}
	return open
}

// enterWait begins a step run that waits. If the time has already passed, it does not wait.
func (d *decider) enterWait(at int, plan *Plan, r workflow.StepRun) {
	r = d.newStepRun(at, "", &Plan{}, r)
	d.beginWait(&r, plan)
	d.appendStepRun(r)
	if entered := d.execution.LastStepRun(); entered.Wait.Kind == workflow.WaitTimer && !d.now.Before(entered.Wait.Until) {
		d.endWait(entered, sm.StepCompleted)
	}
}

// beginWait begins the wait of a step run, from its entry on, even if it also has jobs.
func (d *decider) beginWait(r *workflow.StepRun, plan *Plan) {
	w := d.node(r).Waits()
	limit, _ := w.Limit()
	r.Wait = &workflow.StepWait{Kind: w.Kind(), Since: d.now, Until: d.now.Add(workflow.MaxStepWait)}
	switch {
	case w.For > 0:
		r.Wait.Until = d.now.Add(w.For.Std())
	case w.Until != "":
		r.Wait.Until = earlier(plan.Until, r.Wait.Until)
	case limit > 0:
		r.Wait.Until = d.now.Add(limit.Std())
	}
	r.Wait.Default, r.Wait.DefaultRejects = plan.Default, plan.DefaultRejects
	if w.Signal != nil {
		r.Wait.Title, d.decision.DependsOnSignals = w.Signal.Name, true // a signal that has come since then has woken nobody
	}
	if w.Asks() != nil {
		r.Wait.Question, r.Wait.Title = plan.Question, plan.Title
		r.Wait.Need = 1
		if w.Approval != nil {
			r.Wait.Need, r.Wait.Approval = max(1, w.Approval.Need), true
		}
		r.Wait.Next = nextDue(w.Asks(), r.Wait)
	}
}

// waitOrder is the order in which waits are shown: those that need a person first.
var waitOrder = []workflow.WaitKind{workflow.WaitInput, workflow.WaitSignal, workflow.WaitChildInput, workflow.WaitChild, workflow.WaitCondition, workflow.WaitTimer}

// pause moves to WAITING: nothing of the execution is at work, and step runs wait, or branches for
// a delay.
func (d *decider) pause() {
	d.execution.Wait, d.paused = d.shownWait(), true
	d.transition(sm.EventExecutionPaused, sm.ExecutionWaiting, "", pauseData(d.execution.Wait))
}

// pauseData is what the history says of a wait.
func pauseData(w *workflow.Wait) map[string]any {
	data := map[string]any{"kind": w.Kind, "step": w.Step}
	if !w.Until.IsZero() {
		data["until"] = w.Until
	}
	if w.Child != "" {
		data["child"] = w.Child
	}
	return data
}

// shownWait is the first of the waits of the step runs and of the delays of branches, as the
// execution shows it; nil if there are none.
func (d *decider) shownWait() *workflow.Wait {
	var waits []*workflow.Wait
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Waiting() || r.Child != nil && r.Open() {
			waits = append(waits, d.waitOf(r))
		}
	}
	for _, t := range d.delayedThreads() {
		waits = append(waits, &workflow.Wait{Kind: workflow.WaitTimer, Since: t.Delay.Since, Until: t.Delay.Until, Step: t.Delay.Step})
	}
	if len(waits) == 0 {
		return nil
	}
	return slices.MinFunc(waits, func(a, b *workflow.Wait) int {
		return slices.Index(waitOrder, a.Kind) - slices.Index(waitOrder, b.Kind)
	})
}

// waitOf is the wait of a step run as an execution shows it.
func (d *decider) waitOf(r *workflow.StepRun) *workflow.Wait {
	if r.Child != nil {
		w := &workflow.Wait{Kind: workflow.WaitChild, Since: r.EnteredAt, Step: r.Label, Child: r.Child.ID}
		if ask := r.Child.Ask; ask != nil {
			w.Kind, w.Since, w.Child, w.Reason = workflow.WaitChildInput, ask.Since, ask.ID, ask.Reason
		}
		return w
	}
	w := &workflow.Wait{Kind: r.Wait.Kind, Since: r.Wait.Since, Until: r.Wait.Until, Step: r.Label, Reason: r.Wait.Shown(), Signal: r.Wait.Signal()}
	if w.Kind == workflow.WaitCondition {
		w.Condition = d.node(r).Wait.When
	}
	return w
}

// followWaits waits until one of the step runs' waits is over: because its condition is true, or
// because its time has come.
func (d *decider) followWaits(open []*workflow.StepRun) {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if at, goesOn := d.followEach(open); !goesOn {
		d.waitUntil(at)
	}
}

// followEach follows waiting step runs. goesOn is true if there is something to do other than
// waiting until a time: a wait has ended, or a fact is missing.
func (d *decider) followEach(open []*workflow.StepRun) (at time.Time, goesOn bool) {
	defer func() { d.thread = nil }()
	for _, r := range open {
		d.thread = d.threadOf(r)
		ended, checkAt := d.followWait(r)
		if ended || d.decision.Need != nil || d.err != nil {
			return at, true
		}
		if at.IsZero() || checkAt.Before(at) {
			at = checkAt
		}
	}
	return at, false
}

// followWait reports whether the wait of a step run is over and, if not, when to check it again.
func (d *decider) followWait(r *workflow.StepRun) (ended bool, checkAt time.Time) {
	checkAt = r.Wait.Until
	if r.Wait.Kind == workflow.WaitCondition {
		f := d.facts.Conditions[r.Seq]
		if f == nil {
			d.need(Need{Kind: NeedCondition, StepRunSeq: r.Seq, StepIndex: r.StepIndex})
			return false, checkAt
		}
		if f.Ready {
			d.leaveWaiting(sm.EventExecutionResumed, "", map[string]any{"step": r.Label})
			d.endWait(r, sm.StepCompleted)
			return true, checkAt
		}
		if checkAt = earlier(checkAt, d.nextConditionCheck(r.Wait.Since)); !d.now.Before(r.Wait.Until) {
			d.lapse(r, f.Reason)
			return true, checkAt
		}
		return false, checkAt
	}
	if r.Wait.Kind == workflow.WaitSignal {
		if ended := d.takeSignals(r); ended || d.decision.Need != nil {
			return ended, checkAt
		}
	}
	if r.Wait.Level > r.Wait.Paged && !d.page(r) {
		return false, checkAt
	}
	if !d.now.Before(r.Wait.Until) {
		d.lapse(r, "")
		return true, checkAt
	}
	if at := r.Wait.Next; !at.IsZero() {
		if !d.now.Before(at) {
			d.escalate(r)
		}
		if at = r.Wait.Next; !at.IsZero() {
			checkAt = earlier(checkAt, at)
		}
	}
	return d.stopped, checkAt
}

// lapse ends the wait of a step run whose time has come. For a wait for a time that is the normal
// end. Any other wait continues as its onTimeout says, or fails if it has none. detail is added to
// the failure.
func (d *decider) lapse(r *workflow.StepRun, detail string) {
	data := map[string]any{"step": r.Label}
	if r.Wait.Kind == workflow.WaitSignal {
		d.decision.DependsOnSignals = true // a signal that has come in time since is seen first
	}
	n := d.node(r)
	if r.Wait.Asked && d.stepTimedOut(r) {
		d.failWait(r, stepTimeoutFailure(r, n.StepTimeout), data)
		return
	}
	if r.Wait.Kind == workflow.WaitTimer {
		d.leaveWaiting(sm.EventExecutionResumed, "", data)
		d.endWait(r, sm.StepCompleted)
		return
	}
	if r.Wait.Default != nil || r.Wait.Asked {
		d.leaveWaiting(sm.EventExecutionExpired, "", data)
		lapsed := *r.Wait
		lapsed.Lapsed = true
		r.Wait = &lapsed
		switch {
		case lapsed.DefaultRejects:
			d.rejectWait(r, fmt.Sprintf("step %q counts as rejected: its deadline was %s", r.Label, lapsed.Until.Format(time.RFC3339)))
		case lapsed.Approval:
			d.completeWait(r, nil) // its result is made of all answers and of this one
		default:
			d.completeWait(r, lapsed.Default)
		}
		return
	}
	why := &workflow.Failure{Code: workflow.FailureTimeout, Step: r.Label, Message: timeoutMessage(r)}
	if detail != "" {
		why.Message += " (" + workflow.Truncate(detail, workflow.MaxShortMessage) + ")"
	}
	if r.IsWorking() {
		d.lapseAtWork(r, why)
		return
	}
	if n.OnTimeout != nil {
		d.leaveWaiting(sm.EventExecutionExpired, "", data)
		d.endWaitAt(r, why, n.OnTimeout)
		return
	}
	d.failWait(r, why, data)
}

// failWait ends a step run as failed because it has waited too long.
func (d *decider) failWait(r *workflow.StepRun, why *workflow.Failure, data map[string]any) {
	if d.facts.Resolution.Program.FailureHandler(r.StepIndex) < 0 && d.thread == nil && d.execution.State == sm.ExecutionWaiting {
		r.Failure, d.execution.Wait = why, nil
		d.exitStepRun(r, sm.StepFailed)
		d.setFailure(workflow.CauseTimeout, why)
		d.transition(sm.EventExecutionExpired, sm.ExecutionError, "", data)
		d.stopAll()
		return
	}
	d.leaveWaiting(sm.EventExecutionExpired, "", data)
	d.failStepRun(r, workflow.CauseTimeout, why)
}

// lapseAtWork begins to end a step run whose deadline has passed before its job has ended: the job
// is stopped first.
func (d *decider) lapseAtWork(r *workflow.StepRun, why *workflow.Failure) {
	lapsed := *r.Wait
	lapsed.Lapsed = true
	r.Wait, r.Failure = &lapsed, why
	if d.node(r).OnTimeout == nil && d.facts.Resolution.Program.FailureHandler(r.StepIndex) < 0 && d.threadOf(r) == nil {
		d.failExecution(r, workflow.CauseTimeout, why, 0)
		return
	}
	d.stopStepRun(r)
}

// completeWait completes a wait that is decided or has lapsed, with the answer or its default. If
// the step run also has a job, it ends once that has ended too.
func (d *decider) completeWait(r *workflow.StepRun, value *workflow.Value) {
	r.Value = value
	if d.changed = true; !r.HasJobs() || r.Wait.Asked {
		d.endWait(r, sm.StepCompleted)
	}
}

func timeoutMessage(r *workflow.StepRun) string {
	return fmt.Sprintf("step %q has waited until its deadline, %s", r.Label, r.Wait.Until.Format(time.RFC3339))
}

// errorValue returns a failure as expressions see it, short enough for the state item.
func (d *decider) errorValue(why *workflow.Failure) *workflow.Value {
	raw, err := ErrorValue(why.Step, why)
	if err != nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "encode a failure: %w", err)
	}
	return &workflow.Value{Inline: raw}
}

// leaveWaiting returns to RUNNING, if the execution waits.
func (d *decider) leaveWaiting(on sm.Event, actor string, data map[string]any) {
	if d.execution.State == sm.ExecutionWaiting {
		d.execution.Wait = nil
		d.transition(on, sm.ExecutionRunning, actor, data)
	}
}

// askedWait begins the wait that the block of a step run has requested. It ends at the latest when
// the step times out, and the step then fails.
func (d *decider) askedWait(r *workflow.StepRun, f *Report) {
	w := &workflow.StepWait{Kind: f.Wait.Kind(), Since: d.now, Until: d.now.Add(workflow.MaxStepWait), Asked: true, Title: workflow.Truncate(f.Wait.Reason, workflow.MaxWaitTitle)}
	if !f.Wait.Until.IsZero() {
		w.Until = earlier(f.Wait.Until, w.Until)
	}
	if !r.Deadline.IsZero() {
		w.Until = earlier(r.Deadline, w.Until)
	}
	switch w.Kind {
	case workflow.WaitSignal:
		w.Title, w.Reason, d.decision.DependsOnSignals = f.Wait.Signal, w.Title, true // a signal that has come since then has woken nobody
	case workflow.WaitInput:
		w.Need, w.Question = 1, f.Question
	}
	r.Wait, r.JobsOver, d.changed = w, true, true
}

// endWait ends a step run whose wait is over, and goes on after it. If its block has asked for the
// wait, that is as onResume of the step says, or with the same step again.
func (d *decider) endWait(r *workflow.StepRun, status sm.StepState) {
	d.exitStepRun(r, status)
	if to := d.node(r).OnResume; r.Wait.Asked && to != nil {
		d.jump(r.StepIndex, to)
		return
	}
	if r.Wait.Asked {
		d.goToStep(r.StepIndex)
		d.cursor().Resumes = r.Seq
		return
	}
	d.continueAfter(r)
}

// endWaitAt ends a step run whose wait has not ended well, and continues with another step.
func (d *decider) endWaitAt(r *workflow.StepRun, why *workflow.Failure, to *spec.Target) {
	r.Failure, r.Value = why, d.errorValue(why)
	d.exitStepRun(r, sm.StepCaseHandled)
	d.jump(r.StepIndex, to)
}

// resumeWait ends the wait of a step for a time, or the delay before one: of the step that the
// command names or, if it names none, of the only one that waits, as the execution shows it.
func (d *decider) resumeWait(c Command, data map[string]any) error {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	if d.lateBranches() != nil { // the wait ends together with its branches
		d.decision.CommandPending = true
		return nil
	}
	var candidates []*workflow.StepRun
	for _, r := range d.waitingStepRuns() {
		if c.FromStep == "" && r.Wait.Kind == d.execution.Wait.Kind || r.Label == c.FromStep {
			candidates = append(candidates, r)
		}
	}
	var delayed []*workflow.Thread
	for _, t := range d.delayedThreads() {
		if c.FromStep == "" && d.execution.Wait.Kind == workflow.WaitTimer || t.Delay.Step == c.FromStep {
			delayed = append(delayed, t)
		}
	}
	switch {
	case len(candidates)+len(delayed) == 0:
		return &workflow.Error{Code: workflow.CodeIllegalTransition,
			Message: fmt.Sprintf("cannot resume execution %s in state %s: step %q does not wait", d.execution.ID, d.execution.State, c.FromStep)}
	case len(candidates)+len(delayed) > 1 && (len(candidates) == 0 || candidates[0].Wait.Kind == workflow.WaitTimer):
		var labels []string
		for _, r := range candidates {
			labels = append(labels, r.Label)
		}
		for _, t := range delayed {
			labels = append(labels, t.Delay.Step)
		}
		return workflow.Invalid("several steps wait for a time", []workflow.Issue{{Path: "step", Code: "required", Message: "name one of these: " + strings.Join(labels, ", ")}})
	case len(candidates) == 0:
		over := *delayed[0].Delay
		over.Until, d.changed, data["step"] = d.now, true, over.Step
		delayed[0].Delay = &over
		d.leaveWaiting(sm.EventExecutionResumed, c.Actor, data)
		return nil
	}
	r := candidates[0]
	switch r.Wait.Kind {
	case workflow.WaitTimer:
		data["step"] = r.Label
		d.leaveWaiting(sm.EventExecutionResumed, c.Actor, data)
		d.thread = d.threadOf(r)
		d.endWait(r, sm.StepCompleted)
		d.thread = nil
		return nil
	case workflow.WaitInput:
		return workflow.Invalid(fmt.Sprintf("execution %s waits for input at step %q", d.execution.ID, r.Label), []workflow.Issue{{
			Path: "input", Code: "required", Message: "answer it: send input" + d.timersToEnd(c),
		}})
	}
	text := "for a condition: it goes on when that is true"
	if r.Wait.Kind == workflow.WaitSignal {
		text = fmt.Sprintf("for the signal %q: send it", r.Wait.Title)
	}
	return &workflow.Error{
		Code:    workflow.CodeIllegalTransition,
		Message: fmt.Sprintf("execution %s in state %s waits at step %q %s%s", d.execution.ID, d.execution.State, r.Label, text, d.timersToEnd(c)),
	}
}

// timersToEnd names, for people, the other steps that wait for a time, besides the one that a
// command without a step would end.
func (d *decider) timersToEnd(c Command) string {
	var labels []string
	for _, r := range d.waitingStepRuns() {
		if r.Wait.Kind == workflow.WaitTimer && c.FromStep == "" {
			labels = append(labels, r.Label)
		}
	}
	if c.FromStep == "" {
		for _, t := range d.delayedThreads() {
			labels = append(labels, t.Delay.Step)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	return "; to end the wait for a time, name its step: " + strings.Join(labels, ", ")
}
