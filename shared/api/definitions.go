package api

import (
	"context"
	"io"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"

	format "github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PublishDefinition serves POST /workflow-definition/publish.
func (a *routes) PublishDefinition(w http.ResponseWriter, r *http.Request, params gen.PublishDefinitionParams) {
	source, err := io.ReadAll(r.Body)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	dryRun := params.DryRun != nil && *params.DryRun
	p, created, err := a.Catalog.Publish(r.Context(), a.caller(r), source, dryRun)
	status := http.StatusOK
	if err == nil && created && !dryRun {
		status = http.StatusCreated
		w.Header().Set("Location", "/workflow-definition/"+p.Ref.FullName()+"/"+p.Ref.Version)
	}
	a.respond(w, r, status, definitionResponse(p), err)
}

// ListDefinitions serves GET /workflow-definition.
func (a *routes) ListDefinitions(w http.ResponseWriter, r *http.Request, params gen.ListDefinitionsParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Catalog.Definitions(r.Context(), a.caller(r), page)
	respondList(a, w, r, part, definitionHeadResponse, err)
}

// ListVersions serves GET /workflow-definition/{package}/{name}.
func (a *routes) ListVersions(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, params gen.ListVersionsParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Catalog.Versions(r.Context(), a.caller(r), pkg+"/"+name, page)
	respondList(a, w, r, part, definitionHeadResponse, err)
}

// GetDefinition serves GET /workflow-definition/{package}/{name}/{version}.
func (a *routes) GetDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.Version) {
	p, err := a.Catalog.Definition(r.Context(), a.caller(r), workflow.Ref{Package: pkg, Name: name, Version: version})
	a.respond(w, r, http.StatusOK, definitionResponse(p), err)
}

// ArchiveDefinition serves DELETE /workflow-definition/{package}/{name}/{version}.
func (a *routes) ArchiveDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.ExactVersion) {
	a.setArchived(w, r, workflow.Ref{Package: pkg, Name: name, Version: version}, a.Catalog.Archive)
}

// RestoreDefinition serves POST /workflow-definition/{package}/{name}/{version}/restore.
func (a *routes) RestoreDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.ExactVersion) {
	a.setArchived(w, r, workflow.Ref{Package: pkg, Name: name, Version: version}, a.Catalog.Restore)
}

// setArchived answers with the version as it is when do has been done.
func (a *routes) setArchived(w http.ResponseWriter, r *http.Request, ref workflow.Ref, do func(context.Context, workflow.Caller, workflow.Ref) error) {
	if err := do(r.Context(), a.caller(r), ref); err != nil {
		a.writeError(w, r, err)
		return
	}
	p, err := a.Catalog.Definition(r.Context(), a.caller(r), ref)
	a.respond(w, r, http.StatusOK, definitionResponse(p), err)
}

// GetDefinitionSchema serves GET /workflow-definition/schema.
func (a *routes) GetDefinitionSchema(w http.ResponseWriter, _ *http.Request) {
	a.writeJSON(w, http.StatusOK, format.Schema())
}

// RegisterBlock serves POST /function-blocks/register.
func (a *routes) RegisterBlock(w http.ResponseWriter, r *http.Request) {
	var b workflow.Block
	if err := decodeBody(r, &b); err != nil {
		a.writeError(w, r, err)
		return
	}
	b.ParameterSchema, b.ResultSchema = nullToNil(b.ParameterSchema), nullToNil(b.ResultSchema)
	created, err := a.Catalog.RegisterBlock(r.Context(), a.caller(r), b)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	a.respond(w, r, status, blockResponse(b), err)
}

// ListBlocks serves GET /function-blocks.
func (a *routes) ListBlocks(w http.ResponseWriter, r *http.Request, params gen.ListBlocksParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Catalog.Blocks(r.Context(), a.caller(r), page)
	respondList(a, w, r, part, blockResponse, err)
}
