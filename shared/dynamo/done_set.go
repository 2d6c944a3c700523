package dynamo

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a done set. Lanes are numbered from 0 within the shard, which keeps the whole set
// below 1 KB, so that each ADD costs one write unit. An unsuccessful lane is written with its
// counts, see [failedLane]. Consumption is added up in separate numbers, units by table.
const (
	attrDoneLanes     = "done"
	attrFailedLanes   = "bad"
	attrUpdatingLanes = "upd"
	attrCostDynamo    = "d"
	attrCostQueue     = "q"
	attrCostFunctions = "f"
	prefixWriteUnits  = "w_"
	prefixReadUnits   = "r_"
)

// DoneSet reads a shard's done set, strongly consistent.
func (p *Packs) DoneSet(ctx context.Context, stepRun workflow.StepRunKey, shard int) (workflow.DoneSet, error) {
	it, err := p.t.Get(ctx, doneSetKey(stepRun, shard))
	if err != nil {
		return workflow.DoneSet{}, err
	}
	return doneSetOf(it), nil
}

// AddDone adds a lane to its shard's done set and returns the new set. The set is exact. A
// repetition after a lost reply counts the cost twice, so that the cost errs on the high side, and
// does not report the lane as added.
func (p *Packs) AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneResult) (workflow.DoneSet, error) {
	number := key.Lane % workflow.LanesPerShard
	lane := table.NumberSet(number)
	add := table.Item{attrDoneLanes: lane}
	if end.Unsuccessful {
		add[attrFailedLanes] = table.NumberSet(failedLane(number, end.Failures))
	}
	if end.HasUpdates {
		add[attrUpdatingLanes] = lane
	}
	cost := end.Cost
	for role, units := range cost.WriteUnits {
		add[prefixWriteUnits+role] = table.Float(units)
	}
	for role, units := range cost.ReadUnits {
		add[prefixReadUnits+role] = table.Float(units)
	}
	for name, n := range map[string]float64{attrCostDynamo: float64(cost.DynamoRequests), attrCostQueue: cost.QueueRequests, attrCostFunctions: cost.Invocations} {
		if n != 0 {
			add[name] = table.Float(n)
		}
	}
	_, old, err := p.t.Update(ctx, table.Update{
		Key:    doneSetKey(key.StepRunKey(), key.Shard()),
		Add:    add,
		Return: types.ReturnValueAllOld,
	})
	if err != nil {
		return workflow.DoneSet{}, err
	}
	set := doneSetOf(old)
	set.Include(number, end)
	return set, nil
}

// AddDoneLanes adds lanes of one shard that ended successfully, and returns the new set.
func (p *Packs) AddDoneLanes(ctx context.Context, stepRun workflow.StepRunKey, shard int, lanes []int) (workflow.DoneSet, error) {
	numbers := make([]int, len(lanes))
	for i, lane := range lanes {
		numbers[i] = lane % workflow.LanesPerShard
	}
	_, old, err := p.t.Update(ctx, table.Update{
		Key:    doneSetKey(stepRun, shard),
		Add:    table.Item{attrDoneLanes: table.NumberSet(numbers...)},
		Return: types.ReturnValueAllOld,
	})
	if err != nil {
		return workflow.DoneSet{}, err
	}
	set := doneSetOf(old)
	set.IncludeAll(numbers)
	return set, nil
}

// failedLane encodes an unsuccessful lane with its counts in one number. A lane may be added twice
// with the same counts; a separate counter could not tell that from two lanes.
func failedLane(lane int, f workflow.JobFailures) int {
	return lane + 1000*f.Failed + 1_000_000*f.Unknown
}

func parseFailedLane(n int) (lane int, f workflow.JobFailures) {
	return n % 1000, workflow.JobFailures{Failed: n / 1000 % 1000, Unknown: n / 1_000_000}
}

func doneSetOf(it table.Item) workflow.DoneSet {
	set := workflow.NewDoneSet()
	for _, lane := range it.NumberSet(attrDoneLanes) {
		set.Done[lane] = true
	}
	for _, n := range it.NumberSet(attrFailedLanes) {
		lane, failures := parseFailedLane(n)
		set.AddFailures(lane, failures)
	}
	for _, lane := range it.NumberSet(attrUpdatingLanes) {
		set.WithUpdates[lane] = true
	}
	for name := range it {
		if role, ok := strings.CutPrefix(name, prefixWriteUnits); ok {
			set.Cost.Add(workflow.Cost{WriteUnits: map[string]float64{role: it.Float(name)}})
		}
		if role, ok := strings.CutPrefix(name, prefixReadUnits); ok {
			set.Cost.Add(workflow.Cost{ReadUnits: map[string]float64{role: it.Float(name)}})
		}
	}
	set.Cost.DynamoRequests = int(it.Float(attrCostDynamo))
	set.Cost.QueueRequests, set.Cost.Invocations = it.Float(attrCostQueue), it.Float(attrCostFunctions)
	return set
}
