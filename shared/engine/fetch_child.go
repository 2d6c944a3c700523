package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fetchChild answers NeedChild and NeedChildClose: the state of the execution that a step run
// starts.
//
// NeedChild starts the child if it does not exist. The step run was open when this handler read it;
// if it has been closed since, the child notices before it begins. NeedChildClose tells a running
// child that its step run is closed; if that message is lost, the timer repeats it. For the step
// run, a child in fire-and-forget mode is over once it has asked whether it may begin.
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
			w.setChild(&lifecycle.ChildStatus{StepRunSeq: r.Seq, Absent: true})
			return nil
		}
		var refused *workflow.Failure
		if refused, err = w.createChild(ctx, r, c); refused != nil {
			w.setChild(&lifecycle.ChildStatus{StepRunSeq: r.Seq, Failure: refused, Refused: true})
			return nil
		}
	}
	if err != nil {
		return err
	}
	over, absent := lifecycle.IsOver(c.execution), false
	if closed && r.Child.Mode == workflow.ModeFireAndForget {
		over, absent = c.execution.State != sm.ExecutionNew, lifecycle.NeverBegins(c.execution)
	}
	if closed && !over {
		w.sendWakeups(ctx, "child", []workflow.Wakeup{{Tenant: w.tenant, Execution: c.id, Reason: "its parent does not wait any more", FromParent: true}})
	}
	output, tooDeep, err := w.copyOutput(ctx, r, c)
	if err != nil {
		return err
	}
	status := &lifecycle.ChildStatus{
		StepRunSeq: r.Seq, State: c.execution.State, Over: over, Absent: absent,
		HasChanges: lifecycle.HasChanges(c.execution), Partial: c.execution.Outcome() == workflow.OutcomePartial, Dropped: c.execution.DroppedCount > 0, Failure: c.execution.Error, Output: output, TooDeep: tooDeep,
	}
	if lifecycle.WaitsForPerson(c.execution) {
		status.WaitsForPerson, status.Asks = true, workflow.Truncate(c.execution.Wait.Reason, workflow.MaxShortMessage)
	}
	w.setChild(status)
	return nil
}

// setChild makes the status of a child a fact.
func (w *workspace) setChild(c *lifecycle.ChildStatus) {
	if w.facts.Child == nil {
		w.facts.Child = map[int]*lifecycle.ChildStatus{}
	}
	w.facts.Child[c.StepRunSeq] = c
}

// copyOutput stores the output of a child that has completed as a value of this execution, because
// the child may be deleted first. tooDeep is why it is not, where it would become the value of a variable.
func (w *workspace) copyOutput(ctx context.Context, r *workflow.StepRun, c *workspace) (none *workflow.Value, tooDeep *workflow.Failure, _ error) {
	if r.Child.Mode == workflow.ModeFireAndForget || c.execution.State != sm.ExecutionCompletedAck || c.execution.Output == nil {
		return none, nil, nil
	}
	output, err := c.loadValue(ctx, c.execution.Output)
	if err != nil {
		return nil, nil, err
	}
	if r.Forward() {
		p, err := w.ensurePlanner(ctx)
		if err != nil {
			return nil, nil, err
		}
		if p.Program.Nodes[r.StepIndex].OutputKey != "" {
			tooDeep = planner.TooDeep(r.Label, "the output", output)
		}
	}
	if tooDeep != nil {
		return nil, tooDeep, nil
	}
	value, err := w.offloadValue(ctx, &workflow.Value{Inline: output})
	return value, nil, err
}

// createChild creates a child with the parameters and the scope that the step gives it. A refusal
// is final.
func (w *workspace) createChild(ctx context.Context, r *workflow.StepRun, c *workspace) (refused *workflow.Failure, err error) {
	parent, refused := w.parentOf(r)
	if refused != nil {
		return refused, nil
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
	if why := planned.Plan.Problem; why != nil { // only a compensation is planned here
		return why, nil
	}
	if len(planned.Jobs) != 1 {
		return nil, workflow.Errorf(workflow.CodeInternal, "step %q starts an execution but has no parameters for it", r.Label)
	}
	input := planner.ChildInput{Parameters: planned.Jobs[0].Parameters}
	if undone := w.execution.StepRunBySeq(r.Undoes); undone == nil {
		input.Selector, input.Err = p.ExecuteOnParameters(ctx, w.execution, r)
	} else if input.Selector, err = w.entitiesOf(ctx, undone.Child.ID, d.SeedEntity); err != nil {
		return nil, err
	}
	in, refused := childInput(d, r, input)
	if refused != nil {
		return refused, nil
	}
	c.inline = true
	if r.Kind == workflow.JobRollback { // one for one that was counted
		return nil, c.createAndAdvance(ctx, w.newChild(d, r, parent), in, nil)
	}
	// Count before creating, and only once even if this is repeated. Otherwise a definition that
	// starts itself several times would create thousands of executions before it stops.
	if refused, err := w.countChildren(ctx, r, parent.Root, c.id, 1); refused != nil || err != nil {
		return refused, err
	}
	return nil, c.createAndAdvance(ctx, w.newChild(d, r, parent), in, nil)
}

// entitiesOf selects the entities of a type that an execution has worked on. A compensation works
// on exactly these, whatever a query would find now. The result is empty if there are none.
func (w *workspace) entitiesOf(ctx context.Context, id, entityType string) (json.RawMessage, error) {
	of := w.e.newWorkspace(w.tenant, id)
	defer func() { w.pendingCost.Add(of.ports.Meter.Take()) }()
	if err := of.load(ctx); err != nil {
		return nil, err
	}
	entities, err := of.loadAllEntities(ctx, of.execution.Scope)
	if err != nil {
		return nil, err
	}
	s := workflow.Selector{Type: entityType}
	for i := range entities {
		if key := entities[i].Key; key.Type == entityType {
			s.IDs = append(s.IDs, key.ID)
		}
	}
	if len(s.IDs) == 0 {
		return nil, nil
	}
	return workflow.EncodeJSON(s)
}

// parentOf returns what a child of a step run knows about its parent, or why it cannot have one.
func (w *workspace) parentOf(r *workflow.StepRun) (*workflow.Parent, *workflow.Failure) {
	by := &workflow.Parent{Execution: w.id, StepRunSeq: r.Seq, Root: w.execution.Root(), Depth: w.execution.Depth() + 1, Waits: r.Child.Mode == workflow.ModeDispatch}
	if undone := w.execution.StepRunBySeq(r.Undoes); undone != nil && undone.Child != nil {
		by.Compensates = &workflow.Compensated{Execution: undone.Child.ID, Step: undone.Label}
	}
	if by.Depth > workflow.MaxDepth {
		w.limitReached = true
		return nil, &workflow.Failure{Code: workflow.FailureLimit, Message: "child executions are nested too deeply", Step: r.Label}
	}
	return by, nil
}

// childInput returns the input of a child, or why the definition refuses it.
func childInput(d *definitions.Definition, r *workflow.StepRun, with planner.ChildInput) (in workflow.Input, refused *workflow.Failure) {
	in.Parameters = with.Parameters
	err := with.Err
	if err == nil {
		if err := definition.ValidateParameters(d.Definition, in.Parameters); err != nil {
			return in, &workflow.Failure{Code: workflow.FailureParameters, Message: plan.ErrorText(err), Step: r.Label}
		}
		if err := takeSealed(d.Definition, &in); err != nil || len(in.Plain) > 0 {
			return in, &workflow.Failure{Code: workflow.FailureSealed, Message: "a parameter of the child is sealed: only a request can give it", Step: r.Label}
		}
		if len(with.Selector) > 0 {
			given := &workflow.Selector{}
			if err = json.Unmarshal(with.Selector, given); err == nil {
				selector, issues := validateSelector(d.Definition, given)
				if err := workflow.Invalid("the selection of entities is not valid", issues); err != nil {
					return in, &workflow.Failure{Code: workflow.FailureParameters, Message: plan.ErrorText(err), Step: r.Label}
				}
				in.Selector = selector
			}
		}
	}
	if err != nil {
		return in, &workflow.Failure{Code: workflow.FailureParameters, Message: "executeOnParameters cannot be evaluated: " + err.Error(), Step: r.Label}
	}
	return in, nil
}

// countChildren counts n more children among the descendants of the outermost ancestor. It refuses
// them if there are too many.
func (w *workspace) countChildren(ctx context.Context, r *workflow.StepRun, root, as string, n int) (refused *workflow.Failure, err error) {
	ok, err := w.ports.Store.CountDescendants(ctx, w.tenant, root, as, n, w.e.MaxDescendants)
	if err != nil || ok {
		return nil, err
	}
	w.limitReached = true
	message := fmt.Sprintf("execution %s and those that it started have started %d executions, which is the limit (run.maxDescendants)", root, w.e.MaxDescendants)
	if n > 1 {
		message = fmt.Sprintf("step %q would start %d executions, and execution %s and those that it started may start %d in all (run.maxDescendants)", r.Label, n, root, w.e.MaxDescendants)
	}
	return &workflow.Failure{Code: workflow.FailureLimit, Step: r.Label, Message: message}, nil
}

// newChild returns the execution of a child, without its input. It inherits the region of its
// parent unless the step sets another.
func (w *workspace) newChild(d *definitions.Definition, r *workflow.StepRun, parent *workflow.Parent) workflow.Execution {
	return workflow.Execution{
		Workflow: d.Ref(), CreatedBy: w.execution.CreatedBy, CorrelationID: w.execution.CorrelationID, TraceParent: w.execution.TraceParent, Labels: w.execution.Labels,
		// If an operator has forced the retry of a rollback, it overwrites what others have
		// changed.
		Forced: r.Kind == workflow.JobRollback && w.execution.Forced && w.execution.RollbackTries > 0,
		Parent: parent, Region: cmp.Or(w.program.Nodes[r.StepIndex].Reference.Region, w.execution.Region),
	}
}
