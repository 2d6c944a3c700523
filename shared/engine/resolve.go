package engine

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// definition is the pinned definition, or another exact one, compiled.
func (w *work) definition(ctx context.Context, ref workflow.Ref) (*library.Definition, error) {
	return w.e.library.Definition(ctx, w.ports.Registry, w.tenant, ref)
}

// resolve fetches the run's program and, of every block it names, the pinned
// version; before anything is pinned, the newest version that matches.
func (w *work) resolve(ctx context.Context) error {
	r := &lifecycle.Resolved{Blocks: map[string]workflow.Block{}}
	program, problem, err := w.e.library.Program(ctx, w.ports.Registry, w.tenant, w.x.Workflow, w.x.Workflows)
	if err != nil {
		return err
	}
	if problem != nil {
		r.Problem = problem
		w.facts.Resolved = r
		return nil
	}
	r.Program, r.Workflows = &program.Program, program.Workflows
	for i := range program.Nodes {
		n := &program.Nodes[i]
		if r.Problem == nil && n.FunctionBlock != "" {
			err = w.block(ctx, r, n.FunctionBlock, n.Label, n.RunOn)
		}
		if err != nil {
			return err
		}
	}
	for i := range program.Acquisitions {
		a := &program.Acquisitions[i]
		if r.Problem == nil && a.Block != "" {
			err = w.block(ctx, r, a.Block, program.Label(a.Space, a.Step), "")
		}
		if err != nil {
			return err
		}
	}
	w.facts.Resolved, w.program, w.planner = r, program, nil
	return nil
}

// block adds the block of a step, or of an acquisition, which runs on nothing.
func (w *work) block(ctx context.Context, r *lifecycle.Resolved, written, label, runOn string) error {
	b, known := r.Blocks[written]
	if !known {
		found, problem, err := w.e.library.Block(ctx, w.ports.Registry, w.tenant, written, label, w.x.Blocks[written])
		if err != nil {
			return err
		}
		if r.Problem = problem; problem != nil {
			return nil
		}
		b = found
		r.Blocks[written] = b
	}
	if runOn != "" && b.RunOn != "" && b.RunOn != runOn {
		r.Problem = &workflow.Failure{Code: "BLOCK_MISMATCH", Step: label,
			Message: fmt.Sprintf("step %q runs on %s, but block %s on %s", label, runOn, b.Ref(), b.RunOn)}
	}
	return nil
}
