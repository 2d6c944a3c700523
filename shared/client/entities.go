package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PutEntity inserts or replaces an entity and returns it as stored.
func (c *Client) PutEntity(ctx context.Context, e workflow.Entity) (workflow.Entity, error) {
	return do[workflow.Entity](ctx, c, request{method: http.MethodPut, path: route("entities", e.Type, e.ID), body: e})
}

// PatchEntity changes some attributes and groups of an entity and returns it as stored. It can be
// repeated if the response was lost.
func (c *Client) PatchEntity(ctx context.Context, key workflow.EntityKey, patch views.EntityPatch) (workflow.Entity, error) {
	return do[workflow.Entity](ctx, c, request{method: http.MethodPatch, path: route("entities", key.Type, key.ID), body: patch})
}

// DeleteEntity deletes an entity and returns it as it was. version, unless 0, is the version that
// it must have. The error is CodeEntityLocked if an execution holds the entity or waits for it.
func (c *Client) DeleteEntity(ctx context.Context, key workflow.EntityKey, version int64) (workflow.Entity, error) {
	query := url.Values{}
	if version > 0 {
		query.Set("version", strconv.FormatInt(version, 10))
	}
	return do[workflow.Entity](ctx, c, request{method: http.MethodDelete, path: route("entities", key.Type, key.ID), query: query})
}

// EntityExecutions lists the last executions that locked an entity, newest first.
func (c *Client) EntityExecutions(ctx context.Context, key workflow.EntityKey) iter.Seq2[views.EntityExecutionView, error] {
	return paginate[views.EntityExecutionView](ctx, c, nil, "entities", key.Type, key.ID, "executions")
}

// Entity reads an entity.
func (c *Client) Entity(ctx context.Context, key workflow.EntityKey) (workflow.Entity, error) {
	return get[workflow.Entity](ctx, c, "entities", key.Type, key.ID)
}

// Entities lists the entities of the selector's type, filtered by its groups or its query. It
// ignores ids.
func (c *Client) Entities(ctx context.Context, sel workflow.Selector) iter.Seq2[workflow.Entity, error] {
	query := url.Values{"group": sel.Groups}
	set(query, "type", sel.Type)
	set(query, "query", sel.Query)
	return paginate[workflow.Entity](ctx, c, query, "entities")
}

// EntityTypes lists the types of all entities that were ever put.
func (c *Client) EntityTypes(ctx context.Context) iter.Seq2[string, error] {
	return paginate[string](ctx, c, nil, "entities", "types")
}

// Locks lists the live locks.
func (c *Client) Locks(ctx context.Context) iter.Seq2[views.LockView, error] {
	return paginate[views.LockView](ctx, c, nil, "locks")
}

// Lock reads the lock of an entity.
func (c *Client) Lock(ctx context.Context, key workflow.EntityKey) (views.LockView, error) {
	return get[views.LockView](ctx, c, "locks", key.Type, key.ID)
}
