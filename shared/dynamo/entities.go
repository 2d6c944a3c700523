package dynamo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of an entity, besides version and token.
const (
	attrAttributes = "attributes"
	attrGroups     = "groups"
	attrWatchers   = "watchers"

	// The version at which the entity was deleted. It is valid only while it equals the item's
	// version: any write of the entity restores it.
	attrDeleted = "deleted"

	// The version at which the entity is about to be deleted. It, too, is valid only while it
	// equals the item's version.
	attrDeleting = "deleting"
)

// ifEntityExists and ifEntityMissing are the conditions that an entity exists, and that it does
// not.
const (
	ifEntityExists  = "attribute_exists(#pk) AND (attribute_not_exists(#deleted) OR #deleted <> #version)"
	ifEntityMissing = "attribute_not_exists(#pk) OR #deleted = #version"
)

// isDeleted reports whether an item is the remainder of a deleted entity.
func isDeleted(it table.Item) bool {
	return it.Has(attrDeleted) && it.Int(attrDeleted) == it.Int(attrVersion)
}

// maxWatchers bounds an entity's watchers, so that they cannot fill its item. Any
// others wait for their timers.
const maxWatchers = 64

// entityShards spreads a type's entities over partitions, so that the write limit
// of one partition does not slow a large import. importConcurrency is how many
// entities are written at a time.
const (
	entityShards      = 8
	importConcurrency = 16
)

func entityPartitionKey(tenant, entityType string, shard int) string {
	return fmt.Sprintf("%sentity#%s#%d", table.TenantPrefix(tenant), entityType, shard)
}

func entityKey(tenant string, key workflow.EntityKey) table.Key {
	return table.Key{PK: entityPartitionKey(tenant, key.Type, hashShard(key.ID, entityShards)), SK: key.ID}
}

// PutEntities creates or replaces entities; of duplicates the last one counts. The writes that
// replace the entities also remove their watchers, at no extra cost.
func (r *Registry) PutEntities(ctx context.Context, tenant string, entities []workflow.Entity) ([]string, error) {
	if err := r.putEntityTypes(ctx, tenant, entities); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	watchers := map[string]bool{}
	last := make(map[workflow.EntityKey]int, len(entities))
	for i := range entities {
		last[entities[i].Key()] = i
	}
	err := parallel.Each(ctx, importConcurrency, len(entities), func(ctx context.Context, i int) error {
		e := &entities[i]
		if last[e.Key()] != i {
			return nil
		}
		c := entityUpdate(tenant, e)
		c.Add = table.Item{attrVersion: table.N(1)}
		_, old, err := r.t.Update(ctx, c)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range old.StringSet(attrWatchers) {
			watchers[id] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(watchers)), err
}

// WriteEntities writes entities that have not changed since they were read, or creates them.
func (r *Registry) WriteEntities(ctx context.Context, tenant string, writes []workflow.EntityWrite) ([]bool, []string, error) {
	var created []workflow.Entity
	for i := range writes {
		if writes[i].SeenVersion == 0 {
			created = append(created, writes[i].Entity)
		}
	}
	if err := r.putEntityTypes(ctx, tenant, created); err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	watchers, written := map[string]bool{}, make([]bool, len(writes))
	err := parallel.Each(ctx, importConcurrency, len(writes), func(ctx context.Context, i int) error {
		c := entityUpdate(tenant, &writes[i].Entity)
		c.Add, c.Condition = table.Item{attrVersion: table.N(1)}, ifEntityMissing
		if seen := writes[i].SeenVersion; seen > 0 {
			c.Condition, c.Values = ifEntityExists+" AND #version = :seen", table.Item{"seen": table.N(seen)}
		}
		ok, old, err := r.t.Update(ctx, c)
		if err != nil || !ok {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		written[i] = true
		for _, id := range old.StringSet(attrWatchers) {
			watchers[id] = true
		}
		return nil
	})
	return written, slices.Sorted(maps.Keys(watchers)), err
}

// MarkDeletion writes only the mark: the version and the watchers stay.
func (r *Registry) MarkDeletion(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64) (bool, error) {
	ok, _, err := r.t.Update(ctx, table.Update{
		Key:       entityKey(tenant, key),
		Set:       table.Item{attrDeleting: table.N(seenVersion)},
		Condition: ifEntityExists + " AND #version = :seen", Values: table.Item{"seen": table.N(seenVersion)},
	})
	return ok, err
}

// DeleteEntity leaves an item with the version and the token of the entity. No function may delete
// items; DynamoDB deletes this one some time after until.
func (r *Registry) DeleteEntity(ctx context.Context, tenant string, key workflow.EntityKey, seenVersion int64, until time.Time) (bool, []string, error) {
	ok, old, err := r.t.Update(ctx, table.Update{
		Key:       entityKey(tenant, key),
		Set:       table.Item{attrVersion: table.N(seenVersion + 1), attrDeleted: table.N(seenVersion + 1), topology.AttrTTL: table.N(until.Unix())},
		Remove:    []string{attrAttributes, attrGroups, attrWatchers, attrDeleting},
		Condition: ifEntityExists + " AND #version = :seen", Values: table.Item{"seen": table.N(seenVersion)},
		Return: types.ReturnValueAllOld,
	})
	switch {
	case err != nil:
		return false, nil, err
	case ok:
		return true, old.StringSet(attrWatchers), nil
	}
	return isDeleted(old) && old.Int(attrVersion) == seenVersion+1, nil, nil
}

// AddWatcher adds an execution to those that are woken when the entity is written. If the condition
// fails, the returned old item distinguishes an entity that does not exist from one whose set is
// full; the latter is ok.
func (r *Registry) AddWatcher(ctx context.Context, tenant string, key workflow.EntityKey, execution string) (bool, error) {
	ok, old, err := r.t.Update(ctx, table.Update{
		Key:       entityKey(tenant, key),
		Add:       table.Item{attrWatchers: table.StringSet(execution)},
		Condition: ifEntityExists + " AND (attribute_not_exists(#watchers) OR size(#watchers) < :max)",
		Values:    table.Item{"max": table.N(maxWatchers)},
	})
	return ok || old != nil && !isDeleted(old), err
}

// entityUpdate returns an update that sets an entity's attributes and groups, and removes its
// watchers.
func entityUpdate(tenant string, e *workflow.Entity) table.Update {
	c := table.Update{
		Key: entityKey(tenant, e.Key()), Set: table.Item{},
		Remove: []string{attrWatchers, attrDeleted, attrDeleting, topology.AttrTTL}, Return: types.ReturnValueUpdatedOld,
	}
	if len(e.Attributes) > 0 {
		c.Set[attrAttributes] = table.B(table.Deflate.Compress(e.Attributes))
	} else {
		c.Remove = append(c.Remove, attrAttributes)
	}
	if len(e.Groups) > 0 {
		list := make([]table.Value, len(e.Groups))
		for n, g := range e.Groups {
			list[n] = table.S(g)
		}
		c.Set[attrGroups] = &types.AttributeValueMemberL{Value: list}
	} else {
		c.Remove = append(c.Remove, attrGroups)
	}
	return c
}

// ReplaceEntity writes an entity if its version is still the one seen. If the item has the next
// version and the same token, this write has already been made: by this call, whose reply was lost,
// or by another handler of the same execution.
func (r *Registry) ReplaceEntity(ctx context.Context, tenant string, e workflow.Entity, seenVersion int64) (bool, []string, error) {
	c := entityUpdate(tenant, &e)
	c.Set[attrVersion], c.Set[attrToken] = table.N(seenVersion+1), table.N(e.Token)
	c.Condition, c.Values = "#version = :seen", table.Item{"seen": table.N(seenVersion)}
	ok, old, err := r.t.Update(ctx, c)
	switch {
	case err != nil:
		return false, nil, err
	case ok:
		return true, old.StringSet(attrWatchers), nil
	}
	return old != nil && e.Token > 0 && old.Int(attrVersion) == seenVersion+1 && old.Int(attrToken) == e.Token, nil, nil
}

// Entities reads entities by key; it leaves out missing ones. If it reads many of a type, it uses a
// query, see [table.Table.GetDense]. It decodes each item as it arrives, so that a scope is not in
// memory both as items and as entities.
func (r *Registry) Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error) {
	itemKeys := make([]table.Key, len(keys))
	byItem := make(map[table.Key]workflow.EntityKey, len(keys))
	for i, k := range keys {
		itemKeys[i] = entityKey(tenant, k)
		byItem[itemKeys[i]] = k
	}
	entities := make(map[workflow.EntityKey]workflow.Entity, len(keys))
	err := r.t.GetDense(ctx, itemKeys, strong, func(it table.Item) error {
		if err := it.CheckSchema(); err != nil {
			return err
		}
		if isDeleted(it) {
			return nil
		}
		k := byItem[it.Key()]
		e, err := entityOf(k.Type, it)
		entities[k] = e
		return err
	})
	if err != nil {
		return nil, err
	}
	return entities, nil
}

// EntitiesOf lists a type's entities ordered by id, across its shards.
func (r *Registry) EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.Entity]{}, err
	}
	limit := pageLimit(page)
	shards := make([]table.Rows, entityShards)
	for n := range shards {
		q := partitionQuery(entityPartitionKey(tenant, entityType, n), after, limit)
		// A little more than the shard's share, so that one read is usually enough.
		q.PageSize = limit/entityShards*5/4 + entityShards
		shards[n] = withoutDeleted(r.t.Query(ctx, q))
	}
	byID := func(a, b table.Item) bool { return a.Key().SK < b.Key().SK }
	return collectPage(table.Merge(ctx, byID, shards), limit, func(it table.Item) (workflow.Entity, error) {
		return entityOf(entityType, it)
	})
}

// withoutDeleted leaves out the remainders of deleted entities.
func withoutDeleted(rows table.Rows) table.Rows {
	return func(yield func(table.Item, error) bool) {
		for it, err := range rows {
			if err == nil && isDeleted(it) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

func entityOf(entityType string, it table.Item) (workflow.Entity, error) {
	attributes, err := table.Deflate.Decompress(it.Bytes(attrAttributes))
	e := workflow.Entity{
		Type: entityType, ID: it.Key().SK, Attributes: attributes,
		Version: it.Int(attrVersion), Token: it.Int(attrToken),
		Deleting: it.Has(attrDeleting) && it.Int(attrDeleting) == it.Int(attrVersion),
	}
	if list, ok := it[attrGroups].(*types.AttributeValueMemberL); ok {
		for _, v := range list.Value {
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				e.Groups = append(e.Groups, s.Value)
			}
		}
	}
	return e, err
}

func entityTypesKey(tenant string) string { return table.TenantPrefix(tenant) + "entitytypes" }

// putEntityTypes records the types of entities before the entities are put, so that the type of
// every entity is listed. It costs one write for each type.
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

// EntityTypes lists the types of all entities that were ever put, in order.
func (r *Registry) EntityTypes(ctx context.Context, tenant string, page workflow.Page) (workflow.List[string], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[string]{}, err
	}
	rows := r.t.Query(ctx, partitionQuery(entityTypesKey(tenant), after, pageLimit(page)))
	return collectPage(rows, pageLimit(page), func(it table.Item) (string, error) { return it.Key().SK, nil })
}
