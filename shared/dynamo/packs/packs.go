package packs

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a pack item.
const (
	attrState    = "state"
	attrToken    = "token"
	attrDoc      = "doc"
	attrLease    = "lease"
	attrCancel   = "cancel"
	attrNonce    = "nonce"
	attrWorker   = "worker"
	attrClaimed  = "claimed"
	attrFinished = "finished"
)

// Packs keeps the pack items and the done sets, for the engine and for workers.
type Packs struct{ t *table.Table }

// New opens the packs of the jobs table.
func New(t *table.Table) *Packs { return &Packs{t} }

// Pack is a strongly consistent read; nil if absent.
func (p *Packs) Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	it, err := p.t.Get(ctx, packKey(key))
	if err != nil || it == nil {
		return nil, err
	}
	return packOf(key, it)
}

// Shard reads all packs of one shard of a step run.
func (p *Packs) Shard(ctx context.Context, run workflow.RunKey, shard int) ([]*workflow.Pack, error) {
	var all []*workflow.Pack
	for it, err := range p.t.Query(ctx, table.Query{
		Key:    "#pk = :pk AND begins_with(#sk, :packs)",
		With:   table.Item{"pk": table.S(shardKey(run, shard)), "packs": table.S(skPack)},
		Strong: true,
	}) {
		if err != nil {
			return nil, err
		}
		key, err := packKeyOf(run, it.Key().SK)
		if err != nil {
			return nil, err
		}
		one, err := packOf(key, it)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Discard has everything of one shard of a step run dropped from at on.
func (p *Packs) Discard(ctx context.Context, run workflow.RunKey, shard int, at time.Time) error {
	return p.t.Discard(ctx, shardKey(run, shard), "", at)
}

// Tombstone puts p if the item is absent. A tombstone that stands there already
// is as good as this one.
func (p *Packs) Tombstone(ctx context.Context, pack *workflow.Pack) (bool, error) {
	it, err := itemOf(pack)
	if err != nil {
		return false, err
	}
	ok, old, err := p.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrState) == string(pack.State) && old.Int(attrToken) == int64(pack.Token), nil
}

// AskCancel sets the cancel flag if the pack is CLAIMED.
func (p *Packs) AskCancel(ctx context.Context, key workflow.PackKey) (bool, error) {
	ok, _, err := p.t.Update(ctx, table.Change{
		Key: packKey(key),
		Set: table.Item{attrCancel: table.Yes()},
		If:  ifClaimed, With: table.Item{"claimed": table.S(string(workflow.PackClaimed))},
	})
	return ok, err
}

// Seize replaces a pack whose lease is over. Another handler's seizure of the
// same claim is as good as this one.
func (p *Packs) Seize(ctx context.Context, seen, next *workflow.Pack) (bool, error) {
	it, err := itemOf(next)
	if err != nil {
		return false, err
	}
	ok, old, err := p.t.Put(ctx, it, ifAsSeen, asSeen(seen))
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrState) == string(next.State) && old.Int(attrToken) == int64(next.Token), nil
}

// The conditions on a claim, and what they are compared with. A takeover needs
// the lease too: the holder may have renewed it since.
const (
	ifClaimed = "#state = :claimed"
	ifMine    = ifClaimed + " AND #token = :token"
	ifAsSeen  = ifMine + " AND #lease = :lease"
	unasked   = " AND attribute_not_exists(#cancel)"
)

func mine(token int) table.Item {
	return table.Item{"claimed": table.S(string(workflow.PackClaimed)), "token": table.N(int64(token))}
}

func asSeen(p *workflow.Pack) table.Item {
	with := mine(p.Token)
	with["lease"] = table.N(table.Millis(p.Lease))
	return with
}
