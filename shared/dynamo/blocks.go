package dynamo

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func blocksKey(tenant string) string { return table.TenantPrefix(tenant) + "blocks" }

// PutBlock registers a block if none exists under its exact version.
func (r *Registry) PutBlock(ctx context.Context, tenant string, b workflow.Block) (*workflow.Block, error) {
	sk, err := versionKey(b.Ref())
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(b)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the block cannot be stored: %w", err)
	}
	ok, old, err := r.t.Put(ctx, table.Item{
		topology.AttrPK: table.S(blocksKey(tenant)), topology.AttrSK: table.S(sk),
		attrRegistryDocument: table.B(table.Deflate.Compress(plain)),
	}, table.IfAbsent, nil)
	if ok || err != nil {
		return nil, err
	}
	existing, err := blockOf(old)
	return &existing, err
}

// BlockVersions lists all registered versions of a block, by number.
func (r *Registry) BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error) {
	var all []workflow.Block
	for it, err := range r.t.Query(ctx, versionsQuery(blocksKey(tenant), fullName, "", 0)) {
		if err != nil {
			return nil, err
		}
		b, err := blockOf(it)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// Blocks lists all blocks in order of name and version.
func (r *Registry) Blocks(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Block], error) {
	after, err := decodePageToken(page)
	if err != nil {
		return workflow.List[workflow.Block]{}, err
	}
	return collectPage(r.t.Query(ctx, versionsQuery(blocksKey(tenant), "", after, pageLimit(page)+1)), pageLimit(page), blockOf)
}

func blockOf(it table.Item) (b workflow.Block, err error) {
	return b, decodeDocument(it.Bytes(attrRegistryDocument), &b)
}
