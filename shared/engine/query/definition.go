package query

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PinnedDefinition returns the definition that an execution uses. It takes two reads: a published
// version never changes, so the execution stores only the versions.
func (v *Service) PinnedDefinition(ctx context.Context, c workflow.Caller, id string) (views.PinnedDefinition, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.PinnedDefinition{}, err
	}
	x := i.Execution()
	p, err := i.Ports().Registry.Definition(ctx, c.Tenant, x.Workflow)
	if err != nil {
		return views.PinnedDefinition{}, err
	}
	return views.PinnedDefinition{
		Workflow: p.Ref, Digest: p.Digest, PublishedAt: p.PublishedAt, Definition: p.Source, Workflows: x.Workflows, Blocks: x.Blocks,
	}, nil
}
