package query

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Cost returns what an execution has consumed: the service counts up to its last commit, and the
// last commit itself. No later commit can record that one, so its cost is computed from the size of
// the item.
func (v *Service) Cost(ctx context.Context, c workflow.Caller, id string) (views.CostView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return views.CostView{}, err
	}
	x := i.Execution()
	total := x.Cost.Clone()
	total.Add(lastWriteCost(x))
	bill := cost.NewBill(total)
	answer := views.CostView{
		ExecutionID: x.ID, WriteUnits: total.WriteUnits, ReadUnits: total.ReadUnits,
		DynamoRequests: total.DynamoRequests, QueueRequests: total.QueueRequests, Invocations: total.Invocations,
		Lines: bill.Lines, Dollars: bill.Total, PricesAsOf: bill.AsOf,
	}
	if answer.WriteUnits == nil {
		answer.WriteUnits = map[string]float64{}
	}
	if answer.ReadUnits == nil {
		answer.ReadUnits = map[string]float64{}
	}
	return answer, nil
}

// lastWriteCost returns the cost of the last commit.
func lastWriteCost(x *workflow.Execution) workflow.Cost {
	units := float64((x.ItemBytes+1023)/1024 + x.IndexWrites)
	return workflow.Cost{WriteUnits: map[string]float64{topology.TableExecutions: units}, DynamoRequests: 1}
}
