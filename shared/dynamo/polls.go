package dynamo

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a poll attempt's item, besides the document, which
// is the first chunk of the receipt; further chunks are in items of their own.
const (
	attrPollVersion  = "poll"
	attrChunks       = "chunks"
	maxReceiptInItem = 300 << 10
)

func pollKey(a workflow.PollAttempt) table.Key {
	return table.Key{PK: table.TenantPrefix(a.Tenant) + "polls#" + a.Worker, SK: a.ID}
}

// pollChunkKey returns the key of a further chunk, counted from 1, of the receipt with that
// version. No attempt's id contains a "#".
func pollChunkKey(a workflow.PollAttempt, version string, chunk int) table.Key {
	k := pollKey(a)
	k.SK = fmt.Sprintf("%s#%s#%d", k.SK, version, chunk)
	return k
}

// PollReceipt reads a receipt, strongly consistent; nil if nothing is stored for the attempt.
func (p *Packs) PollReceipt(ctx context.Context, a workflow.PollAttempt) (*workflow.PollReceipt, error) {
	it, err := p.t.Get(ctx, pollKey(a))
	if err != nil || it == nil {
		return nil, err
	}
	r := &workflow.PollReceipt{Version: it.Text(attrPollVersion), Receipt: it.Bytes(attrDocument), ExpiresAt: table.FromMillis(it.Int(attrExpiresAt))}
	for i := 1; i < int(it.Int(attrChunks)); i++ {
		chunk, err := p.t.Get(ctx, pollChunkKey(a, r.Version, i))
		if err != nil {
			return nil, err
		}
		if chunk == nil {
			return nil, workflow.Errorf(workflow.CodeNotFound, "chunk %d of the receipt of poll %s is missing", i+1, a.ID)
		}
		r.Receipt = append(r.Receipt, chunk.Bytes(attrDocument)...)
	}
	return r, nil
}

// SavePollReceipt replaces what is stored for the attempt if it still has the version seen; ""
// means nothing is stored. It recognises its own write after a lost reply by the version.
func (p *Packs) SavePollReceipt(ctx context.Context, a workflow.PollAttempt, seen string, next workflow.PollReceipt) (bool, error) {
	put := func(key table.Key, chunk []byte, more table.Item, condition string, values table.Item) (bool, table.Item, error) {
		it := table.Item{
			topology.AttrPK: table.S(key.PK), topology.AttrSK: table.S(key.SK),
			topology.AttrTTL: table.N(next.ExpiresAt.Unix() + 1),
		}
		if len(chunk) > 0 {
			it[attrDocument] = table.B(chunk)
		}
		for name, value := range more {
			it[name] = value
		}
		return p.t.Put(ctx, it, condition, values)
	}
	// Write the further chunks first, so that a receipt that is found is complete.
	first, rest, chunks := next.Receipt, []byte(nil), 1
	if len(first) > maxReceiptInItem {
		first, rest = first[:maxReceiptInItem], first[maxReceiptInItem:]
	}
	for ; len(rest) > 0; chunks++ {
		n := min(len(rest), maxReceiptInItem)
		if _, _, err := put(pollChunkKey(a, next.Version, chunks), rest[:n], nil, "", nil); err != nil {
			return false, err
		}
		rest = rest[n:]
	}
	condition, values := table.IfAbsent, table.Item(nil)
	if seen != "" {
		condition, values = "#poll = :seen", table.Item{"seen": table.S(seen)}
	}
	ok, old, err := put(pollKey(a), first, table.Item{
		attrPollVersion: table.S(next.Version), attrChunks: table.N(int64(chunks)), attrExpiresAt: table.N(table.Millis(next.ExpiresAt)),
	}, condition, values)
	return ok || err == nil && old != nil && old.Text(attrPollVersion) == next.Version, err
}
