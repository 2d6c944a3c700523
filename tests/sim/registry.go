package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Registry keeps what is published, registered and imported.
type Registry struct{ *conn }

// PutDefinition stores a definition if none exists under its version. The same
// one by the same hand at the same moment is a repetition.
func (r *Registry) PutDefinition(_ context.Context, tenant string, d workflow.PublishedDefinition) (*workflow.PublishedDefinition, error) {
	return call(r.conn, "registry.put_definition", func(bool) (*workflow.PublishedDefinition, error) {
		r.countWrite(tableRegistry)
		if err := checkItemSize(d); err != nil {
			return nil, err
		}
		at := tenantKey(tenant, d.Ref.String())
		if old, ok := r.w.definitions[at]; ok {
			if old.Digest == d.Digest && old.PublishedAt.Equal(d.PublishedAt) && old.PublishedBy == d.PublishedBy {
				return nil, nil
			}
			old = clone(old)
			return &old, nil
		}
		r.w.definitions[at] = clone(d)
		return nil, nil
	})
}

// Definition reads one.
func (r *Registry) Definition(_ context.Context, tenant string, ref workflow.Ref) (*workflow.PublishedDefinition, error) {
	return call(r.conn, "registry.definition", func(bool) (*workflow.PublishedDefinition, error) {
		r.countReads(tableRegistry, 1)
		d, ok := r.w.definitions[tenantKey(tenant, ref.String())]
		if !ok {
			return nil, workflow.Errorf(workflow.CodeNotFound, "no workflow %s is published", ref)
		}
		d = clone(d)
		return &d, nil
	})
}

// DefinitionVersions lists heads, by name and version.
func (r *Registry) DefinitionVersions(_ context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	return call(r.conn, "registry.definition_versions", func(bool) (workflow.List[workflow.PublishedDefinition], error) {
		var all []workflow.PublishedDefinition
		for at, d := range r.w.definitions {
			if at == tenantKey(tenant, d.Ref.String()) && (fullName == "" || d.Ref.FullName() == fullName) {
				d.Source = nil
				all = append(all, d)
			}
		}
		slices.SortFunc(all, func(a, b workflow.PublishedDefinition) int { return compareRefs(a.Ref, b.Ref) })
		r.countReads(tableRegistry, len(all))
		return paginate(all, page, func(d workflow.PublishedDefinition) string { return d.Ref.String() })
	})
}

// compareRefs orders by name and then by version, by number.
func compareRefs(a, b workflow.Ref) int {
	v, _ := workflow.ParseSemver(a.Version)
	o, _ := workflow.ParseSemver(b.Version)
	return cmp.Or(strings.Compare(a.FullName(), b.FullName()), v.Compare(o))
}

// SetArchived archives or restores one version.
func (r *Registry) SetArchived(_ context.Context, tenant string, ref workflow.Ref, archived bool) error {
	_, err := call(r.conn, "registry.set_archived", func(bool) (empty, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, ref.String())
		d, ok := r.w.definitions[at]
		if !ok {
			return empty{}, workflow.Errorf(workflow.CodeNotFound, "no workflow %s is published", ref)
		}
		d.Archived = archived
		r.w.definitions[at] = d
		return empty{}, nil
	})
	return err
}

// PutBlock stores a block if none exists under its version.
func (r *Registry) PutBlock(_ context.Context, tenant string, b workflow.Block) (*workflow.Block, error) {
	return call(r.conn, "registry.put_block", func(bool) (*workflow.Block, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, b.Ref().String())
		if old, ok := r.w.blocks[at]; ok {
			old = clone(old)
			return &old, nil
		}
		r.w.blocks[at] = clone(b)
		return nil, nil
	})
}

func (r *Registry) blocksNamed(tenant, fullName string) []workflow.Block {
	var all []workflow.Block
	for at, b := range r.w.blocks {
		ref := b.Ref()
		if at == tenantKey(tenant, ref.String()) && (fullName == "" || ref.FullName() == fullName) {
			all = append(all, clone(b))
		}
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return compareRefs(a.Ref(), b.Ref()) })
	return all
}

// BlockVersions lists all versions of one block.
func (r *Registry) BlockVersions(_ context.Context, tenant, fullName string) ([]workflow.Block, error) {
	return call(r.conn, "registry.block_versions", func(bool) ([]workflow.Block, error) {
		all := r.blocksNamed(tenant, fullName)
		r.countReads(tableRegistry, len(all))
		return all, nil
	})
}

// Blocks lists all blocks.
func (r *Registry) Blocks(_ context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error) {
	return call(r.conn, "registry.blocks", func(bool) (workflow.List[workflow.Block], error) {
		all := r.blocksNamed(tenant, "")
		r.countReads(tableRegistry, len(all))
		return paginate(all, page, func(b workflow.Block) string { return b.Ref().String() })
	})
}

// BindIdempotencyKey binds an idempotency key if it is free or has expired at now.
func (r *Registry) BindIdempotencyKey(_ context.Context, tenant, key string, want workflow.IdempotencyRecord, now time.Time) (workflow.IdempotencyRecord, bool, error) {
	type answer struct {
		bound workflow.IdempotencyRecord
		fresh bool
	}
	a, err := call(r.conn, "registry.bind_idempotency_key", func(bool) (answer, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, key)
		if old, ok := r.w.bindings[at]; ok && now.Before(old.ExpiresAt) {
			return answer{old, old.Execution == want.Execution && old.Digest == want.Digest && old.ExpiresAt.Equal(want.ExpiresAt)}, nil
		}
		r.w.bindings[at] = want
		return answer{want, true}, nil
	})
	return a.bound, a.fresh, err
}

// IdempotencyRecord reads what a key is bound to.
func (r *Registry) IdempotencyRecord(_ context.Context, tenant, key string, now time.Time) (workflow.IdempotencyRecord, error) {
	return call(r.conn, "registry.idempotency_record", func(bool) (workflow.IdempotencyRecord, error) {
		r.countReads(tableRegistry, 1)
		if b, ok := r.w.bindings[tenantKey(tenant, key)]; ok && now.Before(b.ExpiresAt) {
			return b, nil
		}
		return workflow.IdempotencyRecord{}, nil
	})
}
