package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A step with branches executes them in parallel. Its step run stays open, and each branch has a
// thread with its own cursor. A decision lets one thread make one transition. When all threads are
// over, their results are merged, and the step is over.
//
// What a branch reads never depends on which branch was faster: a step run does not see step runs
// of other branches. So a plan can be made again.

// cursor returns the position of the thread that makes a transition, or of the execution.
func (d *decider) cursor() *workflow.Cursor {
	if d.thread != nil {
		return &d.thread.Cursor
	}
	return &d.execution.Cursor
}

// branchOf returns the innermost branch in which a step run was entered: the Seq of the step run
// with the branches, 0 for none, and the index of the branch.
func (d *decider) branchOf(r *workflow.StepRun) (in, index int) {
	for r != nil && r.In > 0 {
		around := d.execution.StepRunBySeq(r.In)
		if around == nil || d.node(around).Parallel != nil {
			return r.In, r.Index
		}
		r = around
	}
	return 0, 0
}

// threadOf returns the thread of a step run; nil for that of the execution.
func (d *decider) threadOf(r *workflow.StepRun) *workflow.Thread {
	in, index := d.branchOf(r)
	for i := range d.execution.Threads {
		if t := &d.execution.Threads[i]; t.In == in && t.Index == index {
			return t
		}
	}
	return nil
}

// inThread reports whether a step run belongs to the thread that makes a transition.
func (d *decider) inThread(r *workflow.StepRun) bool {
	if d.thread == nil {
		return true
	}
	in, index := d.branchOf(r)
	return in == d.thread.In && index == d.thread.Index
}

// enterBranches opens the step run of a step with branches, and a thread for each.
func (d *decider) enterBranches(at int, r workflow.StepRun) {
	n := &d.facts.Resolution.Program.Nodes[at]
	r = d.newStepRun(at, "", &Plan{}, r)
	d.appendStepRun(r)
	for i, first := range n.Branches {
		kept := r.Kept.Has(i)
		d.execution.Threads = append(d.execution.Threads, workflow.Thread{In: r.Seq, Index: i, Cursor: workflow.Cursor{PC: first}, Done: kept})
		if kept {
			continue
		}
		d.recordWorkflow(sm.EventWorkflowInitialized, sm.WorkflowPending, sm.WorkflowRunning, n.Label+"."+n.Parallel.Branches[i].Label)
	}
}

// driveThreads lets one thread make one transition: the first that does not wait for jobs. If all
// wait, it follows the open step runs.
func (d *decider) driveThreads() {
	defer func() { d.thread = nil }()
	for late := d.lateBranches(); late != nil; late = d.lateBranches() {
		if d.driveThread(late) {
			return
		}
		if d.closeLateBranches(late); d.stopped {
			return
		}
	}
	if !d.driveThread(nil) {
		d.followThreads()
	}
}

// driveThread lets the first thread that does not wait make one transition. In late branches, unless nil, only those
// are made that enter no step: they take no time, so a branch whose last step has ended in time ends well. It reports
// whether there is such a thread.
func (d *decider) driveThread(late *workflow.StepRun) bool {
	for i := range d.execution.Threads {
		t := &d.execution.Threads[i]
		f := d.execution.StepRunBySeq(t.In)
		if late != nil && f.Seq != late.Seq && !d.isIn(f, late) {
			continue
		}
		if d.isOver(f) {
			d.thread = d.threadOf(f)
			d.join(f)
			return true
		}
		if t.Done || d.hasBranches(t) {
			continue
		}
		if d.thread = t; len(d.openStepRuns())+len(d.waitingStepRuns()) > 0 || d.isDelayed(t) || late != nil && !f.Closing && !d.isAtEnd(f) {
			continue
		}
		if f.Closing {
			d.endBranch(nil, "")
		} else {
			d.advanceCursor()
		}
		if d.decision.Idle { // the others may continue
			d.decision.Idle = false
			d.wakeAt = d.now.Add(d.policy.PollInterval)
		}
		return true
	}
	d.thread = nil
	return false
}

// isAtEnd reports whether the thread that makes a transition has executed the last step of its branch of f, or of the
// innermost step with nested steps in it.
func (d *decider) isAtEnd(f *workflow.StepRun) bool {
	return d.thread.PC >= d.node(cmp.Or(d.openContainer(), f)).End
}

// isOver reports whether all branches of a step run are over.
func (d *decider) isOver(f *workflow.StepRun) bool {
	return !slices.ContainsFunc(d.execution.Threads, func(t workflow.Thread) bool { return t.In == f.Seq && !t.Done })
}

// hasBranches reports whether a thread is in a step with branches of its own.
func (d *decider) hasBranches(t *workflow.Thread) bool {
	return slices.ContainsFunc(d.execution.Threads, func(inner workflow.Thread) bool {
		in, index := d.branchOf(d.execution.StepRunBySeq(inner.In))
		return in == t.In && index == t.Index
	})
}

// followThreads follows the open step runs of all threads, until one of them ends. If everything
// that is open waits, the execution waits.
func (d *decider) followThreads() {
	checkAt := d.now.Add(d.policy.PollInterval)
	d.thread = nil
	open, waiting := d.openStepRuns(), d.waitingStepRuns()
	if !d.closePipelines(open) {
		return
	}
	for _, r := range open {
		if r.Child != nil {
			d.thread = d.threadOf(r)
			if d.followChild(r) || d.err != nil || d.decision.Need != nil || d.stopped {
				return
			}
			continue
		}
		kind := NeedReport
		if r.Closing {
			kind = NeedClose
		}
		f := d.report(r, kind)
		if f == nil {
			return
		}
		d.thread = d.threadOf(r)
		ended, at := d.evaluateStepRun(r, f)
		if ended || d.err != nil || d.decision.Need != nil || d.stopped {
			return
		}
		checkAt = earlier(checkAt, at)
	}
	d.thread = nil
	if !slices.ContainsFunc(open, isBusy) {
		d.pause()
		return
	}
	if len(waiting) > 0 {
		at, goesOn := d.followEach(waiting)
		if goesOn {
			return
		}
		checkAt = earlier(checkAt, at)
	}
	if at := nextDelay(d.execution); !at.IsZero() {
		checkAt = earlier(checkAt, at)
	}
	d.waitUntil(checkAt)
}

// isBusy reports whether an open step run works, and does not only wait for what it has started.
func isBusy(r *workflow.StepRun) bool {
	return r.Child == nil || r.Child.Mode == workflow.ModeFireAndForget
}

// followPausedThreads follows what the branches of an execution wait for, until something of it is
// over.
func (d *decider) followPausedThreads() {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if late := d.lateBranches(); late != nil {
		d.leaveWaiting(sm.EventExecutionExpired, "", map[string]any{"step": late.Label})
		return
	}
	checkAt, goesOn := d.followEach(d.waitingStepRuns())
	if goesOn {
		return
	}
	add := func(at time.Time) {
		if !at.IsZero() && (checkAt.IsZero() || at.Before(checkAt)) {
			checkAt = at
		}
	}
	for _, r := range d.openStepRuns() {
		d.thread = d.threadOf(r)
		goesOn := d.followChild(r)
		if d.thread = nil; goesOn {
			return
		}
		add(d.now.Add(d.policy.PollInterval))
	}
	for _, t := range d.delayedThreads() {
		if !d.isDelayed(t) {
			d.leaveWaiting(sm.EventExecutionResumed, "", map[string]any{"step": t.Delay.Step})
			return
		}
	}
	add(nextDelay(d.execution))
	d.waitUntil(checkAt)
}

// branchDelayElapsed reports whether the delay before a step of a branch is over. It begins when
// the branch comes there.
func (d *decider) branchDelayElapsed(n *spec.Node, delay time.Duration) bool {
	t := d.thread
	if t.Delay == nil {
		t.Delay, d.changed = &workflow.Delay{Step: n.Label, Since: d.now, Until: d.now.Add(delay)}, true
		return false
	}
	return !d.isDelayed(t)
}

// isDelayed reports whether a thread waits for a delay. In branches that are being closed none does.
func (d *decider) isDelayed(t *workflow.Thread) bool {
	return t.Delay != nil && d.now.Before(t.Delay.Until) && !d.execution.StepRunBySeq(t.In).Closing
}

// delayedThreads are the branches with a delay that is not over, or of which nobody has seen that it
// is.
func (d *decider) delayedThreads() (delayed []*workflow.Thread) {
	for i := range d.execution.Threads {
		if t := &d.execution.Threads[i]; t.Delay != nil && !t.Done {
			delayed = append(delayed, t)
		}
	}
	return delayed
}

// nextDelay is when the first delay of a branch is over; zero if none has one.
func nextDelay(x *workflow.Execution) (at time.Time) {
	for i := range x.Threads {
		if t := &x.Threads[i]; t.Delay != nil && !t.Done && (at.IsZero() || t.Delay.Until.Before(at)) {
			at = t.Delay.Until
		}
	}
	return at
}

// endBranch ends the thread that makes a transition: successfully, or with a failure that nothing
// in the branch handles. In that case the other branches end too, unless the step can continue
// without some.
func (d *decider) endBranch(why *workflow.Failure, cause workflow.Cause) {
	t := d.thread
	f := d.execution.StepRunBySeq(t.In)
	n := d.node(f)
	status, event, state := sm.StepCompleted, sm.EventWorkflowCompleted, sm.WorkflowCompleted
	switch {
	case why != nil:
		status, event, state = sm.StepFailed, sm.EventWorkflowFailed, sm.WorkflowFailed
	case f.Closing:
		status, event, state = sm.StepCancelled, sm.EventWorkflowCancelled, sm.WorkflowCancelled
	default:
		f.EndedWell = append(slices.Clip(f.EndedWell), t.Index)
	}
	for c := d.openContainer(); c != nil; c = d.openContainer() {
		d.exitStepRun(c, status)
	}
	d.recordWorkflow(event, sm.WorkflowRunning, state, n.Label+"."+n.Parallel.Branches[t.Index].Label)
	t.Done, t.Delay, d.changed = true, nil, true
	if why != nil {
		t.Failure, t.Cause = why, cause
	}
	if why == nil || f.Closing || d.mayContinue(f) {
		return
	}
	d.closeBranches(f)
}

// mayContinue reports whether enough branches can still end well, and none that failed is in doubt.
func (d *decider) mayContinue(f *workflow.StepRun) bool {
	p := d.node(f).Parallel
	failed := 0
	for _, t := range d.execution.Threads {
		if t.In == f.Seq && t.Failure != nil {
			failed++
		}
	}
	return failed == 0 || p.AllowPartial && len(p.Branches)-failed >= max(1, p.Minimum) && !d.branchInDoubt(f)
}

// branchInDoubt reports whether it is unknown what a job in a branch has done, and nothing can
// settle it: a failure can be tolerated, a doubt cannot.
func (d *decider) branchInDoubt(f *workflow.StepRun) bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.InDoubt && (d.isIn(&r, f) || d.execution.KeptIn(&r, f))
	})
}

// closeBranches forbids the branches of a step run to start more jobs. Each branch ends when its
// jobs are final.
func (d *decider) closeBranches(f *workflow.StepRun) {
	f.Closing, d.changed = true, true
	around := d.thread
	d.thread = nil
	for _, r := range d.openStepRuns() {
		if d.isIn(r, f) && !r.Closing {
			d.stopStepRun(r)
		}
	}
	for _, r := range d.waitingStepRuns() {
		if d.isIn(r, f) && !r.IsWorking() {
			d.exitStepRun(r, sm.StepCancelled)
		}
	}
	for i := range d.execution.StepRuns {
		if inner := &d.execution.StepRuns[i]; inner.Open() && inner.Seq != f.Seq && d.node(inner).Parallel != nil && d.isIn(inner, f) {
			inner.Closing = true
		}
	}
	d.thread = around
}

// isIn reports whether a step run was entered in a branch of another, at any depth.
func (d *decider) isIn(r, f *workflow.StepRun) bool {
	for r != nil && r.In > 0 {
		if r.In == f.Seq {
			return true
		}
		r = d.execution.StepRunBySeq(r.In)
	}
	return false
}

// lateBranches returns a step run whose branches have not ended within the timeout of their step;
// nil if there is none.
func (d *decider) lateBranches() *workflow.StepRun {
	for i := range d.execution.StepRuns {
		if f := &d.execution.StepRuns[i]; f.Open() && d.node(f).Parallel != nil && d.stepTimedOut(f) && !d.isOver(f) {
			return f
		}
	}
	return nil
}

// closeLateBranches closes branches that have not ended within the timeout of their step.
func (d *decider) closeLateBranches(f *workflow.StepRun) {
	f.Failure = stepTimeoutFailure(f, d.node(f).StepTimeout)
	for k := range d.execution.Threads {
		if t := &d.execution.Threads[k]; t.In == f.Seq && !t.Done {
			t.Failure, t.Cause = f.Failure, workflow.CauseTimeout
		}
	}
	d.closeBranches(f)
}

// join ends a step run whose branches are all over: with their merged results, or because too many
// of them have failed.
func (d *decider) join(f *workflow.StepRun) {
	var failed []workflow.Thread
	for _, t := range d.execution.Threads {
		if t.In == f.Seq && t.Failure != nil {
			failed = append(failed, t)
		}
	}
	if len(failed) > 0 && !d.mayContinue(f) {
		cause, why := failed[0].Cause, failed[0].Failure
		if f.Failure != nil {
			cause, why = workflow.CauseTimeout, f.Failure // too few had ended well in time, also if others failed before
		}
		d.removeThreads(f)
		d.failStepRun(f, cause, why)
		return
	}
	if around := d.execution.StepRunBySeq(f.In); around != nil && d.isClosedAround(around) { // its result so far is not used
		d.removeThreads(f)
		d.exitStepRun(f, sm.StepCancelled)
		return
	}
	need := Need{Kind: NeedJoin, StepRunSeq: f.Seq}
	j := d.facts.Joins[need]
	if j == nil {
		d.need(need)
		return
	}
	d.removeThreads(f)
	if j.Problem != nil {
		d.failStepRun(f, workflow.CauseStepFailed, j.Problem)
		return
	}
	f.Value, f.Failure, f.FailedBranches = j.Value, nil, len(failed)
	d.exitStepRun(f, sm.StepCompleted)
	d.continueAfter(f)
}

// isClosedAround reports whether a step run has branches that are being closed, or is inside of
// such branches.
func (d *decider) isClosedAround(r *workflow.StepRun) bool {
	for ; r != nil; r = d.execution.StepRunBySeq(r.In) {
		if r.Closing && d.node(r).Parallel != nil {
			return true
		}
	}
	return false
}

func (d *decider) removeThreads(f *workflow.StepRun) {
	d.thread = nil
	d.execution.Threads = slices.DeleteFunc(slices.Clone(d.execution.Threads), func(t workflow.Thread) bool { return t.In == f.Seq })
	d.thread = d.threadOf(f)
	d.changed = true
}

// branchDeadline returns when a step with branches times out; zero for none.
func branchDeadline(x *workflow.Execution, r *workflow.StepRun) time.Time {
	if r.Closing || !slices.ContainsFunc(x.Threads, func(t workflow.Thread) bool { return t.In == r.Seq }) {
		return time.Time{}
	}
	return r.Deadline
}

// branchProblem says why the branches of a step cannot be executed side by side: there are too
// many, or two change entities of one type, and the tokens that their devices see would not grow.
// It is nil if they can.
func branchProblem(r *Resolution) *workflow.Failure {
	if r.Program == nil {
		return nil
	}
	if most, at := r.Program.MostBranches(); most > workflow.MaxThreads {
		return &workflow.Failure{Code: workflow.FailureLimit, Step: r.Program.Nodes[at].Label,
			Message: fmt.Sprintf("in step %q, %d branches can be open side by side, those inside other branches included, and at most %d may be: execute some of them one after the other",
				r.Program.Nodes[at].Label, most, workflow.MaxThreads)}
	}
	for at := range r.Program.Nodes {
		n := &r.Program.Nodes[at]
		if n.Parallel == nil {
			continue
		}
		changedIn := map[string]int{} // by entity type: the branch that changes it
		for i := at + 1; i < n.End; i++ {
			s := &r.Program.Nodes[i]
			if !s.OnEntities() || r.Blocks[s.FunctionBlock].Pure || !r.Program.Encloses(at, i) {
				continue
			}
			branch := n.BranchOf(i)
			if other, ok := changedIn[s.RunOn]; ok && other != branch {
				return &workflow.Failure{Code: workflow.FailureParallelEntity, Step: n.Label,
					Message: fmt.Sprintf("branches %q and %q of step %q both change entities of type %s: execute them one after the other",
						n.Parallel.Branches[other].Label, n.Parallel.Branches[branch].Label, n.Label, s.RunOn)}
			}
			changedIn[s.RunOn] = branch
		}
	}
	return nil
}
