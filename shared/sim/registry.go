package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Registry stores definitions, blocks, entities and idempotency keys.
type Registry struct{ *conn }

// PutDefinition stores a definition if none exists under its version; otherwise it returns
// the existing one. The same digest, publisher and time count as a repeated request.
func (r *Registry) PutDefinition(_ context.Context, tenant string, d workflow.PublishedDefinition) (*workflow.PublishedDefinition, error) {
	return call(r.conn, "registry.put_definition", func(bool) (*workflow.PublishedDefinition, error) {
		r.countWrite(tableRegistry)
		if err := checkItemSize(d); err != nil {
			return nil, err
		}
		at := tenantKey(tenant, d.Ref.String())
		if old, ok := r.w.definitions[at]; ok {
			if old.Digest == d.Digest && old.PublishedAt.Equal(d.PublishedAt) && old.PublishedBy == d.PublishedBy && old.Draft == d.Draft {
				return nil, nil
			}
			old = clone(old)
			return &old, nil
		}
		r.w.definitions[at] = clone(d)
		return nil, nil
	})
}

// Definition reads one definition.
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

// DefinitionVersions lists definitions without their sources, by name and version.
func (r *Registry) DefinitionVersions(_ context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	return r.listDefinitions("registry.definition_versions", tenant, fullName, false, page)
}

// DefinitionSources lists all definitions with their sources, by name and version.
func (r *Registry) DefinitionSources(_ context.Context, tenant string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	return r.listDefinitions("registry.definition_sources", tenant, "", true, page)
}

func (r *Registry) listDefinitions(name, tenant, fullName string, sources bool, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	return call(r.conn, name, func(bool) (workflow.List[workflow.PublishedDefinition], error) {
		var all []workflow.PublishedDefinition
		for at, d := range r.w.definitions {
			if at == tenantKey(tenant, d.Ref.String()) && (fullName == "" || d.Ref.FullName() == fullName) {
				if d = clone(d); !sources {
					d.Source = nil
				}
				all = append(all, d)
			}
		}
		slices.SortFunc(all, func(a, b workflow.PublishedDefinition) int { return compareRefs(a.Ref, b.Ref) })
		r.countReads(tableRegistry, len(all))
		return paginate(r.w.PageItems, all, page, func(d workflow.PublishedDefinition) string { return d.Ref.String() })
	})
}

// compareRefs compares by name, then by semantic version.
func compareRefs(a, b workflow.Ref) int {
	v, _ := workflow.ParseSemver(a.Version)
	o, _ := workflow.ParseSemver(b.Version)
	return cmp.Or(strings.Compare(a.FullName(), b.FullName()), v.Compare(o))
}

// PublishDraft makes a draft a published version.
func (r *Registry) PublishDraft(_ context.Context, tenant string, d workflow.PublishedDefinition) error {
	_, err := call(r.conn, "registry.publish_draft", func(bool) (empty, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, d.Ref.String())
		if stored := r.w.definitions[at]; stored.Draft {
			stored.Draft, stored.PublishedAt, stored.PublishedBy = false, d.PublishedAt, d.PublishedBy
			r.w.definitions[at] = stored
		}
		return empty{}, nil
	})
	return err
}

// SetArchived sets or clears the archived flag of one version.
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

// PutBlock stores a block if none exists under its version; otherwise it returns the
// existing one.
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

// Block reads one block.
func (r *Registry) Block(_ context.Context, tenant string, ref workflow.Ref) (*workflow.Block, error) {
	return call(r.conn, "registry.block", func(bool) (*workflow.Block, error) {
		r.countReads(tableRegistry, 1)
		b, ok := r.w.blocks[tenantKey(tenant, ref.String())]
		if !ok {
			return nil, workflow.Errorf(workflow.CodeNotFound, "no block %s is registered", ref)
		}
		b = clone(b)
		return &b, nil
	})
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
		return paginate(r.w.PageItems, all, page, func(b workflow.Block) string { return b.Ref().String() })
	})
}

// VersionIndex reads the index of one name's versions.
func (r *Registry) VersionIndex(_ context.Context, tenant string, kind workflow.VersionKind, fullName string) (workflow.VersionIndex, error) {
	return call(r.conn, "registry.version_index", func(bool) (workflow.VersionIndex, error) {
		r.countReads(tableRegistry, 1)
		index := r.w.versionIndexes[tenantKey(tenant, string(kind)+" "+fullName)]
		index.Versions = slices.Clone(index.Versions)
		return index, nil
	})
}

// VersionsRevision reads how often a version index of the tenant was written.
func (r *Registry) VersionsRevision(_ context.Context, tenant string) (int64, error) {
	return call(r.conn, "registry.versions_revision", func(bool) (int64, error) {
		r.countReads(tableRegistry, 1)
		return r.w.versionRevisions[tenant], nil
	})
}

// RaiseVersionsRevision raises it.
func (r *Registry) RaiseVersionsRevision(_ context.Context, tenant string) error {
	_, err := call(r.conn, "registry.raise_versions_revision", func(bool) (empty, error) {
		r.countWrite(tableRegistry)
		r.w.versionRevisions[tenant]++
		return empty{}, nil
	})
	return err
}

// PutVersionIndex replaces an index if its revision is still the one given.
func (r *Registry) PutVersionIndex(_ context.Context, tenant string, kind workflow.VersionKind, fullName string, index workflow.VersionIndex) (bool, error) {
	return call(r.conn, "registry.put_version_index", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		if err := checkItemSize(index); err != nil {
			return false, err
		}
		at := tenantKey(tenant, string(kind)+" "+fullName)
		if r.w.versionIndexes[at].Revision != index.Revision {
			return false, nil
		}
		next := index
		next.Versions, next.Revision = slices.Clone(index.Versions), index.Revision+1
		r.w.versionIndexes[at] = next
		return true, nil
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

// MoveIdempotencyKey binds a key that is bound to from, and has not expired at now, to another
// execution.
func (r *Registry) MoveIdempotencyKey(_ context.Context, tenant, key, from, to string, now time.Time) (bool, error) {
	return call(r.conn, "registry.move_idempotency_key", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, key)
		old, ok := r.w.bindings[at]
		if !ok || !now.Before(old.ExpiresAt) || old.Execution != from && old.Execution != to {
			return false, nil
		}
		old.Execution = to
		r.w.bindings[at] = old
		return true, nil
	})
}

// Subscriptions lists the subscriptions of a tenant.
func (r *Registry) Subscriptions(_ context.Context, tenant string) ([]workflow.Subscription, error) {
	return call(r.conn, "registry.subscriptions", func(bool) (list []workflow.Subscription, err error) {
		r.countReads(tableRegistry, 1)
		for _, name := range slices.Sorted(maps.Keys(r.w.subscriptions[tenant])) {
			list = append(list, clone(r.w.subscriptions[tenant][name]))
		}
		return list, nil
	})
}

// PutSubscription writes a subscription whose revision is still seen.
func (r *Registry) PutSubscription(_ context.Context, tenant string, s workflow.Subscription) (bool, error) {
	return call(r.conn, "registry.put_subscription", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		old := r.w.subscriptions[tenant][s.Name]
		next := clone(s)
		next.Revision++
		if old.Revision != s.Revision {
			return old.Revision == next.Revision && string(encodeMessage(old)) == string(encodeMessage(next)), nil
		}
		if r.w.subscriptions[tenant] == nil {
			r.w.subscriptions[tenant] = map[string]workflow.Subscription{}
		}
		r.w.subscriptions[tenant][s.Name] = next
		return true, nil
	})
}

// PutDeliveryAttempt records the outcome of a delivery.
func (r *Registry) PutDeliveryAttempt(_ context.Context, tenant, subscription string, a workflow.DeliveryAttempt) error {
	_, err := call(r.conn, "registry.put_delivery_attempt", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at := tenant + "#" + subscription
		if r.w.deliveryAttempts[at] == nil {
			r.w.deliveryAttempts[at] = map[string]workflow.DeliveryAttempt{}
		}
		r.w.deliveryAttempts[at][workflow.DeliveryKey(a.Delivery)] = a
		return true, nil
	})
	return err
}

// DeliveryAttempts lists the recorded deliveries of a subscription, newest first.
func (r *Registry) DeliveryAttempts(_ context.Context, tenant, subscription string) ([]workflow.DeliveryAttempt, error) {
	return call(r.conn, "registry.delivery_attempts", func(bool) ([]workflow.DeliveryAttempt, error) {
		r.countReads(tableRegistry, 1)
		all := r.w.deliveryAttempts[tenant+"#"+subscription]
		var list []workflow.DeliveryAttempt
		for _, key := range slices.Sorted(maps.Keys(all)) {
			list = append(list, all[key])
		}
		slices.SortStableFunc(list, func(a, b workflow.DeliveryAttempt) int { return b.At.Compare(a.At) })
		return list, nil
	})
}

// BusinessKey reads a business key of a workflow.
func (r *Registry) BusinessKey(_ context.Context, tenant, workflowName, key string) (workflow.BusinessKey, error) {
	return call(r.conn, "registry.business_key", func(bool) (workflow.BusinessKey, error) {
		r.countReads(tableRegistry, 1)
		return r.w.businessKeys[tenantKey(tenant, workflowName+"#"+key)], nil
	})
}

// TakeBusinessKey writes the execution to a business key whose revision is still seen.
func (r *Registry) TakeBusinessKey(_ context.Context, tenant, workflowName, key string, seen int64, execution string) (bool, error) {
	return call(r.conn, "registry.take_business_key", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at, next := tenantKey(tenant, workflowName+"#"+key), workflow.BusinessKey{Execution: execution, Revision: seen + 1}
		if r.w.businessKeys[at].Revision != seen {
			return r.w.businessKeys[at] == next, nil
		}
		r.w.businessKeys[at] = next
		return true, nil
	})
}

// IdempotencyRecord reads the record of a key; zero if there is none or it has expired.
func (r *Registry) IdempotencyRecord(_ context.Context, tenant, key string, now time.Time) (workflow.IdempotencyRecord, error) {
	return call(r.conn, "registry.idempotency_record", func(bool) (workflow.IdempotencyRecord, error) {
		r.countReads(tableRegistry, 1)
		if b, ok := r.w.bindings[tenantKey(tenant, key)]; ok && now.Before(b.ExpiresAt) {
			return b, nil
		}
		return workflow.IdempotencyRecord{}, nil
	})
}

// PutEntities creates or replaces entities. The version increases and the token stays. The
// watchers are removed and returned.
func (r *Registry) PutEntities(_ context.Context, tenant string, entities []workflow.Entity) ([]string, error) {
	return call(r.conn, "registry.put_entities", func(bool) ([]string, error) {
		watchers := map[string]bool{}
		for _, e := range entities {
			r.countWrite(tableRegistry)
			if err := r.w.checkEntitySize(e); err != nil {
				return slices.Sorted(maps.Keys(watchers)), err
			}
			if r.w.entities[tenant] == nil {
				r.w.entities[tenant] = map[workflow.EntityKey]workflow.Entity{}
			}
			maps.Copy(watchers, r.writeEntity(tenant, e))
		}
		return slices.Sorted(maps.Keys(watchers)), nil
	})
}

// writeEntity replaces or creates an entity, which continues with the version and the token of a
// deleted one, and removes and returns its watchers.
func (r *Registry) writeEntity(tenant string, e workflow.Entity) map[string]bool {
	at := tenantKey(tenant, e.Key().String())
	old := r.w.entities[tenant][e.Key()]
	e = clone(e)
	e.Version, e.Token = old.Version+1, old.Token
	if gone, ok := r.w.deleted[at]; ok {
		e.Version, e.Token = gone.Version+1, gone.Token
		delete(r.w.deleted, at)
	}
	r.storeEntity(tenant, old, e)
	watchers := r.w.watchers[at]
	delete(r.w.watchers, at)
	return watchers
}

// WriteEntities writes entities whose versions are still the ones seen.
func (r *Registry) WriteEntities(_ context.Context, tenant string, writes []workflow.EntityWrite) (written []bool, watchers []string, err error) {
	written, err = call(r.conn, "registry.write_entities", func(bool) ([]bool, error) {
		written, woken := make([]bool, len(writes)), map[string]bool{}
		defer func() { watchers = slices.Sorted(maps.Keys(woken)) }()
		for i, one := range writes {
			r.countWrite(tableRegistry)
			if err := r.w.checkEntitySize(one.Entity); err != nil {
				return written, err
			}
			if r.w.entities[tenant][one.Entity.Key()].Version != one.SeenVersion {
				continue
			}
			if r.w.entities[tenant] == nil {
				r.w.entities[tenant] = map[workflow.EntityKey]workflow.Entity{}
			}
			maps.Copy(woken, r.writeEntity(tenant, one.Entity))
			written[i] = true
		}
		return written, nil
	})
	return written, watchers, err
}

// MarkDeletion marks an entity whose version is still the one seen.
func (r *Registry) MarkDeletion(_ context.Context, tenant string, key workflow.EntityKey, seenVersion int64) (bool, error) {
	return call(r.conn, "registry.mark_deletion", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		e, known := r.w.entities[tenant][key]
		if !known || e.Version != seenVersion {
			return false, nil
		}
		r.keepBefore(tenant, key)
		e.Deleting = true
		r.w.entities[tenant][key] = e
		return true, nil
	})
}

// DeleteEntity deletes an entity whose version is still the one seen.
func (r *Registry) DeleteEntity(_ context.Context, tenant string, key workflow.EntityKey, seenVersion int64, _ time.Time) (ok bool, watchers []string, err error) {
	ok, err = call(r.conn, "registry.delete_entity", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, key.String())
		old, known := r.w.entities[tenant][key]
		if !known || old.Version != seenVersion {
			gone, deleted := r.w.deleted[at]
			return deleted && gone.Version == seenVersion+1, nil
		}
		watchers = slices.Sorted(maps.Keys(r.w.watchers[at]))
		delete(r.w.watchers, at)
		r.keepBefore(tenant, key)
		delete(r.w.entities[tenant], key)
		r.w.deleted[at] = workflow.Entity{Type: key.Type, ID: key.ID, Version: seenVersion + 1, Token: old.Token}
		return true, nil
	})
	return ok, watchers, err
}

// keepBefore keeps what a stale read returns once an entity has changed.
func (r *Registry) keepBefore(tenant string, key workflow.EntityKey) {
	at := tenantKey(tenant, key.String())
	r.w.entitiesBefore[at] = nil
	if e, ok := r.w.entities[tenant][key]; ok {
		r.w.entitiesBefore[at] = &e
	}
}

// storeEntity replaces an entity and notifies the observer.
func (r *Registry) storeEntity(tenant string, old, e workflow.Entity) {
	e.Deleting = false
	r.keepBefore(tenant, e.Key())
	r.w.entities[tenant][e.Key()] = e
	if r.w.Observer != nil {
		r.w.Observer.EntityWritten(old, e)
	}
}

// AddWatcher adds an execution that is woken when the entity is written.
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
		if len(r.w.watchers[at]) < r.w.MaxWaiters {
			r.w.watchers[at][execution] = true
		}
		return true, nil
	})
}

// ReplaceEntity writes an entity if its version is still seenVersion.
func (r *Registry) ReplaceEntity(_ context.Context, tenant string, e workflow.Entity, seenVersion int64) (ok bool, watchers []string, err error) {
	ok, err = call(r.conn, "registry.replace_entity", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		old, known := r.w.entities[tenant][e.Key()]
		if !known || old.Version != seenVersion {
			return known && e.Token > 0 && old.Version == seenVersion+1 && old.Token == e.Token, nil
		}
		if err := r.w.checkEntitySize(e); err != nil {
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

// Entities reads entities by key and leaves out missing ones. A weak read that is stale shows
// each as it was before its last change.
func (r *Registry) Entities(_ context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error) {
	name, count := "registry.entities", r.countReads
	if !strong {
		name, count = "registry.entities_weakly", r.countWeakReads
	}
	return call(r.conn, name, func(stale bool) (map[workflow.EntityKey]workflow.Entity, error) {
		count(tableRegistry, len(keys))
		found := map[workflow.EntityKey]workflow.Entity{}
		for _, k := range keys {
			if before, changed := r.w.entitiesBefore[tenantKey(tenant, k.String())]; stale && !strong && changed {
				if before != nil {
					found[k] = clone(*before)
				}
				continue
			}
			if e, ok := r.w.entities[tenant][k]; ok {
				found[k] = clone(e)
			}
		}
		return found, nil
	})
}

// EntityTypes lists the types of entities that exist or have existed, in order.
func (r *Registry) EntityTypes(_ context.Context, tenant string, page workflow.Page) (workflow.List[string], error) {
	return call(r.conn, "registry.entity_types", func(bool) (workflow.List[string], error) {
		found := map[string]bool{}
		for k := range r.w.entities[tenant] {
			found[k.Type] = true
		}
		for at, e := range r.w.deleted {
			if at == tenantKey(tenant, e.Key().String()) {
				found[e.Type] = true
			}
		}
		list, err := paginate(r.w.PageItems, slices.Sorted(maps.Keys(found)), page, func(name string) string { return name })
		r.countReads(tableRegistry, len(list.Items))
		return list, err
	})
}

// EntitiesOf lists a type's entities in order of ID.
func (r *Registry) EntitiesOf(_ context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error) {
	return call(r.conn, "registry.entities_of", func(bool) (workflow.List[workflow.Entity], error) {
		var all []workflow.Entity
		for k, e := range r.w.entities[tenant] {
			if k.Type == entityType {
				all = append(all, e)
			}
		}
		slices.SortFunc(all, func(a, b workflow.Entity) int { return a.Key().Compare(b.Key()) })
		list, err := paginate(r.w.PageItems, all, page, func(e workflow.Entity) string { return e.ID })
		r.countReads(tableRegistry, len(list.Items))
		return list, err
	})
}
