package engine

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchEscalated answers NeedEscalated: it starts the executions of the escalation levels that have
// not been started. Each has a fixed id, so it is started only once even if this is repeated.
func (w *workspace) fetchEscalated(ctx context.Context, n lifecycle.Need) error {
	r := w.execution.StepRunBySeq(n.StepRunSeq)
	if r == nil || r.Wait == nil || r.Wait.Question == nil {
		return workflow.Errorf(workflow.CodeInternal, "step run %d asks nobody", n.StepRunSeq)
	}
	q, err := w.question(ctx, r)
	if err != nil {
		return err
	}
	for level := r.Wait.Paged + 1; level <= min(n.Level, len(q.Escalate)); level++ {
		e := q.Escalate[level-1]
		if e.Workflow == "" {
			continue
		}
		id := workflow.DerivedID(r.EnteredAt, fmt.Sprintf("%s.%d.esc.%d", w.id, r.Seq, level))
		err := w.startEscalation(ctx, r, id, e)
		switch workflow.CodeOf(err) {
		case "":
		case workflow.CodeInvalid, workflow.CodeNotFound, workflow.CodeLimit:
			// A later attempt would be refused too, and the wait must go on.
			w.recorder.Warn(ctx, "the execution of an escalation is refused", err)
		default:
			return err
		}
	}
	if w.facts.Escalated == nil {
		w.facts.Escalated = map[int]int{}
	}
	w.facts.Escalated[r.Seq] = n.Level
	return nil
}

// startEscalation creates the execution of one level, unless it exists, and wakes it.
func (w *workspace) startEscalation(ctx context.Context, r *workflow.StepRun, id string, e workflow.Escalation) error {
	depth, root := w.execution.Depth()+1, w.execution.Root()
	if depth > workflow.MaxDepth {
		return workflow.Errorf(workflow.CodeLimit, "child executions are nested too deeply")
	}
	heads, err := w.ports.Store.Heads(ctx, w.tenant, []string{id})
	if err != nil {
		return err
	}
	c := w.e.newWorkspace(w.tenant, id)
	if heads[id].State != "" {
		return w.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: w.tenant, Execution: id, Reason: "escalation"})
	}
	req := views.StartRequest{Workflow: e.Workflow, Parameters: e.Parameters}
	d, err := c.resolveWorkflow(ctx, req)
	if err != nil {
		return err
	}
	in, err := validateStart(d.Definition, req)
	if err != nil {
		return err
	}
	ok, err := w.ports.Store.CountDescendants(ctx, w.tenant, root, id, 1, w.e.MaxDescendants)
	if err != nil {
		return err
	}
	if !ok {
		return workflow.Errorf(workflow.CodeLimit, "execution %s and those that it started have started %d executions, which is the limit (run.maxDescendants)", root, w.e.MaxDescendants)
	}
	x, err := c.newExecution(ctx, workflow.Execution{
		Workflow: d.Ref(), CreatedBy: w.execution.CreatedBy, CorrelationID: w.execution.CorrelationID, TraceParent: w.execution.TraceParent, Labels: w.execution.Labels,
		Parent: &workflow.Parent{Execution: w.id, StepRunSeq: r.Seq, Root: root, Depth: depth}, Region: w.execution.Region,
	}, in)
	if err != nil {
		return err
	}
	x.Version, x.MinFencingToken = 1, w.e.Policy.MinFencingToken
	if err := c.prepareCommit(ctx, x, x); err != nil {
		return err
	}
	x.DueAt = w.e.now().Add(w.e.Policy.PollInterval) // in case the wake-up is lost
	if _, err := c.ports.Store.Create(ctx, x); err != nil {
		return err
	}
	w.pendingCost.Add(c.ports.Meter.Take())
	return w.ports.Sender.SendWakeups(ctx, 0, wakeup(x, "escalation"))
}
