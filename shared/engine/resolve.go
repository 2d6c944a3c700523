package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// definition is the pinned definition, or another exact one, compiled.
func (w *work) definition(ctx context.Context, ref workflow.Ref) (*library.Definition, error) {
	return w.e.library.Definition(ctx, w.ports.Registry, w.tenant, ref)
}

// resolve fetches the definition and, of every block it names, the pinned
// version; before anything is pinned, the newest version that matches.
func (w *work) resolve(ctx context.Context) error {
	d, err := w.definition(ctx, w.x.Workflow)
	if err != nil {
		return err
	}
	r := &lifecycle.Resolved{Definition: d.Definition, Blocks: map[string]workflow.Block{}}
	for i := range d.Steps {
		s := &d.Steps[i]
		if _, ok := r.Blocks[s.FunctionBlock]; ok {
			continue
		}
		b, problem, err := w.e.library.Block(ctx, w.ports.Registry, w.tenant, s, w.x.Blocks[s.FunctionBlock])
		if err != nil {
			return err
		}
		if problem != nil {
			r.Problem = problem
			break
		}
		r.Blocks[s.FunctionBlock] = b
	}
	w.facts.Resolved = r
	w.library = d
	return nil
}
