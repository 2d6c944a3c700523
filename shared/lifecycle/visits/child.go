package visits

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// spawn begins the visit of a step that starts a run of its own. The visit is
// committed first; the child's id follows from it, so that however often it is
// started there is one.
func (d *Visits) spawn(at int, plan *draft.Plan, r workflow.StepRun) {
	n := &d.F.Resolved.Program.Nodes[at]
	ref, err := workflow.ParseRef(n.Reference.Workflow)
	if err != nil {
		d.Err = workflow.Errorf(workflow.CodeInternal, "step %s: %w", n.Label, err)
		return
	}
	ref.Version = d.X.Workflows[n.Reference.Workflow]
	r = d.newRun(at, "", plan, r)
	r.Child = &workflow.Child{
		ID: workflow.DerivedID(d.Now, fmt.Sprintf("%s.%d", d.X.ID, r.RunSeq)), Workflow: ref, Mode: n.Reference.Mode,
	}
	d.Append(r)
	d.X.Wait = &workflow.Wait{Kind: workflow.WaitChild, Since: d.Now, Step: n.Label, Child: r.Child.ID}
	d.Move(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitChild, "step": n.Label, "child": r.Child.ID})
	d.Out.Dispatch = r.RunSeq
	d.Wait(d.Now.Add(d.P.Poll))
}

// followChild waits for a child to end: well, when everything it did is settled,
// or badly.
func (d *Visits) followChild() {
	if d.F.Resolved == nil {
		d.Need(draft.Need{Kind: draft.NeedResolved})
		return
	}
	open := d.Open()
	if len(open) != 1 || open[0].Child == nil {
		d.Err = workflow.Errorf(workflow.CodeInternal, "the run waits for a child that it has not started")
		return
	}
	r := open[0]
	n := &d.F.Resolved.Program.Nodes[r.Step]
	c := d.child(r, draft.NeedChild)
	if c == nil {
		return
	}
	late := n.StepTimeout > 0 && !d.Now.Before(r.EnteredAt.Add(n.StepTimeout.Std()))
	switch {
	case r.Child.Mode == workflow.ModeFireAndForget, c.State == sm.ExecutionCompletedAck:
		d.resume(r, c)
		d.Exit(r, sm.StepCompleted)
		d.visited(r)
	case sm.Terminal(c.State) && c.State != sm.ExecutionCompleted:
		d.resume(r, c)
		d.failVisit(r, workflow.CauseChildFailed, childFailure(r, c))
	case late:
		why := &workflow.Failure{Code: "TIMEOUT", Step: r.Label, Message: fmt.Sprintf("step %q has not ended within %s", r.Label, n.StepTimeout.Std())}
		d.X.Wait = nil
		d.Fail(workflow.CauseTimeout, why)
		d.Move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": r.Label})
		d.StopAll()
	default:
		at := d.Now.Add(d.P.Poll)
		if n.StepTimeout > 0 {
			at = draft.Earlier(at, r.EnteredAt.Add(n.StepTimeout.Std()))
		}
		d.Wait(at)
	}
}

// child is what has become of the visit's child, or nil after asking.
func (d *Visits) child(r *workflow.StepRun, kind draft.NeedKind) *draft.ChildAnswer {
	if c := d.F.Child; c != nil && c.RunSeq == r.RunSeq {
		return c
	}
	d.Need(draft.Need{Kind: kind, RunSeq: r.RunSeq})
	return nil
}

// resume goes on from WAITING with what came of the child.
func (d *Visits) resume(r *workflow.StepRun, c *draft.ChildAnswer) {
	d.X.Wait = nil
	d.Move(sm.EventExecutionResumed, sm.ExecutionRunning, "", map[string]any{"child": r.Child.ID, "state": c.State})
	d.grown(r, c)
}

// grown writes down what came of a child. What it has changed stands, and cannot
// be undone from here.
func (d *Visits) grown(r *workflow.StepRun, c *draft.ChildAnswer) {
	child := *r.Child
	child.State = c.State
	r.Child = &child
	r.Jobs, r.Pure, r.Reversible = 1, !c.Changed, false
	switch {
	case r.Child.Mode == workflow.ModeFireAndForget:
		r.Pure, r.Tally = true, workflow.Tally{OK: 1}
	case c.State == sm.ExecutionCompletedAck || c.State == sm.ExecutionCompleted:
		r.Tally = workflow.Tally{OK: 1}
	case c.Changed:
		r.Tally = workflow.Tally{Failed: 1, Failure: childFailure(r, c)}
	default:
		r.Tally = workflow.Tally{NotExecuted: 1}
	}
}

func childFailure(r *workflow.StepRun, c *draft.ChildAnswer) *workflow.Failure {
	why := &workflow.Failure{Code: string(workflow.CauseChildFailed), Step: r.Label,
		Message: fmt.Sprintf("execution %s, which step %q started, ended in %s", r.Child.ID, r.Label, c.State)}
	if c.Failure != nil {
		why.Message += ": " + c.Failure.Message
		why.Entity = c.Failure.Entity
	}
	return why
}

// closeChild ends the visit of a step whose child runs, because the run is ending:
// the child is cancelled first, unless whoever cancels wants it to go on. It
// reports whether the visit has ended.
func (d *Visits) closeChild(r *workflow.StepRun, status sm.StepState) bool {
	if c := d.X.Cancellation; r.Child.Mode == workflow.ModeFireAndForget || c != nil && c.Source != "timeout" && !c.Cascade {
		r.Tally = workflow.Tally{NotExecuted: 1}
		d.Exit(r, status)
		return true
	}
	c := d.child(r, draft.NeedChildEnd)
	if c == nil {
		return false
	}
	if !sm.Terminal(c.State) {
		d.Wait(d.Now.Add(d.P.Poll))
		return false
	}
	d.grown(r, c)
	d.Exit(r, status)
	return true
}

// LeftBehind reports whether something that a run has executed stands that is not
// pure and has not been undone.
func LeftBehind(x *workflow.Execution) bool {
	d := Visits{Draft: &draft.Draft{X: x}}
	return len(d.ToUndo()) > 0
}
