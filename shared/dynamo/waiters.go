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

// AwaitHolder adds waiter to holder's waiters if the holder is still live at the
// epoch.
func (s *Store) AwaitHolder(ctx context.Context, tenant, holder string, epoch int64, waiter string) (bool, error) {
	condition, with := noneOf(statemachines.Holding)
	with["epoch"] = table.N(epoch)
	return s.await(ctx, tenant, holder, waiter, "#epoch = :epoch AND "+condition, with,
		func(h workflow.Head) bool { return h.Live(epoch) })
}

// AwaitReserver adds waiter to reserver's waiters if that run has still to lock.
func (s *Store) AwaitReserver(ctx context.Context, tenant, reserver, waiter string) (bool, error) {
	condition, with := noneOf(func(state statemachines.ExecutionState) bool { return workflow.Head{State: state}.Reserves() })
	return s.await(ctx, tenant, reserver, waiter, "attribute_exists(#pk) AND "+condition, with,
		workflow.Head.Reserves)
}

// noneOf is the condition that the state is none of those for which stands does
// not hold. These are a closed list: a state that nobody here knows stands.
func noneOf(stands func(statemachines.ExecutionState) bool) (condition string, with table.Item) {
	with = table.Item{}
	var list []string
	for _, state := range statemachines.ExecutionStates() {
		if !stands(state) {
			name := fmt.Sprintf("s%d", len(list))
			with[name] = table.S(string(state))
			list = append(list, ":"+name)
		}
	}
	return "NOT (#" + attrState + " IN (" + strings.Join(list, ", ") + "))", with
}

// await registers under the condition. When it fails, the item as it stood tells
// a run that has let go from one whose set is full.
func (s *Store) await(ctx context.Context, tenant, id, waiter, condition string, with table.Item, stands func(workflow.Head) bool) (bool, error) {
	with["max"] = table.N(maxWaiters)
	ok, old, err := s.t.Update(ctx, table.Change{
		Key:  executionKey(tenant, id, skState),
		Add:  table.Item{attrWaiters: table.Texts(waiter)},
		If:   condition + " AND (attribute_not_exists(#waiters) OR size(#waiters) < :max)",
		With: with,
	})
	if ok || err != nil {
		return ok, err
	}
	return old != nil && stands(headOf(old)), nil
}
