package dynamo

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of an entity.
const (
	attrAttributes      = "attributes"
	attrGroups          = "groups"
	attrRegistryVersion = "version"
	attrEntityToken     = "token"
	attrWatchers        = "watchers"
)

// maxWatchers bounds an entity's watchers, so that they cannot fill its item. The
// rest sleep on their alarms.
const maxWatchers = 64

// entityShards spreads a type's entities, so that a large import is not held up
// by what one partition takes. importConcurrency is how many are written at a time.
const (
	entityShards      = 8
	importConcurrency = 16
)

func entityPartitionKey(tenant, entityType string, shard int) string {
	return fmt.Sprintf("%sentity#%s#%d", table.TenantPrefix(tenant), entityType, shard)
}

func entityKey(tenant string, key workflow.EntityKey) table.Key {
	h := fnv.New32a()
	h.Write([]byte(key.ID))
	return table.Key{PK: entityPartitionKey(tenant, key.Type, int(h.Sum32()%entityShards)), SK: key.ID}
}

// PutEntities upserts. Of one that is given twice the last counts. The writes
// that replace the entities also take their watchers, at no cost of their own.
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
		c.Add = table.Item{attrRegistryVersion: table.N(1)}
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

// AddWatcher adds an execution to those that want to know when the entity is written.
// When the condition fails, the item as it stood tells an entity that does not
// exist from one whose set is full.
func (r *Registry) AddWatcher(ctx context.Context, tenant string, key workflow.EntityKey, execution string) (bool, error) {
	ok, old, err := r.t.Update(ctx, table.Update{
		Key:       entityKey(tenant, key),
		Add:       table.Item{attrWatchers: table.StringSet(execution)},
		Condition: "attribute_exists(#pk) AND (attribute_not_exists(#watchers) OR size(#watchers) < :max)",
		Values:    table.Item{"max": table.N(maxWatchers)},
	})
	return ok || old != nil, err
}

// entityUpdate sets what an entity says of itself, and takes its watchers.
func entityUpdate(tenant string, e *workflow.Entity) table.Update {
	c := table.Update{
		Key: entityKey(tenant, e.Key()), Set: table.Item{},
		Remove: []string{attrWatchers}, Return: types.ReturnValueUpdatedOld,
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

// ReplaceEntity writes an entity if its version is still the one seen. One that
// stands there with the next version and the same token is this write after a
// lost reply, or another handler's of the same run, which is as good.
func (r *Registry) ReplaceEntity(ctx context.Context, tenant string, e workflow.Entity, seenVersion int64) (bool, []string, error) {
	c := entityUpdate(tenant, &e)
	c.Set[attrRegistryVersion], c.Set[attrEntityToken] = table.N(seenVersion+1), table.N(e.Token)
	c.Condition, c.Values = "#version = :seen", table.Item{"seen": table.N(seenVersion)}
	ok, old, err := r.t.Update(ctx, c)
	switch {
	case err != nil:
		return false, nil, err
	case ok:
		return true, old.StringSet(attrWatchers), nil
	}
	return old != nil && e.Token > 0 && old.Int(attrRegistryVersion) == seenVersion+1 && old.Int(attrEntityToken) == e.Token, nil, nil
}

// Entities reads by key; missing ones are left out.
func (r *Registry) Entities(ctx context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Entity, error) {
	itemKeys := make([]table.Key, len(keys))
	for i, k := range keys {
		itemKeys[i] = entityKey(tenant, k)
	}
	items, err := r.t.GetMany(ctx, itemKeys, strong)
	if err != nil {
		return nil, err
	}
	entities := make(map[workflow.EntityKey]workflow.Entity, len(items))
	for i, k := range keys {
		it, ok := items[itemKeys[i]]
		if !ok {
			continue
		}
		if entities[k], err = entityOf(k.Type, it); err != nil {
			return nil, err
		}
	}
	return entities, nil
}

// EntitiesOf lists a type's entities in order of id, across its shards.
func (r *Registry) EntitiesOf(ctx context.Context, tenant, entityType string, page workflow.Page) (workflow.List[workflow.Entity], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.Entity]{}, err
	}
	limit := pageLimit(page)
	shards := make([]table.Rows, entityShards)
	for n := range shards {
		pk := entityPartitionKey(tenant, entityType, n)
		shards[n] = r.t.Query(ctx, table.Query{
			KeyCondition: "#pk = :pk",
			Values:       table.Item{"pk": table.S(pk)},
			StartAfter:   startKeyAfter(pk, after),
			// A little more than the shard's share, so that mostly one read does.
			PageSize:   limit/entityShards*5/4 + entityShards,
			Consistent: true,
		})
	}
	byID := func(a, b table.Item) bool { return a.Key().SK < b.Key().SK }
	return collectPage(table.Merge(ctx, byID, shards), limit, func(it table.Item) (workflow.Entity, error) {
		return entityOf(entityType, it)
	})
}

func entityOf(entityType string, it table.Item) (workflow.Entity, error) {
	attributes, err := table.Deflate.Decompress(it.Bytes(attrAttributes))
	e := workflow.Entity{
		Type: entityType, ID: it.Key().SK, Attributes: attributes,
		Version: it.Int(attrRegistryVersion), Token: it.Int(attrEntityToken),
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
