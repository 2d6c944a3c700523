package packs

import (
	"bytes"
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/form"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Claim puts p if the item is absent.
func (p *Packs) Claim(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.put(ctx, pack, table.IfAbsent, nil)
}

// TakeOver replaces seen by next.
func (p *Packs) TakeOver(ctx context.Context, seen, next *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.put(ctx, next, ifAsSeen+unasked, asSeen(seen))
}

// FinishUnclaimed puts p if the item is absent.
func (p *Packs) FinishUnclaimed(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	return p.put(ctx, pack, table.IfAbsent, nil)
}

// put writes a whole pack. A claim whose reply was lost is recognised by its
// nonce, never by the worker's name.
func (p *Packs) put(ctx context.Context, pack *workflow.Pack, condition string, with table.Item) (bool, *workflow.Pack, error) {
	it, err := itemOf(pack)
	if err != nil {
		return false, nil, err
	}
	ok, was, err := p.t.Put(ctx, it, condition, with)
	if ok || err != nil || was == nil {
		return ok, nil, err
	}
	old, err := packOf(pack.Key, was)
	if err != nil {
		return false, nil, err
	}
	return pack.Nonce != "" && old.Nonce == pack.Nonce && old.Token == pack.Token && old.State == pack.State, old, nil
}

// Extend writes p's lease and job records.
func (p *Packs) Extend(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	doc, err := form.EncodeJobs(pack)
	if err != nil {
		return false, nil, err
	}
	return p.change(ctx, pack, table.Change{
		Set: table.Item{attrLease: table.N(table.Millis(pack.Lease)), attrDoc: table.B(doc)},
		// A heartbeat that was held up on its way must not undo a later one.
		If: ifMine + unasked + " AND #lease <= :set_lease",
	})
}

// Finish writes p's end.
func (p *Packs) Finish(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	doc, err := form.EncodeJobs(pack)
	if err != nil {
		return false, nil, err
	}
	ok, old, err := p.change(ctx, pack, table.Change{
		Set: table.Item{
			attrState: table.S(string(pack.State)), attrFinished: table.N(table.Millis(pack.FinishedAt)), attrDoc: table.B(doc),
		},
		If: ifMine,
	})
	// Nobody else writes with this token: an end that carries it is this one. Where
	// others may, it is if it says the same.
	if old != nil && old.State == pack.State && old.Token == pack.Token {
		ok = pack.Seen.IsZero()
		if again, failed := form.EncodeJobs(old); failed == nil && bytes.Equal(again, doc) {
			ok = true
		}
	}
	return ok, old, err
}

func (p *Packs) change(ctx context.Context, pack *workflow.Pack, c table.Change) (bool, *workflow.Pack, error) {
	c.Key, c.With = packKey(pack.Key), mine(pack.Token)
	if !pack.Seen.IsZero() {
		c.If += " AND #lease = :lease"
		c.With = asSeen(&workflow.Pack{Token: pack.Token, Lease: pack.Seen})
	}
	ok, was, err := p.t.Update(ctx, c)
	if ok || err != nil || was == nil {
		return ok, nil, err
	}
	old, err := packOf(pack.Key, was)
	return false, old, err
}
