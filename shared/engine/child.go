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

// child answers what has become of the run that a visit has started, after
// starting it where it does not exist. end asks it to cancel first; one that does
// not exist then is created cancelled, so that no handler that was held up can
// start it later.
func (w *work) child(ctx context.Context, n lifecycle.Need) error {
	r := w.x.RunOf(n.RunSeq)
	if r == nil || r.Child == nil {
		return workflow.Errorf(workflow.CodeInternal, "step run %d has no child", n.RunSeq)
	}
	end := n.Kind == lifecycle.NeedChildEnd
	c := w.e.work(w.tenant, r.Child.ID)
	err := c.load(ctx)
	if workflow.Is(err, workflow.CodeNotFound) {
		var refused *workflow.Failure
		if refused, err = w.spawn(ctx, r, c, end); refused != nil {
			w.facts.Child = &lifecycle.ChildAnswer{RunSeq: r.RunSeq, State: sm.ExecutionFailedSafe, Failure: refused}
			return nil
		}
	}
	if err != nil {
		return err
	}
	if end && !sm.Terminal(c.x.State) {
		cancel := lifecycle.Command{Kind: lifecycle.CommandCancel, Source: "parent", Reason: "execution " + w.id + ", which started it, is ending", Cascade: true, Actor: "execution/" + w.id}
		if w.x.Cancellation != nil {
			cancel.Rollback = w.x.Cancellation.Rollback
		}
		if err := c.drive(ctx, &cancel); err != nil && !workflow.Is(err, workflow.CodeIllegalTransition) {
			return err
		}
	}
	w.pending.Add(c.ports.Meter.Take())
	w.facts.Child = &lifecycle.ChildAnswer{
		RunSeq: r.RunSeq, State: c.x.State, Changed: lifecycle.LeftBehind(c.x), Failure: c.x.Error,
	}
	return nil
}

// spawn creates a child with what the step gives it. What it refuses, it refuses
// for good.
func (w *work) spawn(ctx context.Context, r *workflow.StepRun, c *work, cancelled bool) (*workflow.Failure, error) {
	depth := 1
	root := w.id
	if p := w.x.Parent; p != nil {
		depth, root = p.Depth+1, p.Root
	}
	refuse := func(code, message string) *workflow.Failure {
		return &workflow.Failure{Code: code, Message: message, Step: r.Label}
	}
	if depth > workflow.MaxDepth {
		w.stopped = true
		return refuse(string(workflow.CodeLimit), "runs that start runs go too deep"), nil
	}
	d, err := w.definition(ctx, r.Child.Workflow)
	if err != nil {
		return nil, err
	}
	p, err := w.plans(ctx)
	if err != nil {
		return nil, err
	}
	planned, err := p.Plan(ctx, w.x, r)
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
	on, err := p.On(ctx, w.x, r)
	if err == nil && len(on) > 0 {
		in.Selector = &workflow.Selector{}
		err = json.Unmarshal(on, in.Selector)
		if in.Selector.Type == "" {
			in.Selector.Type = d.SeedEntity
		}
	}
	if err != nil {
		return refuse("PARAMETERS", "executeOnParameters has no value: "+err.Error()), nil //nolint:nilerr // it is the run's problem
	}
	x := workflow.Execution{
		Tenant: w.tenant, ID: r.Child.ID, Workflow: d.Ref(), CreatedBy: w.x.CreatedBy, Correlation: w.x.Correlation, Trace: w.x.Trace, Labels: w.x.Labels,
		Parent: &workflow.Parent{Execution: w.id, RunSeq: r.RunSeq, Root: root, Depth: depth, Waits: r.Child.Mode == workflow.ModeDispatch},
	}
	var command *lifecycle.Command
	if cancelled {
		command = &lifecycle.Command{Kind: lifecycle.CommandCancel, Source: "parent", Reason: "execution " + w.id + " ended before it began"}
	}
	c.inline = true
	return nil, c.create(ctx, x, in, command)
}

// tellParent wakes the run that waits for this one, once it has ended.
func (w *work) tellParent(from, to *workflow.Execution) []workflow.Look {
	if to.Parent == nil || from.State == to.State || !sm.Terminal(to.State) {
		return nil
	}
	return []workflow.Look{{Tenant: w.tenant, Execution: to.Parent.Execution, Why: "child " + w.id + " is in " + string(to.State)}}
}

// startChild starts the child of a visit that has just been committed.
func (w *work) startChild(ctx context.Context, r *workflow.StepRun) error {
	err := w.child(ctx, lifecycle.Need{Kind: lifecycle.NeedChild, RunSeq: r.RunSeq})
	if err != nil {
		w.telling.Warn(ctx, "child not started; the alarm will", err)
		return nil
	}
	return w.ports.Board.Notify(ctx, 0, look(w.x, "child started"))
}
