package api

import (
	"context"
	"io"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/shape"
	format "github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PublishDefinition serves POST /workflow-definition/publish.
func (a *routes) PublishDefinition(w http.ResponseWriter, r *http.Request, params gen.PublishDefinitionParams) {
	source, err := io.ReadAll(r.Body)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	dryRun := params.DryRun != nil && *params.DryRun
	p, created, err := a.Catalog.Publish(r.Context(), a.caller(r), source, dryRun)
	status := http.StatusOK
	if err == nil && created && !dryRun {
		status = http.StatusCreated
		w.Header().Set("Location", "/workflow-definition/"+p.Ref.FullName()+"/"+p.Ref.Version)
	}
	a.reply(w, r, status, shape.Definition(p), err)
}

// ListDefinitions serves GET /workflow-definition.
func (a *routes) ListDefinitions(w http.ResponseWriter, r *http.Request, params gen.ListDefinitionsParams) {
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.Catalog.Definitions(r.Context(), a.caller(r), page)
	replyList(a, w, r, part, shape.DefinitionHead, err)
}

// ListVersions serves GET /workflow-definition/{package}/{name}.
func (a *routes) ListVersions(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, params gen.ListVersionsParams) {
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.Catalog.Versions(r.Context(), a.caller(r), pkg+"/"+name, page)
	replyList(a, w, r, part, shape.DefinitionHead, err)
}

// GetDefinition serves GET /workflow-definition/{package}/{name}/{version}.
func (a *routes) GetDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.Version) {
	p, err := a.Catalog.Definition(r.Context(), a.caller(r), workflow.Ref{Package: pkg, Name: name, Version: version})
	a.reply(w, r, http.StatusOK, shape.Definition(p), err)
}

// ArchiveDefinition serves DELETE /workflow-definition/{package}/{name}/{version}.
func (a *routes) ArchiveDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.ExactVersion) {
	a.archive(w, r, workflow.Ref{Package: pkg, Name: name, Version: version}, a.Catalog.Archive)
}

// RestoreDefinition serves POST /workflow-definition/{package}/{name}/{version}/restore.
func (a *routes) RestoreDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.ExactVersion) {
	a.archive(w, r, workflow.Ref{Package: pkg, Name: name, Version: version}, a.Catalog.Restore)
}

// archive answers with the version as it is when do has been done.
func (a *routes) archive(w http.ResponseWriter, r *http.Request, ref workflow.Ref, do func(context.Context, workflow.Caller, workflow.Ref) error) {
	if err := do(r.Context(), a.caller(r), ref); err != nil {
		a.fail(w, r, err)
		return
	}
	p, err := a.Catalog.Definition(r.Context(), a.caller(r), ref)
	a.reply(w, r, http.StatusOK, shape.Definition(p), err)
}

// GetDefinitionSchema serves GET /workflow-definition/schema.
func (a *routes) GetDefinitionSchema(w http.ResponseWriter, _ *http.Request) {
	a.send(w, http.StatusOK, format.Schema())
}

// RegisterBlock serves POST /function-blocks/register.
func (a *routes) RegisterBlock(w http.ResponseWriter, r *http.Request) {
	var b workflow.Block
	if err := decode(r, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	b.ParameterSchema, b.ResultSchema = orNone(b.ParameterSchema), orNone(b.ResultSchema)
	created, err := a.Catalog.RegisterBlock(r.Context(), a.caller(r), b)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	a.reply(w, r, status, shape.Block(b), err)
}

// ListBlocks serves GET /function-blocks.
func (a *routes) ListBlocks(w http.ResponseWriter, r *http.Request, params gen.ListBlocksParams) {
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.Catalog.Blocks(r.Context(), a.caller(r), page)
	replyList(a, w, r, part, shape.Block, err)
}
