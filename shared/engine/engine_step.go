package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// executeEngineStep does what the step of a step run says that is open, and committed, and reports how that
// went. It may be repeated: the write is named after the step run. For one that is closed it only reads
// whether that was done before; whoever has read it before may be at it still.
func (w *workspace) executeEngineStep(ctx context.Context, n lifecycle.Need, p *planner.Planner, r *workflow.StepRun) (*lifecycle.Report, error) {
	rep := &lifecycle.Report{StepRunSeq: r.Seq, Complete: true}
	if n.Kind == lifecycle.NeedClose {
		done, err := w.engineStepDone(ctx, p, r)
		if p.Program.Nodes[r.StepIndex].Insert != nil && workflow.Is(err, workflow.CodeUnavailable) { // an end does not wait for a table that nothing else needs
			w.recorder.Warn(ctx, "closed step counts as not executed; whether it was done cannot be read", err, slog.String(observe.Step, r.Label))
			err = nil
		}
		if rep.Counts.OK = 1; !done {
			rep.Counts = workflow.Counts{NotExecuted: 1}
		}
		return rep, err
	}
	planned, err := p.Plan(ctx, w.execution, r)
	if err != nil {
		return nil, err
	}
	if len(planned.Jobs) != 1 {
		return nil, workflow.Errorf(workflow.CodeInternal, "step %q has nothing to do, and was entered", r.Label)
	}
	var refused error
	if n := &p.Program.Nodes[r.StepIndex]; n.Insert != nil {
		refused, err = w.insertRow(ctx, n.Insert.Table, r, planned.Jobs[0].Parameters)
	} else {
		refused, err = w.makeSchedule(ctx, n.Schedule, r, planned.Jobs[0].Parameters)
	}
	switch {
	case workflow.Is(err, workflow.CodeUnavailable): // later; what else is open goes on
		w.recorder.Warn(ctx, "step not done; the timer will retry", err, slog.String(observe.Step, r.Label))
		rep.Complete = false
	case err != nil:
		return nil, err
	case refused != nil:
		rep.Counts.Failed, rep.Counts.Failure = 1, engineStepFailure(r, refused)
	default:
		rep.Counts.OK = 1
	}
	return rep, nil
}

// engineStepDone reports whether a handler that died before its commit has done what the step of a step run says.
func (w *workspace) engineStepDone(ctx context.Context, p *planner.Planner, r *workflow.StepRun) (bool, error) {
	n := &p.Program.Nodes[r.StepIndex]
	if n.Insert != nil {
		return w.hasRow(ctx, n.Insert.Table, r)
	}
	planned, err := p.Plan(ctx, w.execution, r)
	if err != nil || len(planned.Jobs) != 1 {
		return false, err
	}
	return w.hasMadeSchedule(ctx, n.Schedule, r, planned.Jobs[0].Parameters)
}

func (w *workspace) rowID(r *workflow.StepRun) string {
	return workflow.RowID(w.id, r.Seq, 0, 0)
}

func (w *workspace) hasRow(ctx context.Context, table string, r *workflow.StepRun) (bool, error) {
	return w.ports.Rows.HasRow(ctx, w.tenant, table, w.rowID(r))
}

// insertRow puts the row of a step run into a table. refused says why it never can be. The table may have
// changed since the row was stored: one that is there is not refused.
func (w *workspace) insertRow(ctx context.Context, name string, r *workflow.StepRun, row json.RawMessage) (refused, err error) {
	if refused, err = w.putRow(ctx, name, r, row); refused == nil || err != nil {
		return nil, err
	}
	if done, err := w.hasRow(ctx, name, r); done || err != nil {
		return nil, err
	}
	return refused, nil
}

func (w *workspace) putRow(ctx context.Context, name string, r *workflow.StepRun, row json.RawMessage) (refused, err error) {
	table, err := w.ports.Registry.Table(ctx, w.tenant, name)
	if err != nil {
		return nil, err
	}
	if table.Revision == 0 {
		return workflow.Invalid("the row cannot be stored", []workflow.Issue{{Path: "table", Code: workflow.IssueTableNotFound, Message: "there is no table " + name}}), nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(row, &values); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "decode the row of step %q: %w", r.Label, err)
	}
	made, err := table.MakeRow(values)
	if workflow.Is(err, workflow.CodeInvalid) || workflow.Is(err, workflow.CodeTooLarge) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	var until time.Time
	if kept := table.Retention.Std(); kept > 0 {
		until = r.EnteredAt.Add(kept)
	}
	return nil, w.ports.Rows.PutRow(ctx, w.tenant, name, workflow.Row{
		ID: w.rowID(r), At: r.EnteredAt, Execution: w.id, Workflow: w.execution.Workflow.String(), Step: r.Label, Values: made,
	}, until)
}

// engineStepFailure is a refusal as the failure of a step run. Its code is that of the first thing that is wrong.
func engineStepFailure(r *workflow.StepRun, refused error) *workflow.Failure {
	why := &workflow.Failure{Code: workflow.CodeOf(refused).OfFailure(), Step: r.Label, Message: refused.Error()}
	var e *workflow.Error
	if errors.As(refused, &e) {
		why.Message = e.Message
		for i, issue := range e.Issues {
			if i == 0 {
				why.Code = strings.ToUpper(issue.Code)
			}
			why.Message += "; " + issue.Message
		}
	}
	why.Message = workflow.Truncate(why.Message, workflow.MaxShortMessage)
	return why
}
