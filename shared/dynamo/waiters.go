package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// AddHolderWaiter adds a waiter to by.Execution if that still holds its locks at by.Epoch and has
// released no entity since by was read. A condition cannot test for one place in the set of kept
// entities, but within an epoch that set only changes together with the count.
func (s *Store) AddHolderWaiter(ctx context.Context, tenant string, by workflow.BlockedBy, waiter string) (workflow.OwnerStatus, bool, error) {
	condition, values := stateCondition(statemachines.HoldsLocks)
	values["epoch"] = table.N(by.Epoch)
	narrowed := "attribute_not_exists(#narrowed)"
	if by.Narrowed > 0 {
		narrowed = "#narrowed = :narrowed"
		values["narrowed"] = table.N(by.Narrowed)
	}
	return s.addWaiter(ctx, tenant, by.Execution, waiter, "#epoch = :epoch AND "+narrowed+" AND "+condition, values,
		func(h workflow.OwnerStatus) bool {
			return h.HoldsEntity(by.Entity, by.Epoch, 0) && h.Narrowed == by.Narrowed
		})
}

// AddReserverWaiter adds waiter to reserver's waiters if that execution has not
// locked yet and does not wait for an operator.
func (s *Store) AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (workflow.OwnerStatus, bool, error) {
	condition, values := stateCondition(func(state statemachines.ExecutionState) bool { return workflow.OwnerStatus{State: state}.Reserves() })
	condition = "attribute_exists(#pk) AND (attribute_not_exists(#awaitsPerson) OR #awaitsPerson <> #epoch OR #state = :locking) AND " + condition
	values["locking"] = table.S(string(statemachines.ExecutionLocking))
	return s.addWaiter(ctx, tenant, reserver, waiter, condition, values, workflow.OwnerStatus.Reserves)
}

// stateCondition returns the condition that excludes the states for which qualifies is false. It
// lists the states that do not qualify, so a state that this version does not know qualifies.
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

// addWaiter adds a waiter under the condition and returns the execution's status afterwards. If the
// condition fails, the returned old item distinguishes an execution that no longer qualifies from
// one whose set is full; the latter is ok.
func (s *Store) addWaiter(ctx context.Context, tenant, id, waiter, condition string, values table.Item, qualifies func(workflow.OwnerStatus) bool) (workflow.OwnerStatus, bool, error) {
	values["max"] = table.N(workflow.MaxWaiters)
	ok, found, err := s.t.Update(ctx, table.Update{
		Key:       executionKey(tenant, id, skState),
		Add:       table.Item{attrWaiters: table.StringSet(waiter)},
		Condition: condition + " AND (attribute_not_exists(#waiters) OR size(#waiters) < :max)",
		Values:    values,
		Return:    types.ReturnValueAllNew,
	})
	if found == nil {
		return workflow.OwnerStatus{}, false, err
	}
	// The schema does not matter: see Heads.
	head, err := headOf(found)
	return head, err == nil && (ok || qualifies(head)), err
}
