package dynamo

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// packItem is the whole item of a pack.
func packItem(p *workflow.Pack) (table.Item, error) {
	doc, err := codec.EncodePack(p)
	if err != nil {
		return nil, err
	}
	key := packKey(p.Key)
	it := table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
		attrPackState: table.S(string(p.State)), attrPackToken: table.N(int64(p.Token)),
		attrPackDocument: table.B(doc),
	}
	for name, at := range map[string]time.Time{attrLease: p.Lease, attrClaimedAt: p.ClaimedAt, attrFinishedAt: p.FinishedAt} {
		if !at.IsZero() {
			it[name] = table.N(table.Millis(at))
		}
	}
	for name, s := range map[string]string{attrClaimNonce: p.Nonce, attrPackWorker: p.Worker} {
		if s != "" {
			it[name] = table.S(s)
		}
	}
	if p.CancelRequested {
		it[attrCancelRequested] = table.True()
	}
	return it, nil
}

func packOf(key workflow.PackKey, it table.Item) (*workflow.Pack, error) {
	p := &workflow.Pack{
		Key:             key,
		State:           workflow.PackState(it.Text(attrPackState)),
		Token:           int(it.Int(attrPackToken)),
		Lease:           table.FromMillis(it.Int(attrLease)),
		CancelRequested: it.Has(attrCancelRequested),
		Nonce:           it.Text(attrClaimNonce),
		Worker:          it.Text(attrPackWorker),
		ClaimedAt:       table.FromMillis(it.Int(attrClaimedAt)),
		FinishedAt:      table.FromMillis(it.Int(attrFinishedAt)),
	}
	return p, codec.DecodePack(p, it.Bytes(attrPackDocument))
}
