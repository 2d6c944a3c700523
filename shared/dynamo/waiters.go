package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// AddHolderWaiter adds waiter to holder's waiters if the holder still holds its
// locks at the epoch.
func (s *Store) AddHolderWaiter(ctx context.Context, tenant, holder string, epoch int64, waiter string) (bool, error) {
	condition, values := stateCondition(statemachines.HoldsLocks)
	values["epoch"] = table.N(epoch)
	return s.addWaiter(ctx, tenant, holder, waiter, "#epoch = :epoch AND "+condition, values,
		func(h workflow.OwnerStatus) bool { return h.Holds(epoch, 0) })
}

// AddReserverWaiter adds waiter to reserver's waiters if that execution has not
// locked yet.
func (s *Store) AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (bool, error) {
	condition, values := stateCondition(func(state statemachines.ExecutionState) bool { return workflow.OwnerStatus{State: state}.Reserves() })
	return s.addWaiter(ctx, tenant, reserver, waiter, "attribute_exists(#pk) AND "+condition, values,
		workflow.OwnerStatus.Reserves)
}

// stateCondition is the condition that the state is none of those for which
// qualifies is false. It lists those that do not qualify: a state that this version
// does not know qualifies.
func stateCondition(qualifies func(statemachines.ExecutionState) bool) (condition string, values table.Item) {
	values = table.Item{}
	var list []string
	for _, state := range statemachines.ExecutionStates() {
		if !qualifies(state) {
			name := fmt.Sprintf("s%d", len(list))
			values[name] = table.S(string(state))
			list = append(list, ":"+name)
		}
	}
	return "NOT (#" + attrState + " IN (" + strings.Join(list, ", ") + "))", values
}

// addWaiter adds a waiter under the condition. If that fails, the item as it was
// distinguishes an execution that no longer qualifies from one whose set is full;
// the latter is ok.
func (s *Store) addWaiter(ctx context.Context, tenant, id, waiter, condition string, values table.Item, qualifies func(workflow.OwnerStatus) bool) (bool, error) {
	values["max"] = table.N(workflow.MaxWaiters)
	ok, old, err := s.t.Update(ctx, table.Update{
		Key:       executionKey(tenant, id, skState),
		Add:       table.Item{attrWaiters: table.StringSet(waiter)},
		Condition: condition + " AND (attribute_not_exists(#waiters) OR size(#waiters) < :max)",
		Values:    values,
	})
	if ok || err != nil {
		return ok, err
	}
	return old != nil && qualifies(headOf(old)), nil
}
