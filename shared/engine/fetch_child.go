package engine

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fetchChild answers what has become of the run that a visit has started, after
// starting it where it does not exist. end asks it to cancel first; one that does
// not exist then is created cancelled, so that no handler that was held up can
// start it later.
func (w *workspace) fetchChild(ctx context.Context, n lifecycle.Need) error {
	r := w.execution.StepRunBySeq(n.StepRunSeq)
	if r == nil || r.Child == nil {
		return workflow.Errorf(workflow.CodeInternal, "step run %d has no child", n.StepRunSeq)
	}
	mustCancel := n.Kind == lifecycle.NeedChildCancel
	c := w.e.newWorkspace(w.tenant, r.Child.ID)
	err := c.load(ctx)
	if workflow.Is(err, workflow.CodeNotFound) {
		var refused *workflow.Failure
		if refused, err = w.createChild(ctx, r, c, mustCancel); refused != nil {
			w.facts.Child = &lifecycle.ChildStatus{StepRunSeq: r.Seq, State: sm.ExecutionFailedSafe, Failure: refused}
			return nil
		}
	}
	if err != nil {
		return err
	}
	if mustCancel && !sm.Terminal(c.execution.State) {
		cancel := lifecycle.Command{Kind: lifecycle.CommandCancel, Source: "parent", Reason: "execution " + w.id + ", which started it, is ending", Cascade: true, Actor: "execution/" + w.id}
		if w.execution.Cancellation != nil {
			cancel.Rollback = w.execution.Cancellation.Rollback
		}
		if err := c.advance(ctx, &cancel); err != nil && !workflow.Is(err, workflow.CodeIllegalTransition) {
			return err
		}
	}
	w.pendingCost.Add(c.ports.Meter.Take())
	w.facts.Child = &lifecycle.ChildStatus{
		StepRunSeq: r.Seq, State: c.execution.State, HasChanges: lifecycle.HasChanges(c.execution), Failure: c.execution.Error,
	}
	return nil
}

// createChild creates a child with what the step gives it. What it refuses, it refuses
// for good.
func (w *workspace) createChild(ctx context.Context, r *workflow.StepRun, c *workspace, cancelled bool) (*workflow.Failure, error) {
	depth := 1
	root := w.id
	if p := w.execution.Parent; p != nil {
		depth, root = p.Depth+1, p.Root
	}
	refuse := func(code, message string) *workflow.Failure {
		return &workflow.Failure{Code: code, Message: message, Step: r.Label}
	}
	if depth > workflow.MaxDepth {
		w.limitReached = true
		return refuse(string(workflow.CodeLimit), "runs that start runs go too deep"), nil
	}
	d, err := w.definition(ctx, r.Child.Workflow)
	if err != nil {
		return nil, err
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return nil, err
	}
	planned, err := p.Plan(ctx, w.execution, r)
	if err != nil {
		return nil, err
	}
	if len(planned.Jobs) != 1 {
		return nil, workflow.Errorf(workflow.CodeInternal, "step %q starts a run and has no parameters for it", r.Label)
	}
	in := workflow.Input{Parameters: planned.Jobs[0].Parameters}
	if err := definition.ValidateParameters(d.Definition, in.Parameters); err != nil {
		return refuse("PARAMETERS", port.Reason(err)), nil //nolint:nilerr // it is the run's problem
	}
	selector, err := p.ExecuteOnParameters(ctx, w.execution, r)
	if err == nil && len(selector) > 0 {
		in.Selector = &workflow.Selector{}
		err = json.Unmarshal(selector, in.Selector)
		if in.Selector.Type == "" {
			in.Selector.Type = d.SeedEntity
		}
	}
	if err != nil {
		return refuse("PARAMETERS", "executeOnParameters has no value: "+err.Error()), nil //nolint:nilerr // it is the run's problem
	}
	x := workflow.Execution{
		Tenant: w.tenant, ID: r.Child.ID, Workflow: d.Ref(), CreatedBy: w.execution.CreatedBy, CorrelationID: w.execution.CorrelationID, TraceParent: w.execution.TraceParent, Labels: w.execution.Labels,
		Parent: &workflow.Parent{Execution: w.id, StepRunSeq: r.Seq, Root: root, Depth: depth, Waits: r.Child.Mode == workflow.ModeDispatch},
	}
	var command *lifecycle.Command
	if cancelled {
		command = &lifecycle.Command{Kind: lifecycle.CommandCancel, Source: "parent", Reason: "execution " + w.id + " ended before it began"}
	}
	c.inline = true
	return nil, c.createAndAdvance(ctx, x, in, command)
}

// parentWakeups wakes the run that waits for this one, once it has ended.
func (w *workspace) parentWakeups(from, to *workflow.Execution) []workflow.Wakeup {
	if to.Parent == nil || from.State == to.State || !sm.Terminal(to.State) {
		return nil
	}
	return []workflow.Wakeup{{Tenant: w.tenant, Execution: to.Parent.Execution, Reason: "child " + w.id + " is in " + string(to.State)}}
}

// startChild starts the child of a visit that has just been committed.
func (w *workspace) startChild(ctx context.Context, r *workflow.StepRun) error {
	err := w.fetchChild(ctx, lifecycle.Need{Kind: lifecycle.NeedChild, StepRunSeq: r.Seq})
	if err != nil {
		w.recorder.Warn(ctx, "child not started; the alarm will", err)
		return nil
	}
	return w.ports.Sender.SendWakeups(ctx, 0, wakeup(w.execution, "child started"))
}
