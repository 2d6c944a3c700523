package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// enterSwitch begins the step run of a switch whose case has been chosen. It stays open while the
// steps of the case are executed.
func (d *decider) enterSwitch(at int, plan *Plan, r workflow.StepRun) {
	r.Route = plan.Route
	r.AddCaseErrors(plan.CaseErrors)
	r = d.newStepRun(at, "", &Plan{}, r)
	d.appendStepRun(r)
	d.cursor().Iteration = 0
	way := d.facts.Resolution.Program.Nodes[at].Cases[r.Route-1]
	if way.First >= 0 {
		d.goToStep(way.First)
		return
	}
	d.leaveSwitch(d.execution.LastStepRun())
}

// leaveSwitch ends the step run of a switch, and continues where its case says.
func (d *decider) leaveSwitch(r *workflow.StepRun) {
	d.exitStepRun(r, sm.StepCompleted)
	if n := d.node(r); r.Route > 0 && n.Cases[r.Route-1].Goto != nil {
		d.jump(r.StepIndex, n.Cases[r.Route-1].Goto)
		return
	}
	d.continueAfter(r)
}

// setVariables records what a step sets. The step has no jobs, and ends at once.
func (d *decider) setVariables(at int, plan *Plan, r workflow.StepRun) {
	r.Value = plan.Value
	d.appendStepRun(d.newStepRun(at, "", &Plan{}, r))
	d.exitStepRun(d.execution.LastStepRun(), sm.StepCompleted)
	d.continueAfter(d.execution.LastStepRun())
}

// jump continues with another node than the next one. Steps that do not contain the target are
// completed; skipped steps are recorded.
func (d *decider) jump(from int, to *spec.Target) {
	for c := d.openContainer(); c != nil && c.StepIndex != to.In; c = d.openContainer() {
		d.closeContainer(c)
	}
	if to.Node <= from && d.execution.WentBack == 0 {
		d.execution.WentBack = d.execution.Try
	}
	d.recordPassed(from, to)
	d.goToStep(to.Node)
}

// closeContainer ends the step run of a step that the execution leaves before its end.
func (d *decider) closeContainer(c *workflow.StepRun) {
	if d.node(c).RunsWorkflow() {
		d.recordWorkflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, c.Label)
	}
	d.exitStepRun(c, sm.StepCompleted)
}

// recordPassed records the steps that a jump skips: those in the list of the target and, for an
// end, those in the lists that it leaves.
func (d *decider) recordPassed(from int, to *spec.Target) {
	nodes := d.facts.Resolution.Program.Nodes
	passed := 0
	for at := nodes[from].After; at < to.Node; {
		n := &nodes[at]
		if n.Parent == to.In {
			if passed++; passed <= workflow.MaxPassed {
				d.record(workflow.Event{
					Layer: string(sm.LayerStep), Type: string(sm.EventStepPassed), Step: n.Label,
					From: string(sm.StepPending), To: string(sm.StepSkipped),
				}, nil)
			}
		}
		at = max(at+1, n.End)
	}
	if passed > workflow.MaxPassed {
		d.record(workflow.Event{Layer: string(sm.LayerStep), Type: string(sm.EventStepPassed), From: string(sm.StepPending), To: string(sm.StepSkipped)},
			map[string]any{"more": passed - workflow.MaxPassed})
	}
}

// route returns which case handles a failure, or nil after asking for that.
func (d *decider) route(r *workflow.StepRun, handler int) *Route {
	need := Need{Kind: NeedRoute, StepRunSeq: r.Seq, StepIndex: handler, Try: d.execution.Try}
	if f := d.facts.Routes[need]; f != nil {
		return f
	}
	d.need(need)
	return nil
}

// failedInPipeline returns the failed step run of a pipeline because of which the others were
// stopped.
func (d *decider) failedInPipeline(pipeline int) *workflow.StepRun {
	for i := len(d.execution.StepRuns) - 1; i >= 0; i-- {
		if r := &d.execution.StepRuns[i]; r.Pipeline == pipeline && r.Kind == workflow.JobExecute && r.Status == sm.StepFailed {
			return r
		}
	}
	return nil
}

// handleFailure continues after the failure of a step run, if the step or a surrounding one says
// how. A failure that nothing in a branch handles ends the branch. handled is false if nothing
// handles it; missing means that a fact is missing.
func (d *decider) handleFailure(r *workflow.StepRun, cause workflow.Cause, why *workflow.Failure) (handled, missing bool) {
	p := d.facts.Resolution.Program
	r.CaseErrors = slices.DeleteFunc(slices.Clone(r.CaseErrors), func(e workflow.CaseError) bool { return e.OnFailure }) // they are evaluated again
	for handler := r.StepIndex; handler >= 0; handler = p.Nodes[handler].Parent {
		n := &p.Nodes[handler]
		if n.Parallel != nil && handler != r.StepIndex {
			if r.Open() {
				d.exitStepRun(r, sm.StepFailed)
			}
			d.endBranch(why, cause)
			return true, false
		}
		if n.Rollout != nil && handler != r.StepIndex {
			if n.StopsAtFailure() && d.canStop(r) {
				d.stopRollout(r, handler, why)
				return true, false
			}
			return false, false // nothing around a rollout handles a failure
		}
		if d.leftDoubtInWave(r) {
			continue
		}
		if n.ContinueOnError {
			d.handleAt(r, handler, why, nil)
			return true, false
		}
		if len(n.Handlers) == 0 {
			continue
		}
		route := d.route(r, handler)
		if route == nil {
			return false, true
		}
		r.AddCaseErrors(route.CaseErrors)
		if route.Case > 0 {
			d.handleAt(r, handler, why, route)
			return true, false
		}
	}
	return false, false
}

// handleAt ends the step runs up to the node that handles the failure, and continues as the case of
// its onFailure says, or after the node.
func (d *decider) handleAt(r *workflow.StepRun, handler int, why *workflow.Failure, route *Route) {
	n := &d.facts.Resolution.Program.Nodes[handler]
	status := sm.StepFailed
	if route != nil {
		r.Handled = route.Case
		if handler == r.StepIndex {
			status, r.Value = sm.StepCaseHandled, route.Error
		}
	}
	if r.Open() {
		d.exitStepRun(r, status)
	}
	if handler == r.StepIndex && r.Pipeline > 0 && r.Closing {
		d.decision.DispatchSeq = r.Seq // nobody reports the lanes that were closed
	}
	if handler == r.StepIndex && r.Seq != d.lastInPipeline(r) {
		return
	}
	d.leaveFailedContainers(handler, why, route)
	if route != nil && d.node(r).Parallel != nil {
		d.markHandled(r, route.Case)
	}
	if route == nil {
		d.proceedFrom(handler)
		return
	}
	way := n.Handlers[route.Case-1]
	switch {
	case way.First >= 0:
		d.goToStep(way.First)
	case way.Goto != nil:
		d.jump(handler, way.Goto)
	default:
		d.proceedFrom(handler)
	}
}

// markHandled records that the failures in the branches of a step are handled together with its
// own.
func (d *decider) markHandled(f *workflow.StepRun, number int) {
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; d.isIn(r, f) || d.execution.KeptIn(r, f) {
			r.Handled = number
		}
	}
}

// ErrorValue returns the failure of a step as expressions see it: code, message, step and, if it
// has them, entity and details.
func ErrorValue(step string, why *workflow.Failure) (json.RawMessage, error) {
	value := map[string]any{"code": why.Code, "message": why.Message, "step": step}
	if why.Entity != "" {
		value["entity"] = why.Entity
	}
	if len(why.Details) > 0 {
		value["details"] = why.Details
	}
	return workflow.EncodeJSON(value)
}
