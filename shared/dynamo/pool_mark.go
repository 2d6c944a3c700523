package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of the mark of a pool.
const (
	attrMarkedAt  = "at"
	attrSentAt    = "sent"
	attrExecution = "x"
	attrStepRun   = "r"
)

// poolMarkLife is for how long the mark of a pool that nobody serves any more is kept.
const poolMarkLife = 30 * 24 * time.Hour

// poolMarkKey is the key of the mark of a pool. No tenant's prefix begins with "~".
func poolMarkKey(pool string) table.Key { return table.Key{PK: "~pool#" + pool, SK: "mark"} }

// MarkPool replaces the mark of a pool.
func (p *Packs) MarkPool(ctx context.Context, pool string, mark workflow.PoolMark) error {
	key := poolMarkKey(pool)
	_, _, err := p.t.Put(ctx, table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK), topology.AttrTTL: table.N(mark.At.Add(poolMarkLife).Unix()),
		attrMarkedAt: table.N(table.Millis(mark.At)), attrSentAt: table.N(table.Millis(mark.SentAt)),
		attrExecution: table.S(mark.Execution), attrStepRun: table.N(int64(mark.StepRun)),
	}, "", nil)
	return err
}

// PoolMark is the mark of a pool, zero if there is none.
func (p *Packs) PoolMark(ctx context.Context, pool string) (workflow.PoolMark, error) {
	it, err := p.t.Get(ctx, poolMarkKey(pool))
	if err != nil || it == nil {
		return workflow.PoolMark{}, err
	}
	return workflow.PoolMark{At: table.FromMillis(it.Int(attrMarkedAt)), SentAt: table.FromMillis(it.Int(attrSentAt)), Execution: it.Text(attrExecution), StepRun: int(it.Int(attrStepRun))}, nil
}
