package packs

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// chunkFlight is how many parts are read or written at a time.
const chunkFlight = 8

// Save stores data beside a pack, in its partition. What is stored is found by
// its digest: whoever stores it again writes the same.
func (p *Packs) Save(ctx context.Context, key workflow.PackKey, data []byte) (workflow.Stored, error) {
	s := workflow.StoredOf(data)
	return s, parallel.Each(ctx, chunkFlight, s.Chunks, func(ctx context.Context, i int) error {
		at := dataKey(key, s, i)
		_, _, err := p.t.Put(ctx, table.Item{
			topology.AttrPK: table.S(at.PK), topology.AttrSK: table.S(at.SK),
			attrDoc: table.B(table.Plain.Pack(s.Chunk(data, i))),
		}, "", nil)
		return err
	})
}

// Load reads what is stored beside a pack.
func (p *Packs) Load(ctx context.Context, key workflow.PackKey, s workflow.Stored) ([]byte, error) {
	parts := make([][]byte, s.Chunks)
	err := parallel.Each(ctx, chunkFlight, s.Chunks, func(ctx context.Context, i int) error {
		it, err := p.t.Get(ctx, dataKey(key, s, i))
		if err != nil {
			return err
		}
		if it == nil {
			return workflow.Errorf(workflow.CodeNotFound, "part %d of what is stored beside pack %s is missing", i, key)
		}
		parts[i], err = table.Plain.Unpack(it.Bytes(attrDoc))
		return err
	})
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, s.Bytes)
	for _, part := range parts {
		data = append(data, part...)
	}
	return data, s.Whole(data)
}
