package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// maxWaiters bounds a run's waiters, so that they cannot fill its item. The rest
// sleep on their alarms.
const maxWaiters = 64

// AddHolderWaiter adds waiter to holder's waiters if the holder is still live at the
// epoch.
func (s *Store) AddHolderWaiter(ctx context.Context, tenant, holder string, epoch int64, waiter string) (bool, error) {
	condition, with := stateQualifies(statemachines.HoldsLocks)
	with["epoch"] = table.N(epoch)
	return s.addWaiter(ctx, tenant, holder, waiter, "#epoch = :epoch AND "+condition, with,
		func(h workflow.OwnerStatus) bool { return h.HoldsLocks(epoch) })
}

// AddReserverWaiter adds waiter to reserver's waiters if that run has still to lock.
func (s *Store) AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (bool, error) {
	condition, with := stateQualifies(func(state statemachines.ExecutionState) bool { return workflow.OwnerStatus{State: state}.Reserves() })
	return s.addWaiter(ctx, tenant, reserver, waiter, "attribute_exists(#pk) AND "+condition, with,
		workflow.OwnerStatus.Reserves)
}

// stateQualifies is the condition that the state is none of those for which stands does
// not hold. These are a closed list: a state that nobody here knows stands.
func stateQualifies(qualifies func(statemachines.ExecutionState) bool) (condition string, with table.Item) {
	with = table.Item{}
	var list []string
	for _, state := range statemachines.ExecutionStates() {
		if !qualifies(state) {
			name := fmt.Sprintf("s%d", len(list))
			with[name] = table.S(string(state))
			list = append(list, ":"+name)
		}
	}
	return "NOT (#" + attrState + " IN (" + strings.Join(list, ", ") + "))", with
}

// addWaiter registers under the condition. When it fails, the item as it stood tells
// a run that has let go from one whose set is full.
func (s *Store) addWaiter(ctx context.Context, tenant, id, waiter, condition string, with table.Item, qualifies func(workflow.OwnerStatus) bool) (bool, error) {
	with["max"] = table.N(maxWaiters)
	ok, old, err := s.t.Update(ctx, table.Update{
		Key:       executionKey(tenant, id, skState),
		Add:       table.Item{attrWaiters: table.StringSet(waiter)},
		Condition: condition + " AND (attribute_not_exists(#waiters) OR size(#waiters) < :max)",
		Values:    with,
	})
	if ok || err != nil {
		return ok, err
	}
	return old != nil && qualifies(headOf(old)), nil
}
