package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// spawn begins the visit of a step that starts a run of its own. The visit is
// committed first; the child's id follows from it, so that however often it is
// started there is one.
func (d *decider) spawn(at int, plan *Plan, r workflow.StepRun) {
	n := &d.f.Resolved.Program.Nodes[at]
	ref, err := workflow.ParseRef(n.Reference.Workflow)
	if err != nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "step %s: %w", n.Label, err)
		return
	}
	ref.Version = d.x.Workflows[n.Reference.Workflow]
	r = d.newRun(at, "", plan, r)
	r.Child = &workflow.Child{
		ID: workflow.DerivedID(d.now, fmt.Sprintf("%s.%d", d.x.ID, r.RunSeq)), Workflow: ref, Mode: n.Reference.Mode,
	}
	d.append(r)
	d.x.Wait = &workflow.Wait{Kind: workflow.WaitChild, Since: d.now, Step: n.Label, Child: r.Child.ID}
	d.move(sm.EventExecutionPaused, sm.ExecutionWaiting, "", map[string]any{"kind": workflow.WaitChild, "step": n.Label, "child": r.Child.ID})
	d.out.Dispatch = r.RunSeq
	d.wait(d.now.Add(d.p.Poll))
}

// followChild waits for a child to end: well, when everything it did is settled,
// or badly.
func (d *decider) followChild() {
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	open := d.open()
	if len(open) != 1 || open[0].Child == nil {
		d.err = workflow.Errorf(workflow.CodeInternal, "the run waits for a child that it has not started")
		return
	}
	r := open[0]
	n := &d.f.Resolved.Program.Nodes[r.Step]
	c := d.child(r, NeedChild)
	if c == nil {
		return
	}
	late := n.StepTimeout > 0 && !d.now.Before(r.EnteredAt.Add(n.StepTimeout.Std()))
	switch {
	case r.Child.Mode == workflow.ModeFireAndForget, c.State == sm.ExecutionCompletedAck:
		d.resume(r, c)
		d.exit(r, sm.StepCompleted)
		d.visited(r)
	case sm.Terminal(c.State) && c.State != sm.ExecutionCompleted:
		d.resume(r, c)
		d.failVisit(r, workflow.CauseChildFailed, childFailure(r, c))
	case late:
		why := &workflow.Failure{Code: "TIMEOUT", Step: r.Label, Message: fmt.Sprintf("step %q has not ended within %s", r.Label, n.StepTimeout.Std())}
		d.x.Wait = nil
		d.fail(workflow.CauseTimeout, why)
		d.move(sm.EventExecutionFailed, sm.ExecutionError, "", map[string]any{"step": r.Label})
		d.stopAll()
	default:
		at := d.now.Add(d.p.Poll)
		if n.StepTimeout > 0 {
			at = earlier(at, r.EnteredAt.Add(n.StepTimeout.Std()))
		}
		d.wait(at)
	}
}

// child is what has become of the visit's child, or nil after asking.
func (d *decider) child(r *workflow.StepRun, kind NeedKind) *ChildAnswer {
	if c := d.f.Child; c != nil && c.RunSeq == r.RunSeq {
		return c
	}
	d.need(Need{Kind: kind, RunSeq: r.RunSeq})
	return nil
}

// resume goes on from WAITING with what came of the child.
func (d *decider) resume(r *workflow.StepRun, c *ChildAnswer) {
	d.x.Wait = nil
	d.move(sm.EventExecutionResumed, sm.ExecutionRunning, "", map[string]any{"child": r.Child.ID, "state": c.State})
	d.grown(r, c)
}

// grown writes down what came of a child. What it has changed stands, and cannot
// be undone from here.
func (d *decider) grown(r *workflow.StepRun, c *ChildAnswer) {
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

func childFailure(r *workflow.StepRun, c *ChildAnswer) *workflow.Failure {
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
func (d *decider) closeChild(r *workflow.StepRun, status sm.StepState) bool {
	if c := d.x.Cancellation; r.Child.Mode == workflow.ModeFireAndForget || c != nil && c.Source != "timeout" && !c.Cascade {
		r.Tally = workflow.Tally{NotExecuted: 1}
		d.exit(r, status)
		return true
	}
	c := d.child(r, NeedChildEnd)
	if c == nil {
		return false
	}
	if !sm.Terminal(c.State) {
		d.wait(d.now.Add(d.p.Poll))
		return false
	}
	d.grown(r, c)
	d.exit(r, status)
	return true
}

// LeftBehind reports whether something that a run has executed stands that is not
// pure and has not been undone.
func LeftBehind(x *workflow.Execution) bool {
	d := decider{x: x}
	return len(d.toUndo()) > 0
}
