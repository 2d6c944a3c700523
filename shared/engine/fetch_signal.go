package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchSignal answers NeedSignal: whether the data of a signal match what a step run waits for. A
// signal without data counts as null. A condition that cannot be evaluated counts as false.
func (w *workspace) fetchSignal(ctx context.Context, n lifecycle.Need, draft *workflow.Execution) error {
	at := slices.IndexFunc(draft.Signals, func(s workflow.Signal) bool { return s.ID == n.Signal })
	if at < 0 {
		return workflow.Errorf(workflow.CodeInternal, "the mailbox has no signal %q", n.Signal)
	}
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	signal := &draft.Signals[at]
	data := signal.Data
	if signal.Stored != nil {
		if data, err = w.ports.Store.LoadValue(ctx, w.tenant, w.id, workflow.ValueOfSignals, *signal.Stored); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	f := &lifecycle.SignalCheck{}
	var s json.RawMessage
	if wait := p.Program.Nodes[n.StepIndex].Wait; wait != nil { // otherwise its block asked for any signal
		s = wait.Schema()
	}
	if schema.Absent(s) || len(schema.Validate(s, data, "data")) == 0 {
		expressions, err := p.WaitExpressions(ctx, draft, n)
		if err != nil {
			return err
		}
		fits, err := expressions.SignalFits(n.StepIndex, data)
		f.Fits = fits && err == nil
	}
	if f.Fits {
		if f.Value, err = w.offloadValue(ctx, &workflow.Value{Inline: data}); err != nil {
			return err
		}
	}
	if w.facts.Signals == nil {
		w.facts.Signals = map[lifecycle.Need]*lifecycle.SignalCheck{}
	}
	w.facts.Signals[n] = f
	return nil
}
