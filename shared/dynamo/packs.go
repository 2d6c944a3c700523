package dynamo

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/codec"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a pack item, besides the common ones.
const (
	attrLease           = "lease"
	attrCancelRequested = "cancel"
	attrClaimNonce      = "nonce"
	attrPackWorker      = "worker"
	attrClaimedAt       = "claimed"
	attrConfirmed       = "confirmed"
	attrFinishedAt      = "finished"
)

// Conditions on a claim. A takeover compares the lease too, because the holder may have renewed it
// since it was read.
const (
	ifClaimed        = "#state = :claimed"
	ifTokenHeld      = ifClaimed + " AND #token = :token"
	ifLeaseUnchanged = ifTokenHeld + " AND #lease = :lease"
	andNotCancelled  = " AND attribute_not_exists(#cancel)"
)

// tokenValues returns the values for [ifTokenHeld].
func tokenValues(token int) table.Item {
	return table.Item{"claimed": table.S(string(workflow.PackClaimed)), "token": table.N(int64(token))}
}

// leaseValues returns the values for [ifLeaseUnchanged].
func leaseValues(p *workflow.Pack) table.Item {
	values := tokenValues(p.Token)
	values["lease"] = table.N(table.Millis(p.Lease))
	return values
}

// Packs stores the pack items, their payloads and the done sets, for the engine
// and for workers.
type Packs struct{ t *table.Table }

// Pack reads a pack, strongly consistent; nil if absent.
func (p *Packs) Pack(ctx context.Context, key workflow.PackKey) (*workflow.Pack, error) {
	it, err := p.t.Get(ctx, packKey(key))
	if err != nil || it == nil {
		return nil, err
	}
	return packOf(key, it)
}

// ShardPacks reads all packs of one shard of a step run.
func (p *Packs) ShardPacks(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return p.query(ctx, stepRun, shard, true, "begins_with(#sk, :packs)", table.Item{"packs": table.S(skPackPrefix)})
}

// ShardPacksWeakly reads the same, each as it is or as it was.
func (p *Packs) ShardPacksWeakly(ctx context.Context, stepRun workflow.StepRunKey, shard int) ([]*workflow.Pack, error) {
	return p.query(ctx, stepRun, shard, false, "begins_with(#sk, :packs)", table.Item{"packs": table.S(skPackPrefix)})
}

// LanePacks reads all packs of lanes of one shard, from first to last.
func (p *Packs) LanePacks(ctx context.Context, stepRun workflow.StepRunKey, first, last int) ([]*workflow.Pack, error) {
	from, to := lanePrefix(first), lanePrefix(last+1) // to is not a key itself, because a key continues after its lane
	if len(from) == len(to) {
		return p.query(ctx, stepRun, first/workflow.LanesPerShard, true, "#sk BETWEEN :first AND :last", table.Item{"first": table.S(from), "last": table.S(to)})
	}
	// Lanes above 99,999 have one more digit. In the shard that contains both lengths they are not
	// in order.
	all, err := p.ShardPacks(ctx, stepRun, first/workflow.LanesPerShard)
	return slices.DeleteFunc(all, func(p *workflow.Pack) bool { return p.Key.Lane < first || p.Key.Lane > last }), err
}

func (p *Packs) query(ctx context.Context, stepRun workflow.StepRunKey, shard int, strong bool, condition string, values table.Item) ([]*workflow.Pack, error) {
	values["pk"] = table.S(packShardKey(stepRun, shard))
	var all []*workflow.Pack
	for it, err := range p.t.Query(ctx, table.Query{KeyCondition: "#pk = :pk AND " + condition, Values: values, Consistent: strong}) {
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

// Discard sets a time to live of at on every item of one shard of a step run.
func (p *Packs) Discard(ctx context.Context, stepRun workflow.StepRunKey, shard int, at time.Time) error {
	return p.t.Discard(ctx, packShardKey(stepRun, shard), "", at)
}

// PutCancelled puts pack, a cancelled marker, if the item is absent. An equal
// marker that is already there counts as this one.
func (p *Packs) PutCancelled(ctx context.Context, pack *workflow.Pack) (bool, error) {
	it, err := packItem(pack)
	if err != nil {
		return false, err
	}
	ok, old, err := p.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return ok, err
	}
	return isSameEnd(old, pack), nil
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

// ForceCancel replaces a pack whose lease has expired. If another handler has
// already cancelled the same claim, that counts as this one.
func (p *Packs) ForceCancel(ctx context.Context, seen, next *workflow.Pack) (bool, error) {
	it, err := packItem(next)
	if err != nil {
		return false, err
	}
	ok, old, err := p.t.Put(ctx, it, ifLeaseUnchanged, leaseValues(seen))
	if ok || err != nil {
		return ok, err
	}
	return isSameEnd(old, next), nil
}

// isSameEnd reports whether the item has the state and the token of the pack.
func isSameEnd(it table.Item, pack *workflow.Pack) bool {
	return it.Text(attrState) == string(pack.State) && it.Int(attrToken) == int64(pack.Token)
}

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

// putPack writes a whole pack. It recognises a claim whose reply was lost by its
// nonce, never by the worker's name.
func (p *Packs) putPack(ctx context.Context, pack *workflow.Pack, condition string, values table.Item) (bool, *workflow.Pack, error) {
	it, err := packItem(pack)
	if err != nil {
		return false, nil, err
	}
	ok, oldItem, err := p.t.Put(ctx, it, condition, values)
	if ok || err != nil || oldItem == nil {
		return ok, nil, err
	}
	old, err := packOf(pack.Key, oldItem)
	if err != nil {
		return false, nil, err
	}
	return pack.Nonce != "" && old.Nonce == pack.Nonce && old.Token == pack.Token && old.State == pack.State, old, nil
}

// Extend writes p's lease and job records, and the attributes that say since when its holder has
// it.
func (p *Packs) Extend(ctx context.Context, pack *workflow.Pack) (bool, *workflow.Pack, error) {
	doc, err := codec.EncodePack(pack)
	if err != nil {
		return false, nil, err
	}
	set := table.Item{attrLease: table.N(table.Millis(pack.Lease)), attrClaimedAt: table.N(table.Millis(pack.ClaimedAt)), attrDocument: table.B(doc)}
	if pack.Confirmed {
		set[attrConfirmed] = table.True()
	}
	return p.updatePack(ctx, pack, table.Update{
		Set: set,
		// A delayed heartbeat must not undo a later one.
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
			attrState: table.S(string(pack.State)), attrFinishedAt: table.N(table.Millis(pack.FinishedAt)), attrDocument: table.B(doc),
		},
		Condition: ifTokenHeld,
	})
	// Nobody else writes with this token, so an end with this token is this one. With
	// an ExpectedLease others may write too; then the documents must be equal.
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

// SavePayload stores data in a pack's partition, in chunks whose key has the
// digest: saving the same data again writes the same items.
func (p *Packs) SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
	ref := workflow.NewPayloadRef(data)
	return ref, putChunks(ctx, p.t, ref.Chunks,
		func(i int) table.Key { return payloadKey(key, ref, i) },
		func(i int) ([]byte, error) { return ref.Chunk(data, i), nil })
}

// LoadPayload reads what [Packs.SavePayload] stored and verifies it.
func (p *Packs) LoadPayload(ctx context.Context, key workflow.PackKey, ref workflow.PayloadRef) ([]byte, error) {
	parts := make([][]byte, ref.Chunks)
	err := getChunks(ctx, p.t, fmt.Sprintf("the payload of pack %s", key), ref.Chunks,
		func(i int) table.Key { return payloadKey(key, ref, i) },
		func(i int, it table.Item) (err error) {
			parts[i], err = table.Deflate.Decompress(it.Bytes(attrDocument))
			return err
		})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, ref.Bytes)
	for _, part := range parts {
		data = append(data, part...)
	}
	return data, ref.Verify(data)
}

// packItem returns the whole item of a pack.
func packItem(p *workflow.Pack) (table.Item, error) {
	doc, err := codec.EncodePack(p)
	if err != nil {
		return nil, err
	}
	key := packKey(p.Key)
	it := table.Item{
		topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
		attrState: table.S(string(p.State)), attrToken: table.N(int64(p.Token)),
		attrDocument: table.B(doc),
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
	if p.Confirmed {
		it[attrConfirmed] = table.True()
	}
	return it, nil
}

// packOf reads a pack item.
func packOf(key workflow.PackKey, it table.Item) (*workflow.Pack, error) {
	p := &workflow.Pack{
		Key:             key,
		State:           workflow.PackState(it.Text(attrState)),
		Token:           int(it.Int(attrToken)),
		Lease:           table.FromMillis(it.Int(attrLease)),
		CancelRequested: it.Has(attrCancelRequested),
		Nonce:           it.Text(attrClaimNonce),
		Worker:          it.Text(attrPackWorker),
		ClaimedAt:       table.FromMillis(it.Int(attrClaimedAt)),
		Confirmed:       it.Has(attrConfirmed),
		FinishedAt:      table.FromMillis(it.Int(attrFinishedAt)),
	}
	return p, codec.DecodePack(p, it.Bytes(attrDocument))
}
