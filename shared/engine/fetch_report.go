package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// fetchReport answers NeedReport, NeedFailure and NeedClose: it reads how far an open
// step run has come, why it fails, or continues to close it. If an execution that ended unsafely has a step run
// that can never be closed, the report's problem says why. What the engine does itself is done here.
func (w *workspace) fetchReport(ctx context.Context, n lifecycle.Need) error {
	var rep *lifecycle.Report
	p, err := w.ensurePlanner(ctx)
	if r := w.execution.StepRunBySeq(n.StepRunSeq); err == nil && r != nil && r.ByEngine {
		rep, err = w.executeEngineStep(ctx, n, p, r)
	} else if err == nil {
		rep, err = p.Report(ctx, w.execution, n, w.now)
	}
	if err != nil && w.execution.State == sm.ExecutionFailedUnsafe && port.Permanent(err) {
		rep, err = &lifecycle.Report{StepRunSeq: n.StepRunSeq, Problem: &workflow.Failure{Code: workflow.CodeOf(err).OfFailure(), Message: port.Reason(err)}}, nil
	}
	if err != nil {
		return err
	}
	if a := rep.Wait; a != nil && a.Input != nil {
		raw, err := workflow.EncodeJSON(workflow.Question{Title: a.Reason, Schema: a.Input.Schema, Who: a.Input.Who})
		if err != nil {
			return workflow.Errorf(workflow.CodeInternal, "encode a question: %w", err)
		}
		if rep.Question, err = w.offloadValue(ctx, &workflow.Value{Inline: raw}); err != nil {
			return err
		}
	}
	if w.facts.Reports == nil {
		w.facts.Reports = map[lifecycle.Need]*lifecycle.Report{}
	}
	w.facts.Reports[n] = rep
	return nil
}
