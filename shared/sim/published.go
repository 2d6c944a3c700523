package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Registry keeps what is published, registered and imported.
type Registry struct{ *line }

// PutDefinition stores a definition if none exists under its version. The same
// one by the same hand at the same moment is a repetition.
func (r *Registry) PutDefinition(_ context.Context, tenant string, d workflow.Published) (*workflow.Published, error) {
	return call(r.line, "registry.put_definition", func(bool) (*workflow.Published, error) {
		r.writes(tableRegistry)
		if err := fits(d); err != nil {
			return nil, err
		}
		at := within(tenant, d.Ref.String())
		if old, ok := r.w.definitions[at]; ok {
			if old.Digest == d.Digest && old.PublishedAt.Equal(d.PublishedAt) && old.PublishedBy == d.PublishedBy {
				return nil, nil
			}
			old = replica.Of(old)
			return &old, nil
		}
		r.w.definitions[at] = replica.Of(d)
		return nil, nil
	})
}

// Definition reads one.
func (r *Registry) Definition(_ context.Context, tenant string, ref workflow.Ref) (*workflow.Published, error) {
	return call(r.line, "registry.definition", func(bool) (*workflow.Published, error) {
		r.reads(tableRegistry, 1)
		d, ok := r.w.definitions[within(tenant, ref.String())]
		if !ok {
			return nil, workflow.Errorf(workflow.CodeNotFound, "no workflow %s is published", ref)
		}
		d = replica.Of(d)
		return &d, nil
	})
}

// DefinitionVersions lists heads, by name and version.
func (r *Registry) DefinitionVersions(_ context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.Published], error) {
	return call(r.line, "registry.definition_versions", func(bool) (workflow.List[workflow.Published], error) {
		var all []workflow.Published
		for at, d := range r.w.definitions {
			if at == within(tenant, d.Ref.String()) && (fullName == "" || d.Ref.FullName() == fullName) {
				d.Source = nil
				all = append(all, d)
			}
		}
		slices.SortFunc(all, func(a, b workflow.Published) int { return compare(a.Ref, b.Ref) })
		r.reads(tableRegistry, len(all))
		return paged(all, page, func(d workflow.Published) string { return d.Ref.String() })
	})
}

// compare orders by name and then by version, by number.
func compare(a, b workflow.Ref) int {
	v, _ := workflow.ParseSemver(a.Version)
	o, _ := workflow.ParseSemver(b.Version)
	return cmp.Or(strings.Compare(a.FullName(), b.FullName()), v.Compare(o))
}

// SetArchived archives or restores one version.
func (r *Registry) SetArchived(_ context.Context, tenant string, ref workflow.Ref, archived bool) error {
	_, err := call(r.line, "registry.set_archived", func(bool) (nothing, error) {
		r.writes(tableRegistry)
		at := within(tenant, ref.String())
		d, ok := r.w.definitions[at]
		if !ok {
			return nothing{}, workflow.Errorf(workflow.CodeNotFound, "no workflow %s is published", ref)
		}
		d.Archived = archived
		r.w.definitions[at] = d
		return nothing{}, nil
	})
	return err
}

// PutBlock stores a block if none exists under its version.
func (r *Registry) PutBlock(_ context.Context, tenant string, b workflow.Block) (*workflow.Block, error) {
	return call(r.line, "registry.put_block", func(bool) (*workflow.Block, error) {
		r.writes(tableRegistry)
		at := within(tenant, b.Ref().String())
		if old, ok := r.w.blocks[at]; ok {
			old = replica.Of(old)
			return &old, nil
		}
		r.w.blocks[at] = replica.Of(b)
		return nil, nil
	})
}

func (r *Registry) registered(tenant, fullName string) []workflow.Block {
	var all []workflow.Block
	for at, b := range r.w.blocks {
		ref := b.Ref()
		if at == within(tenant, ref.String()) && (fullName == "" || ref.FullName() == fullName) {
			all = append(all, replica.Of(b))
		}
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return compare(a.Ref(), b.Ref()) })
	return all
}

// BlockVersions lists all versions of one block.
func (r *Registry) BlockVersions(_ context.Context, tenant, fullName string) ([]workflow.Block, error) {
	return call(r.line, "registry.block_versions", func(bool) ([]workflow.Block, error) {
		all := r.registered(tenant, fullName)
		r.reads(tableRegistry, len(all))
		return all, nil
	})
}

// Blocks lists all blocks.
func (r *Registry) Blocks(_ context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error) {
	return call(r.line, "registry.blocks", func(bool) (workflow.List[workflow.Block], error) {
		all := r.registered(tenant, "")
		r.reads(tableRegistry, len(all))
		return paged(all, page, func(b workflow.Block) string { return b.Ref().String() })
	})
}

// Reserve binds an idempotency key if it is free or has expired at now.
func (r *Registry) Reserve(_ context.Context, tenant, key string, want workflow.Binding, now time.Time) (workflow.Binding, bool, error) {
	type answer struct {
		bound workflow.Binding
		fresh bool
	}
	a, err := call(r.line, "registry.reserve", func(bool) (answer, error) {
		r.writes(tableRegistry)
		at := within(tenant, key)
		if old, ok := r.w.bindings[at]; ok && now.Before(old.Expires) {
			return answer{old, old.Execution == want.Execution && old.Digest == want.Digest && old.Expires.Equal(want.Expires)}, nil
		}
		r.w.bindings[at] = want
		return answer{want, true}, nil
	})
	return a.bound, a.fresh, err
}

// Bound reads what a key is bound to.
func (r *Registry) Bound(_ context.Context, tenant, key string, now time.Time) (workflow.Binding, error) {
	return call(r.line, "registry.bound", func(bool) (workflow.Binding, error) {
		r.reads(tableRegistry, 1)
		if b, ok := r.w.bindings[within(tenant, key)]; ok && now.Before(b.Expires) {
			return b, nil
		}
		return workflow.Binding{}, nil
	})
}
