package client

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/client/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PutEntity inserts or replaces an entity and returns it as stored.
func (c *Client) PutEntity(ctx context.Context, e workflow.Entity) (workflow.Entity, error) {
	return read[workflow.Entity](c.api.PutEntity(ctx, e.Type, e.ID, e))
}

// Entity reads an entity.
func (c *Client) Entity(ctx context.Context, key workflow.EntityKey) (workflow.Entity, error) {
	return read[workflow.Entity](c.api.GetEntity(ctx, key.Type, key.ID))
}

// Entities lists the entities of the selector's type, narrowed by its groups or
// its query. It does not take ids.
func (c *Client) Entities(ctx context.Context, sel workflow.Selector) iter.Seq2[workflow.Entity, error] {
	return pages[workflow.Entity](func(token *string) (*http.Response, error) {
		params := gen.ListEntitiesParams{Type: some(sel.Type), Query: some(sel.Query), PageToken: token}
		if len(sel.Groups) > 0 {
			params.Group = &sel.Groups
		}
		return c.api.ListEntities(ctx, &params)
	})
}

// EntityTypes lists the types of which entities have been put.
func (c *Client) EntityTypes(ctx context.Context) iter.Seq2[string, error] {
	return pages[string](func(token *string) (*http.Response, error) {
		return c.api.ListEntityTypes(ctx, &gen.ListEntityTypesParams{PageToken: token})
	})
}

// ImportEntities inserts or replaces entities, one JSON object a line, and
// returns their number. If a line is invalid, nothing is stored.
func (c *Client) ImportEntities(ctx context.Context, lines io.Reader) (int, error) {
	body, err := io.ReadAll(lines) // so that it can be sent again
	if err != nil {
		return 0, err
	}
	n, err := read[gen.Imported](c.api.ImportEntitiesWithBody(ctx, "application/x-ndjson", bytes.NewReader(body)))
	return n.Imported, err
}

// Locks lists the live locks.
func (c *Client) Locks(ctx context.Context) iter.Seq2[views.LockView, error] {
	return pages[views.LockView](func(token *string) (*http.Response, error) {
		return c.api.ListLocks(ctx, &gen.ListLocksParams{PageToken: token})
	})
}

// Lock reads the lock of an entity.
func (c *Client) Lock(ctx context.Context, key workflow.EntityKey) (views.LockView, error) {
	return read[views.LockView](c.api.GetLock(ctx, key.Type, key.ID))
}
