package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a pack item.
const (
	attrPackState       = "state"
	attrPackToken       = "token"
	attrPackDocument    = "doc"
	attrLease           = "lease"
	attrCancelRequested = "cancel"
	attrClaimNonce      = "nonce"
	attrPackWorker      = "worker"
	attrClaimedAt       = "claimed"
	attrFinishedAt      = "finished"
)

// Packs keeps the pack items and the done sets, for the engine and for workers.
type Packs struct{ t *table.Table }

// newPacks opens the packs of the jobs table.
func newPacks(t *table.Table) *Packs { return &Packs{t} }

// Pack is a strongly consistent read; nil if absent.
func (p *Packs) Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	it, err := p.t.Get(ctx, packKey(key))
	if err != nil || it == nil {
		return nil, err
	}
	return packOf(key, it)
}

// ShardPacks reads all packs of one shard of a step run.
func (p *Packs) ShardPacks(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	var all []*workflow.Pack
	for it, err := range p.t.Query(ctx, table.Query{
		KeyCondition: "#pk = :pk AND begins_with(#sk, :packs)",
		Values:       table.Item{"pk": table.S(packShardKey(stepRun, shard)), "packs": table.S(skPackPrefix)},
		Consistent:   true,
	}) {
		if err != nil {
			return nil, err
		}
		key, err := parsePackKey(stepRun, it.Key().SK)
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
func (p *Packs) Discard(ctx context.Context, stepRun workflow.StepRunKey, shard int, at time.Time) error {
	return p.t.Discard(ctx, packShardKey(stepRun, shard), "", at)
}

// PutCancelled puts p if the item is absent. A tombstone that stands there already
// is as good as this one.
func (p *Packs) PutCancelled(ctx context.Context, pack *workflow.Pack) (bool, error) {
	it, err := packItem(pack)
	if err != nil {
		return false, err
	}
	ok, old, err := p.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrPackState) == string(pack.State) && old.Int(attrPackToken) == int64(pack.Token), nil
}

// RequestCancel sets the cancel flag if the pack is CLAIMED.
func (p *Packs) RequestCancel(ctx context.Context, key workflow.PackKey) (bool, error) {
	ok, _, err := p.t.Update(ctx, table.Update{
		Key:       packKey(key),
		Set:       table.Item{attrCancelRequested: table.True()},
		Condition: ifClaimed, Values: table.Item{"claimed": table.S(string(workflow.PackClaimed))},
	})
	return ok, err
}

// ForceCancel replaces a pack whose lease is over. Another handler's seizure of the
// same claim is as good as this one.
func (p *Packs) ForceCancel(ctx context.Context, seen, next *workflow.Pack) (bool, error) {
	it, err := packItem(next)
	if err != nil {
		return false, err
	}
	ok, old, err := p.t.Put(ctx, it, ifLeaseUnchanged, leaseValues(seen))
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrPackState) == string(next.State) && old.Int(attrPackToken) == int64(next.Token), nil
}

// The conditions on a claim, and what they are compared with. A takeover needs
// the lease too: the holder may have renewed it since.
const (
	ifClaimed        = "#state = :claimed"
	ifTokenHeld      = ifClaimed + " AND #token = :token"
	ifLeaseUnchanged = ifTokenHeld + " AND #lease = :lease"
	andNotCancelled  = " AND attribute_not_exists(#cancel)"
)

func tokenValues(token int) table.Item {
	return table.Item{"claimed": table.S(string(workflow.PackClaimed)), "token": table.N(int64(token))}
}

func leaseValues(p *workflow.Pack) table.Item {
	with := tokenValues(p.Token)
	with["lease"] = table.N(table.Millis(p.Lease))
	return with
}
