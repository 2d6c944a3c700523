package packs

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a done set. Lanes count from 0 within the shard, which keeps the
// set of all of them below 1 KB, so that each ADD is one write unit. What was
// consumed is added up by table in numbers of their own.
const (
	attrDone      = "done"
	attrBad       = "bad"
	attrUpdates   = "upd"
	attrDynamo    = "d"
	attrQueue     = "q"
	attrFunctions = "f"
	prefixWrites  = "w_"
	prefixReads   = "r_"
)

// Done is a strongly consistent read of a shard's done set.
func (p *Packs) Done(ctx context.Context, run workflow.RunKey, shard int) (workflow.DoneSet, error) {
	it, err := p.t.Get(ctx, table.Key{PK: shardKey(run, shard), SK: skDone})
	if err != nil {
		return workflow.DoneSet{}, err
	}
	return doneOf(it), nil
}

// AddDone adds a lane to its shard's done set. Repeating it changes nothing,
// except that a repetition after a lost reply counts the cost twice: the set is
// exact, the cost errs on the high side.
func (p *Packs) AddDone(ctx context.Context, key workflow.PackKey, end workflow.LaneEnd) (workflow.DoneSet, error) {
	lane := table.Numbers(key.Lane % workflow.LanesPerShard)
	add := table.Item{attrDone: lane}
	if end.Bad {
		add[attrBad] = lane
	}
	if end.Updates {
		add[attrUpdates] = lane
	}
	cost := end.Cost
	for role, units := range cost.WriteUnits {
		add[prefixWrites+role] = table.F(units)
	}
	for role, units := range cost.ReadUnits {
		add[prefixReads+role] = table.F(units)
	}
	for name, n := range map[string]float64{attrDynamo: float64(cost.Dynamo), attrQueue: cost.Queue, attrFunctions: cost.Functions} {
		if n != 0 {
			add[name] = table.F(n)
		}
	}
	_, now, err := p.t.Update(ctx, table.Change{
		Key:    table.Key{PK: shardKey(key.Run(), key.Shard()), SK: skDone},
		Add:    add,
		Return: types.ReturnValueAllNew,
	})
	if err != nil {
		return workflow.DoneSet{}, err
	}
	return doneOf(now), nil
}

func doneOf(it table.Item) workflow.DoneSet {
	set := workflow.DoneSet{Done: map[int]bool{}, Bad: map[int]bool{}, Updates: map[int]bool{}}
	for _, lane := range it.Numbers(attrDone) {
		set.Done[lane] = true
	}
	for _, lane := range it.Numbers(attrBad) {
		set.Bad[lane] = true
	}
	for _, lane := range it.Numbers(attrUpdates) {
		set.Updates[lane] = true
	}
	for name := range it {
		if role, ok := strings.CutPrefix(name, prefixWrites); ok {
			set.Cost.Add(workflow.Cost{WriteUnits: map[string]float64{role: it.Float(name)}})
		}
		if role, ok := strings.CutPrefix(name, prefixReads); ok {
			set.Cost.Add(workflow.Cost{ReadUnits: map[string]float64{role: it.Float(name)}})
		}
	}
	set.Cost.Dynamo = int(it.Float(attrDynamo))
	set.Cost.Queue, set.Cost.Functions = it.Float(attrQueue), it.Float(attrFunctions)
	return set
}
