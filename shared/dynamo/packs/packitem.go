package packs

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/form"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// itemOf is the whole item of a pack.
func itemOf(p *workflow.Pack) (table.Item, error) {
	doc, err := form.EncodeJobs(p)
	if err != nil {
		return nil, err
	}
	key := packKey(p.Key)
	it := table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
		attrState: table.S(string(p.State)), attrToken: table.N(int64(p.Token)),
		attrDoc: table.B(doc),
	}
	for name, at := range map[string]time.Time{attrLease: p.Lease, attrClaimed: p.ClaimedAt, attrFinished: p.FinishedAt} {
		if !at.IsZero() {
			it[name] = table.N(table.Millis(at))
		}
	}
	for name, s := range map[string]string{attrNonce: p.Nonce, attrWorker: p.Worker} {
		if s != "" {
			it[name] = table.S(s)
		}
	}
	if p.Cancel {
		it[attrCancel] = table.Yes()
	}
	return it, nil
}

func packOf(key workflow.PackKey, it table.Item) (*workflow.Pack, error) {
	p := &workflow.Pack{
		Key:        key,
		State:      workflow.PackState(it.Text(attrState)),
		Token:      int(it.Int(attrToken)),
		Lease:      table.At(it.Int(attrLease)),
		Cancel:     it.Has(attrCancel),
		Nonce:      it.Text(attrNonce),
		Worker:     it.Text(attrWorker),
		ClaimedAt:  table.At(it.Int(attrClaimed)),
		FinishedAt: table.At(it.Int(attrFinished)),
	}
	return p, form.DecodeJobs(p, it.Bytes(attrDoc))
}
