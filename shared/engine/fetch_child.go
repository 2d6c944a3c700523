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

// fetchChild answers NeedChild and NeedChildCancel: the state of the execution that a
// step run starts, after starting it if it does not exist. NeedChildCancel cancels it
// first. A child that does not exist then is created cancelled, so that a slow
// handler cannot start it later.
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
			w.facts.Child = &lifecycle.ChildStatus{StepRunSeq: r.Seq, State: sm.ExecutionFailedSafe, Failure: refused, Refused: true}
			return nil
		}
	}
	if err != nil {
		return err
	}
	if mustCancel && !sm.Terminal(c.execution.State) {
		cancel := lifecycle.Command{Kind: lifecycle.CommandCancel, Source: "parent", Reason: "the parent execution " + w.id + " is ending", Cascade: true, Actor: "execution/" + w.id}
		if w.execution.Cancellation != nil {
			cancel.Rollback = w.execution.Cancellation.Rollback
		}
		if err := c.advance(ctx, &cancel); err != nil && !workflow.Is(err, workflow.CodeIllegalTransition) {
			return err
		}
	}
	output, err := w.copyOutput(ctx, r, c)
	if err != nil {
		return err
	}
	w.pendingCost.Add(c.ports.Meter.Take())
	w.facts.Child = &lifecycle.ChildStatus{
		StepRunSeq: r.Seq, State: c.execution.State, HasChanges: lifecycle.HasChanges(c.execution), Partial: c.execution.Outcome() == workflow.OutcomePartial, Failure: c.execution.Error, Output: output,
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
func (w *workspace) createChild(ctx context.Context, r *workflow.StepRun, c *workspace, cancelled bool) (refused *workflow.Failure, err error) {
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
	var command *lifecycle.Command
	if !cancelled {
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
	} else {
		command = &lifecycle.Command{Kind: lifecycle.CommandCancel, Source: "parent", Reason: "the parent execution " + w.id + " ended before this one began"}
	}
	c.inline = true
	return nil, c.createAndAdvance(ctx, x, in, command)
}
