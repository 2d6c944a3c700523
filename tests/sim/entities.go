package sim

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PutEntities upserts: attributes and groups are replaced, the version grows,
// the token stays, and the watchers go to the caller.
func (r *Registry) PutEntities(_ context.Context, tenant string, entities []workflow.Entity) ([]string, error) {
	return call(r.conn, "registry.put_entities", func(bool) ([]string, error) {
		watchers := map[string]bool{}
		for _, e := range entities {
			r.countWrite(tableRegistry)
			if err := checkItemSize(e); err != nil {
				return slices.Sorted(maps.Keys(watchers)), err
			}
			if r.w.entities[tenant] == nil {
				r.w.entities[tenant] = map[workflow.EntityKey]workflow.Entity{}
			}
			old := r.w.entities[tenant][e.Key()]
			e = clone(e)
			e.Version, e.Token = old.Version+1, old.Token
			r.storeEntity(tenant, old, e)
			at := tenantKey(tenant, e.Key().String())
			maps.Copy(watchers, r.w.watchers[at])
			delete(r.w.watchers, at)
		}
		return slices.Sorted(maps.Keys(watchers)), nil
	})
}

// storeEntity writes an entity in place of what it was before.
func (r *Registry) storeEntity(tenant string, old, e workflow.Entity) {
	r.w.entities[tenant][e.Key()] = e
	if r.w.Observer != nil {
		r.w.Observer.EntityWritten(old, e)
	}
}

// AddWatcher adds an execution to those that want to know when the entity is written.
func (r *Registry) AddWatcher(_ context.Context, tenant string, key workflow.EntityKey, execution string) (bool, error) {
	return call(r.conn, "registry.add_watcher", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		if _, ok := r.w.entities[tenant][key]; !ok {
			return false, nil
		}
		at := tenantKey(tenant, key.String())
		if r.w.watchers[at] == nil {
			r.w.watchers[at] = map[string]bool{}
		}
		if len(r.w.watchers[at]) < maxWaiters {
			r.w.watchers[at][execution] = true
		}
		return true, nil
	})
}

// ReplaceEntity writes an entity if its version is still the one seen.
func (r *Registry) ReplaceEntity(_ context.Context, tenant string, e workflow.Entity, seenVersion int64) (ok bool, watchers []string, err error) {
	ok, err = call(r.conn, "registry.replace_entity", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		old, known := r.w.entities[tenant][e.Key()]
		if !known || old.Version != seenVersion {
			return known && e.Token > 0 && old.Version == seenVersion+1 && old.Token == e.Token, nil
		}
		if err := checkItemSize(e); err != nil {
			return false, err
		}
		e = clone(e)
		e.Version = seenVersion + 1
		r.storeEntity(tenant, old, e)
		at := tenantKey(tenant, e.Key().String())
		watchers = slices.Sorted(maps.Keys(r.w.watchers[at]))
		delete(r.w.watchers, at)
		return true, nil
	})
	if err != nil {
		return false, nil, err
	}
	return ok, watchers, nil
}

// Entities reads by key; missing ones are left out.
func (r *Registry) Entities(_ context.Context, tenant string, keys []workflow.EntityKey, _ bool) (map[workflow.EntityKey]workflow.Entity, error) {
	return call(r.conn, "registry.entities", func(bool) (map[workflow.EntityKey]workflow.Entity, error) {
		r.countReads(tableRegistry, len(keys))
		found := map[workflow.EntityKey]workflow.Entity{}
		for _, k := range keys {
			if e, ok := r.w.entities[tenant][k]; ok {
				found[k] = clone(e)
			}
		}
		return found, nil
	})
}

// EntityTypes lists the types of which an entity has been put, in order.
func (r *Registry) EntityTypes(_ context.Context, tenant string, page workflow.Page) (workflow.List[string], error) {
	return call(r.conn, "registry.entity_types", func(bool) (workflow.List[string], error) {
		found := map[string]bool{}
		for k := range r.w.entities[tenant] {
			found[k.Type] = true
		}
		list, err := paginate(slices.Sorted(maps.Keys(found)), page, func(name string) string { return name })
		r.countReads(tableRegistry, len(list.Items))
		return list, err
	})
}

// EntitiesOf lists a type's entities in order of id.
func (r *Registry) EntitiesOf(_ context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error) {
	return call(r.conn, "registry.entities_of", func(bool) (workflow.List[workflow.Entity], error) {
		var all []workflow.Entity
		for k, e := range r.w.entities[tenant] {
			if k.Type == entityType {
				all = append(all, e)
			}
		}
		slices.SortFunc(all, func(a, b workflow.Entity) int { return a.Key().Compare(b.Key()) })
		list, err := paginate(all, page, func(e workflow.Entity) string { return e.ID })
		r.countReads(tableRegistry, len(list.Items))
		return list, err
	})
}
