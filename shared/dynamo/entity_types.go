package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func entityTypesKey(tenant string) string { return table.TenantPrefix(tenant) + "entitytypes" }

// putEntityTypes notes the types of entities that are about to be put: first, so that
// none is ever there whose type is not listed. It costs one write for each type.
func (r *Registry) putEntityTypes(ctx context.Context, tenant string, entities []workflow.Entity) error {
	written := map[string]bool{}
	for i := range entities {
		name := entities[i].Type
		if written[name] {
			continue
		}
		written[name] = true
		if _, _, err := r.t.Put(ctx, table.Item{topology.AttrPK: table.S(entityTypesKey(tenant)), topology.AttrSK: table.S(name)}, "", nil); err != nil {
			return err
		}
	}
	return nil
}

// EntityTypes lists the types of which an entity has been put, in order.
func (r *Registry) EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[string]{}, err
	}
	pk := entityTypesKey(tenant)
	rows := r.t.Query(ctx, table.Query{
		KeyCondition: "#pk = :pk", Values: table.Item{"pk": table.S(pk)}, StartAfter: startKeyAfter(pk, after), PageSize: pageLimit(page) + 1, Consistent: true,
	})
	return collectPage(rows, pageLimit(page), func(it table.Item) (string, error) { return it.Key().SK, nil })
}
