package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fetchChild answers NeedChild and NeedChildClose: the state of the execution that a step run
// starts. NeedChild starts it if it does not exist: the step run was open when this handler read
// it, and if it is not any more, the child finds that out before it begins. NeedChildClose tells
// a child that goes on that its step run is closed. If that message is lost, the timer repeats it.
func (w *workspace) fetchChild(ctx context.Context, n lifecycle.Need) error {
	r := w.execution.StepRunBySeq(n.StepRunSeq)
	if r == nil || r.Child == nil {
		return workflow.Errorf(workflow.CodeInternal, "step run %d has no child", n.StepRunSeq)
	}
	closed := n.Kind == lifecycle.NeedChildClose
	c := w.e.newWorkspace(w.tenant, r.Child.ID)
	defer func() { w.pendingCost.Add(c.ports.Meter.Take()) }()
	err := c.load(ctx)
	if workflow.Is(err, workflow.CodeNotFound) {
		if closed {
			w.facts.Child = &lifecycle.ChildStatus{StepRunSeq: r.Seq, Absent: true}
			return nil
		}
		var refused *workflow.Failure
		if refused, err = w.createChild(ctx, r, c); refused != nil {
			w.facts.Child = &lifecycle.ChildStatus{StepRunSeq: r.Seq, Failure: refused, Refused: true}
			return nil
		}
	}
	if err != nil {
		return err
	}
	over := lifecycle.IsOver(c.execution)
	if closed && !over {
		w.sendWakeups(ctx, "child", []workflow.Wakeup{{Tenant: w.tenant, Execution: c.id, Reason: "its parent does not wait any more", FromParent: true}})
	}
	output, err := w.copyOutput(ctx, r, c)
	if err != nil {
		return err
	}
	w.facts.Child = &lifecycle.ChildStatus{
		StepRunSeq: r.Seq, State: c.execution.State, Over: over,
		HasChanges: lifecycle.HasChanges(c.execution), Partial: c.execution.Outcome() == workflow.OutcomePartial, Failure: c.execution.Error, Output: output,
	}
	if lifecycle.WaitsForPerson(c.execution) {
		w.facts.Child.WaitsForPerson, w.facts.Child.Asks = true, workflow.Truncate(c.execution.Wait.Reason, workflow.MaxShortMessage)
	}
	return nil
}

// copyOutput stores the output of a child that has settled well as a value of this execution: the
// child may be deleted before it.
func (w *workspace) copyOutput(ctx context.Context, r *workflow.StepRun, c *workspace) (none *workflow.Value, _ error) {
	if r.Child.Mode == workflow.ModeFireAndForget || c.execution.State != sm.ExecutionCompletedAck || c.execution.Output == nil {
		return none, nil
	}
	output, err := c.loadValue(ctx, c.execution.Output)
	if err != nil {
		return nil, err
	}
	return w.offloadValue(ctx, &workflow.Value{Inline: output})
}

// createChild creates a child with the parameters and the scope that the step gives
// it. A child that is refused is refused for good.
func (w *workspace) createChild(ctx context.Context, r *workflow.StepRun, c *workspace) (refused *workflow.Failure, err error) {
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
		return refuse(workflow.FailureLimit, "child executions are nested too deeply"), nil
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
		return nil, workflow.Errorf(workflow.CodeInternal, "step %q starts an execution but has no parameters for it", r.Label)
	}
	in := workflow.Input{Parameters: planned.Jobs[0].Parameters}
	if err := definition.ValidateParameters(d.Definition, in.Parameters); err != nil {
		return refuse(workflow.FailureParameters, port.Reason(err)), nil //nolint:nilerr // the mistake is the definition's: it fails the step
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
		return refuse(workflow.FailureParameters, "executeOnParameters cannot be evaluated: "+err.Error()), nil //nolint:nilerr // the mistake is the definition's: it fails the step
	}
	x := workflow.Execution{
		Workflow: d.Ref(), CreatedBy: w.execution.CreatedBy, CorrelationID: w.execution.CorrelationID, TraceParent: w.execution.TraceParent, Labels: w.execution.Labels,
		Parent: &workflow.Parent{Execution: w.id, StepRunSeq: r.Seq, Root: root, Depth: depth, Waits: r.Child.Mode == workflow.ModeDispatch},
	}
	// Counted before it is created, and once however often that is repeated: a definition
	// that starts itself several times would not end before thousands of executions.
	ok, err := w.ports.Store.CountDescendant(ctx, w.tenant, root, c.id, w.e.MaxDescendants)
	if err != nil {
		return nil, err
	}
	if !ok {
		w.limitReached = true
		return refuse(workflow.FailureLimit, fmt.Sprintf("execution %s and those that it started have started %d executions, which is the limit (run.maxDescendants)", root, w.e.MaxDescendants)), nil
	}
	c.inline = true
	return nil, c.createAndAdvance(ctx, x, in, nil)
}
