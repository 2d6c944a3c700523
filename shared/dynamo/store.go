package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Attributes of the state item. Those that are keys of an index have their
// names from topology.
const (
	attrState         = "state"
	attrVersion       = "version"
	attrEpoch         = "epoch"
	attrCommit        = "commit"
	attrWaiters       = "waiters"
	attrFailureStreak = "trouble"
	attrDocument      = "doc"
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
	return executionOf(it)
}

// LoadMany are strongly consistent reads in the order of ids; missing ones are
// left out.
func (s *Store) LoadMany(ctx context.Context, tenant string, ids []string) ([]*workflow.Execution, error) {
	items, err := s.t.GetMany(ctx, stateKeys(tenant, ids), true)
	if err != nil {
		return nil, err
	}
	var executions []*workflow.Execution
	for _, key := range stateKeys(tenant, ids) {
		it, ok := items[key]
		if !ok {
			continue
		}
		x, err := executionOf(it)
		if err != nil {
			return nil, err
		}
		executions = append(executions, x)
	}
	return executions, nil
}

// Heads are strongly consistent reads of states and epochs.
func (s *Store) Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error) {
	// The schema is not asked for: whether a run holds its locks is judged by
	// state and epoch whatever version wrote them.
	items, err := s.t.GetMany(ctx, stateKeys(tenant, ids), true, attrState, attrEpoch)
	if err != nil {
		return nil, err
	}
	heads := make(map[string]workflow.OwnerStatus, len(ids))
	for _, id := range ids {
		heads[id] = headOf(items[executionKey(tenant, id, skState)])
	}
	return heads, nil
}

func headOf(it table.Item) workflow.OwnerStatus {
	return workflow.OwnerStatus{State: statemachines.ExecutionState(it.Text(attrState)), Epoch: it.Int(attrEpoch)}
}

func stateKeys(tenant string, ids []string) []table.Key {
	keys := make([]table.Key, len(ids))
	for i, id := range ids {
		keys[i] = executionKey(tenant, id, skState)
	}
	return keys
}
