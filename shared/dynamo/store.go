package dynamo

import (
	"context"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Attributes of the state item. Those that are keys of an index have their
// names from topology.
const (
	attrState   = "state"
	attrVersion = "version"
	attrEpoch   = "epoch"
	attrCommit  = "commit"
	attrWaiters = "waiters"
	attrDoc     = "doc"
)

// Store keeps executions.
type Store struct{ t *table.Table }

// Load is a strongly consistent read of the state item.
func (s *Store) Load(ctx context.Context, tenant, id string) (*workflow.Execution, error) {
	it, err := s.t.Get(ctx, executionKey(tenant, id, skState))
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, workflow.Errorf(workflow.CodeNotFound, "there is no execution %s", id)
	}
	return fromItem(it)
}

// LoadMany are strongly consistent reads in the order of ids; missing ones are
// left out.
func (s *Store) LoadMany(ctx context.Context, tenant string, ids []string) ([]*workflow.Execution, error) {
	items, err := s.t.GetMany(ctx, stateKeys(tenant, ids), true)
	if err != nil {
		return nil, err
	}
	var found []*workflow.Execution
	for _, key := range stateKeys(tenant, ids) {
		it, ok := items[key]
		if !ok {
			continue
		}
		x, err := fromItem(it)
		if err != nil {
			return nil, err
		}
		found = append(found, x)
	}
	return found, nil
}

// Heads are strongly consistent reads of states and epochs.
func (s *Store) Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.Head, error) {
	// The schema is not asked for: whether a run holds its locks is judged by
	// state and epoch whatever version wrote them.
	items, err := s.t.GetMany(ctx, stateKeys(tenant, ids), true, attrState, attrEpoch)
	if err != nil {
		return nil, err
	}
	heads := make(map[string]workflow.Head, len(ids))
	for _, id := range ids {
		heads[id] = headOf(items[executionKey(tenant, id, skState)])
	}
	return heads, nil
}

func headOf(it table.Item) workflow.Head {
	return workflow.Head{State: statemachines.ExecutionState(it.Text(attrState)), Epoch: it.Int(attrEpoch)}
}

func stateKeys(tenant string, ids []string) []table.Key {
	keys := make([]table.Key, len(ids))
	for i, id := range ids {
		keys[i] = executionKey(tenant, id, skState)
	}
	return keys
}

// Due lists the executions of one shard whose alarm has rung, from the index.
func (s *Store) Due(ctx context.Context, shard int, now time.Time, limit int) ([]workflow.Look, error) {
	index := topology.IndexDue
	var looks []workflow.Look
	for it, err := range s.t.Query(ctx, table.Query{
		Index: index.Name,
		Key:   "#" + index.Partition + " = :shard AND #" + index.Sort + " <= :now",
		With:  table.Item{"shard": table.S(strconv.Itoa(shard)), "now": table.N(now.UnixMilli())},
		Page:  limit,
	}) {
		if err != nil {
			return nil, err
		}
		if len(looks) == limit {
			break
		}
		tenant, id := splitExecution(it.Key().PK)
		looks = append(looks, workflow.Look{Tenant: tenant, Execution: id, Why: "alarm"})
	}
	return looks, nil
}

// Listed lists ids in a state, newest first, from the index.
func (s *Store) Listed(ctx context.Context, tenant string, state statemachines.ExecutionState, below string, limit int) ([]string, error) {
	index := topology.IndexByStatus
	shards := make([]table.Rows, topology.StatusShards)
	for n := range shards {
		q := table.Query{
			Index:    index.Name,
			Key:      "#" + index.Partition + " = :state",
			With:     table.Item{"state": table.S(statusKey(tenant, n, state))},
			Backward: true,
			Page:     limit,
		}
		if below != "" {
			q.Key += " AND #" + index.Sort + " < :below"
			q.With["below"] = table.S(below)
		}
		shards[n] = s.t.Query(ctx, q)
	}
	newer := func(a, b table.Item) bool { return a.Text(index.Sort) > b.Text(index.Sort) }
	var ids []string
	for it, err := range table.Merge(ctx, newer, shards) {
		if err != nil {
			return nil, err
		}
		if len(ids) == limit {
			break
		}
		ids = append(ids, it.Text(index.Sort))
	}
	return ids, nil
}
