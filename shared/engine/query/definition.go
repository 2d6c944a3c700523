package query

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PinnedDefinition is the definition with which an execution works. It is the published one, since a version never
// changes: two reads, and nothing about it is stored with the execution but the versions.
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
