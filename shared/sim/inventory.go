package sim

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/sim/replica"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PutEntities upserts: attributes and groups are replaced, the version grows,
// the token stays.
func (r *Registry) PutEntities(_ context.Context, tenant string, entities []workflow.Entity) error {
	_, err := call(r.line, "registry.put_entities", func(bool) (nothing, error) {
		for _, e := range entities {
			r.writes(tableRegistry)
			if err := fits(e); err != nil {
				return nothing{}, err
			}
			if r.w.entities[tenant] == nil {
				r.w.entities[tenant] = map[workflow.EntityKey]workflow.Entity{}
			}
			old := r.w.entities[tenant][e.Key()]
			e = replica.Of(e)
			e.Version, e.Token = old.Version+1, old.Token
			r.w.entities[tenant][e.Key()] = e
		}
		return nothing{}, nil
	})
	return err
}

// Entities reads by key; missing ones are left out.
func (r *Registry) Entities(_ context.Context, tenant string, keys []workflow.EntityKey, _ bool) (map[workflow.EntityKey]workflow.Entity, error) {
	return call(r.line, "registry.entities", func(bool) (map[workflow.EntityKey]workflow.Entity, error) {
		r.reads(tableRegistry, len(keys))
		found := map[workflow.EntityKey]workflow.Entity{}
		for _, k := range keys {
			if e, ok := r.w.entities[tenant][k]; ok {
				found[k] = replica.Of(e)
			}
		}
		return found, nil
	})
}

// EntitiesOf lists a type's entities in order of id.
func (r *Registry) EntitiesOf(_ context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error) {
	return call(r.line, "registry.entities_of", func(bool) (workflow.List[workflow.Entity], error) {
		var all []workflow.Entity
		for k, e := range r.w.entities[tenant] {
			if k.Type == entityType {
				all = append(all, e)
			}
		}
		slices.SortFunc(all, func(a, b workflow.Entity) int { return a.Key().Compare(b.Key()) })
		list, err := paged(all, page, func(e workflow.Entity) string { return e.ID })
		r.reads(tableRegistry, len(list.Items))
		return list, err
	})
}
