package api

import (
	"context"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListEntities serves GET /entities.
func (a *routes) ListEntities(w http.ResponseWriter, r *http.Request, params gen.ListEntitiesParams) {
	sel := workflow.Selector{Type: deref(params.Type), Groups: deref(params.Group), Query: deref(params.Query)}
	servePage(a, w, r, params.Limit, params.PageToken, entityResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.Entity], error) {
		return a.Catalog.Entities(ctx, c, sel, page)
	})
}

// ListEntityTypes serves GET /entities/types.
func (a *routes) ListEntityTypes(w http.ResponseWriter, r *http.Request, params gen.ListEntityTypesParams) {
	servePage(a, w, r, params.Limit, params.PageToken, unchanged[string], a.Catalog.EntityTypes)
}

// ImportEntities serves POST /entities/import.
func (a *routes) ImportEntities(w http.ResponseWriter, r *http.Request, params gen.ImportEntitiesParams) {
	result, err := a.Catalog.ImportEntities(r.Context(), a.caller(r), r.Body, deref(params.Replace))
	a.respond(w, r, http.StatusOK, result, err)
}

// GetEntity serves GET /entities/{type}/{id}.
func (a *routes) GetEntity(w http.ResponseWriter, r *http.Request, entityType gen.EntityType, id gen.EntityId) {
	e, err := a.Catalog.Entity(r.Context(), a.caller(r), workflow.EntityKey{Type: entityType, ID: id})
	a.respond(w, r, http.StatusOK, entityResponse(e), err)
}

// PutEntity serves PUT /entities/{type}/{id}.
func (a *routes) PutEntity(w http.ResponseWriter, r *http.Request, entityType gen.EntityType, id gen.EntityId) {
	var e workflow.Entity
	if err := decodeBody(r, &e); err != nil {
		a.writeError(w, r, err)
		return
	}
	var issues []workflow.Issue
	if e.Type != "" && e.Type != entityType {
		issues = append(issues, workflow.Issue{Path: "type", Code: "mismatch", Message: "want the type in the URL, or none"})
	}
	if e.ID != "" && e.ID != id {
		issues = append(issues, workflow.Issue{Path: "id", Code: "mismatch", Message: "want the id in the URL, or none"})
	}
	if err := workflow.Invalid("the request is not valid", issues); err != nil {
		a.writeError(w, r, err)
		return
	}
	e = workflow.Entity{Type: entityType, ID: id, Attributes: nullToNil(e.Attributes), Groups: e.Groups}
	stored, err := a.Catalog.PutEntity(r.Context(), a.caller(r), e)
	a.respond(w, r, http.StatusOK, entityResponse(stored), err)
}

// PatchEntity serves PATCH /entities/{type}/{id}.
func (a *routes) PatchEntity(w http.ResponseWriter, r *http.Request, entityType gen.EntityType, id gen.EntityId) {
	var patch views.EntityPatch
	if err := decodeBody(r, &patch); err != nil {
		a.writeError(w, r, err)
		return
	}
	e, err := a.Catalog.PatchEntity(r.Context(), a.caller(r), workflow.EntityKey{Type: entityType, ID: id}, patch)
	a.respond(w, r, http.StatusOK, entityResponse(e), err)
}

// DeleteEntity serves DELETE /entities/{type}/{id}.
func (a *routes) DeleteEntity(w http.ResponseWriter, r *http.Request, entityType gen.EntityType, id gen.EntityId, params gen.DeleteEntityParams) {
	e, err := a.Catalog.DeleteEntity(r.Context(), a.caller(r), workflow.EntityKey{Type: entityType, ID: id}, params.Version)
	a.respond(w, r, http.StatusOK, entityResponse(e), err)
}

// ListEntityExecutions serves GET /entities/{type}/{id}/executions.
func (a *routes) ListEntityExecutions(w http.ResponseWriter, r *http.Request, entityType gen.EntityType, id gen.EntityId) {
	items, err := a.Queries.EntityExecutions(r.Context(), a.caller(r), workflow.EntityKey{Type: entityType, ID: id})
	respondList(a, w, r, workflow.List[views.EntityExecutionView]{Items: items}, unchanged[views.EntityExecutionView], err)
}

// GetLock serves GET /locks/{type}/{id}.
func (a *routes) GetLock(w http.ResponseWriter, r *http.Request, entityType gen.EntityType, id gen.EntityId) {
	l, err := a.Queries.Lock(r.Context(), a.caller(r), workflow.EntityKey{Type: entityType, ID: id})
	a.respond(w, r, http.StatusOK, lockResponse(l), err)
}

// ListLocks serves GET /locks.
func (a *routes) ListLocks(w http.ResponseWriter, r *http.Request, params gen.ListLocksParams) {
	servePage(a, w, r, params.Limit, params.PageToken, lockResponse, a.Queries.Locks)
}
