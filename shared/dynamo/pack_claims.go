package dynamo

import (
	"bytes"
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Claim puts p if the item is absent.
func (p *Packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.putPack(ctx, pack, table.IfAbsent, nil)
}

// TakeOver replaces seen by next.
func (p *Packs) TakeOver(ctx context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.putPack(ctx, next, ifLeaseUnchanged+andNotCancelled, leaseValues(seen))
}

// FinishUnclaimed puts p if the item is absent.
func (p *Packs) FinishUnclaimed(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.putPack(ctx, pack, table.IfAbsent, nil)
}

// putPack writes a whole pack. A claim whose reply was lost is recognised by its
// nonce, never by the worker's name.
func (p *Packs) putPack(ctx context.Context, pack *workflow.Pack, condition string, with table.Item) (bool, *workflow.Pack, error) {
	it, err := packItem(pack)
	if err != nil {
		return false, nil, err
	}
	ok, oldItem, err := p.t.Put(ctx, it, condition, with)
	if ok || err != nil || oldItem == nil {
		return ok, nil, err
	}
	old, err := packOf(pack.Key, oldItem)
	if err != nil {
		return false, nil, err
	}
	return pack.Nonce != "" && old.Nonce == pack.Nonce && old.Token == pack.Token && old.State == pack.State, old, nil
}

// Extend writes p's lease and job records.
func (p *Packs) Extend(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	doc, err := codec.EncodePack(pack)
	if err != nil {
		return false, nil, err
	}
	return p.updatePack(ctx, pack, table.Update{
		Set: table.Item{attrLease: table.N(table.Millis(pack.Lease)), attrPackDocument: table.B(doc)},
		// A heartbeat that was held up on its way must not undo a later one.
		Condition: ifTokenHeld + andNotCancelled + " AND #lease <= :set_lease",
	})
}

// Finish writes p's end.
func (p *Packs) Finish(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	doc, err := codec.EncodePack(pack)
	if err != nil {
		return false, nil, err
	}
	ok, old, err := p.updatePack(ctx, pack, table.Update{
		Set: table.Item{
			attrPackState: table.S(string(pack.State)), attrFinishedAt: table.N(table.Millis(pack.FinishedAt)), attrPackDocument: table.B(doc),
		},
		Condition: ifTokenHeld,
	})
	// Nobody else writes with this token: an end that carries it is this one. Where
	// others may, it is if it says the same.
	if old != nil && old.State == pack.State && old.Token == pack.Token {
		ok = pack.ExpectedLease.IsZero()
		if oldDocument, encodeErr := codec.EncodePack(old); encodeErr == nil && bytes.Equal(oldDocument, doc) {
			ok = true
		}
	}
	return ok, old, err
}

func (p *Packs) updatePack(ctx context.Context, pack *workflow.Pack, c table.Update) (bool, *workflow.Pack, error) {
	c.Key, c.Values = packKey(pack.Key), tokenValues(pack.Token)
	if !pack.ExpectedLease.IsZero() {
		c.Condition += " AND #lease = :lease"
		c.Values = leaseValues(&workflow.Pack{Token: pack.Token, Lease: pack.ExpectedLease})
	}
	ok, oldItem, err := p.t.Update(ctx, c)
	if ok || err != nil || oldItem == nil {
		return ok, nil, err
	}
	old, err := packOf(pack.Key, oldItem)
	return false, old, err
}
