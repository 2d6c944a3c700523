package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// payloadChunkConcurrency is how many parts are read or written at a time.
const payloadChunkConcurrency = 8

// SavePayload stores data beside a pack, in its partition. What is stored is found by
// its digest: whoever stores it again writes the same.
func (p *Packs) SavePayload(ctx context.Context, key workflow.PackKey, data []byte) (workflow.PayloadRef, error) {
	s := workflow.NewPayloadRef(data)
	return s, parallel.Each(ctx, payloadChunkConcurrency, s.Chunks, func(ctx context.Context, i int) error {
		itemKey := payloadKey(key, s, i)
		_, _, err := p.t.Put(ctx, table.Item{
			topology.AttrPK: table.S(itemKey.PK), topology.AttrSK: table.S(itemKey.SK),
			attrPackDocument: table.B(table.Deflate.Compress(s.Chunk(data, i))),
		}, "", nil)
		return err
	})
}

// LoadPayload reads what is stored beside a pack.
func (p *Packs) LoadPayload(ctx context.Context, key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
	parts := make([][]byte, s.Chunks)
	err := parallel.Each(ctx, payloadChunkConcurrency, s.Chunks, func(ctx context.Context, i int) error {
		it, err := p.t.Get(ctx, payloadKey(key, s, i))
		if err != nil {
			return err
		}
		if it == nil {
			return workflow.Errorf(workflow.CodeNotFound, "part %d of what is stored beside pack %s is missing", i, key)
		}
		parts[i], err = table.Deflate.Decompress(it.Bytes(attrPackDocument))
		return err
	})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, s.Bytes)
	for _, part := range parts {
		data = append(data, part...)
	}
	return data, s.Verify(data)
}
