package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
)

// fetchKeptJobs answers NeedKeptJobs for an execution that has ended.
func (w *workspace) fetchKeptJobs(ctx context.Context) error {
	p, err := w.ensurePlanner(ctx)
	if err != nil {
		return err
	}
	in, err := p.KeptJobs(ctx, w.execution)
	w.facts.KeptJobs = &lifecycle.KeptJobs{In: in}
	return err
}
