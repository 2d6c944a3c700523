package catalog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// RegisterBlock stores a function block. Registering the same block again is accepted, and created
// is false. A different block with the same version is CodeConflict.
func (c *Catalog) RegisterBlock(ctx context.Context, caller workflow.Caller, b workflow.Block) (created bool, err error) {
	if b.Pool == "" {
		b.Pool = "default"
	}
	if err := definition.ValidateBlock(&b); err != nil {
		return false, err
	}
	if b.HTTP != nil {
		if issue := c.openPorts().Endpoints.Check(b.HTTP.Endpoint, "http.endpoint"); issue != nil {
			return false, workflow.Invalid("the block is not valid", []workflow.Issue{*issue})
		}
	}
	r := c.openPorts().Registry
	existing, err := r.PutBlock(ctx, caller.Tenant, b)
	if err != nil {
		return false, err
	}
	if existing != nil && !sameBlock(existing, &b) {
		return false, workflow.Errorf(workflow.CodeConflict, "block %s is already registered with other properties; register it under a new version", b.Ref())
	}
	// Do this even if it was registered earlier: that request may have crashed before this line.
	return existing == nil, updateVersionIndex(ctx, r, caller.Tenant, workflow.BlockVersions, b.Ref().FullName(), b.Version, c.now())
}

// sameBlock compares blocks by meaning: white space and the order of keys in their schemas do not
// count.
func sameBlock(a, b *workflow.Block) bool {
	x, errX := canonicalJSON(a)
	y, errY := canonicalJSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func canonicalJSON(b *workflow.Block) ([]byte, error) {
	raw, err := workflow.EncodeJSON(b)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	return workflow.EncodeJSON(v)
}

// Blocks lists every version of every registered block.
func (c *Catalog) Blocks(ctx context.Context, caller workflow.Caller, p workflow.Page) (workflow.List[workflow.Block], error) {
	return c.openPorts().Registry.Blocks(ctx, caller.Tenant, clampPage(p))
}
