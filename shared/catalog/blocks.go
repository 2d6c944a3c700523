package catalog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// RegisterBlock stores a function block. The same block again is accepted and
// created is false; another one under its version is CodeConflict.
func (c *Catalog) RegisterBlock(ctx context.Context, who workflow.Caller, b workflow.Block) (created bool, err error) {
	if b.Pool == "" {
		b.Pool = "default"
	}
	if err := definition.ValidateBlock(&b); err != nil {
		return false, err
	}
	existing, err := c.open().Registry.PutBlock(ctx, who.Tenant, b)
	switch {
	case err != nil:
		return false, err
	case existing == nil:
		return true, nil
	case !same(existing, &b):
		return false, workflow.Errorf(workflow.CodeConflict, "block %s is registered differently; register it under a new version", b.Ref())
	}
	return false, nil
}

// same compares blocks by meaning: the white space and the order of keys in
// their schemas do not count.
func same(a, b *workflow.Block) bool {
	x, errX := normal(a)
	y, errY := normal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func normal(b *workflow.Block) ([]byte, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Blocks lists every version of every registered block.
func (c *Catalog) Blocks(ctx context.Context, who workflow.Caller, p workflow.Page) (workflow.List[workflow.Block], error) {
	return c.open().Registry.Blocks(ctx, who.Tenant, bounded(p))
}
