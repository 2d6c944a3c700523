package api

import (
	"context"
	"io"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// PublishDefinition serves POST /workflow-definition/publish.
func (a *routes) PublishDefinition(w http.ResponseWriter, r *http.Request, params gen.PublishDefinitionParams) {
	source, err := io.ReadAll(r.Body)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	dryRun := deref(params.DryRun)
	publish := a.Catalog.Publish
	if deref(params.Draft) {
		publish = a.Catalog.PublishDraft
	}
	p, created, err := publish(r.Context(), a.caller(r), source, dryRun)
	status := http.StatusOK
	if err == nil && created && !dryRun {
		status = http.StatusCreated
		w.Header().Set("Location", "/workflow-definition/"+p.Ref.FullName()+"/"+p.Ref.Version)
	}
	a.respond(w, r, status, definitionResponse(p), err)
}

// ListDefinitions serves GET /workflow-definition.
func (a *routes) ListDefinitions(w http.ResponseWriter, r *http.Request, params gen.ListDefinitionsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, definitionHeadResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
		return a.Catalog.Definitions(ctx, c, parseLabels(deref(params.Label)), page)
	})
}

// ListVersions serves GET /workflow-definition/{package}/{name}.
func (a *routes) ListVersions(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, params gen.ListVersionsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, definitionHeadResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
		return a.Catalog.Versions(ctx, c, pkg+"/"+name, page)
	})
}

// GetDefinition serves GET /workflow-definition/{package}/{name}/{version}.
func (a *routes) GetDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.Version) {
	p, err := a.Catalog.Definition(r.Context(), a.caller(r), workflow.Ref{Package: pkg, Name: name, Version: version})
	a.respond(w, r, http.StatusOK, definitionResponse(p), err)
}

// ArchiveDefinition serves DELETE /workflow-definition/{package}/{name}/{version}.
func (a *routes) ArchiveDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.ExactVersion, _ gen.ArchiveDefinitionParams) {
	a.setArchived(w, r, workflow.Ref{Package: pkg, Name: name, Version: version}, a.Catalog.Archive)
}

// RestoreDefinition serves POST /workflow-definition/{package}/{name}/{version}/restore.
func (a *routes) RestoreDefinition(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.ExactVersion) {
	a.setArchived(w, r, workflow.Ref{Package: pkg, Name: name, Version: version}, a.Catalog.Restore)
}

// setArchived archives or restores a version and answers with the version afterwards. The audit has the reason.
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
	a.writeJSON(w, http.StatusOK, definition.Schema())
}

// ListSchedules serves GET /schedules.
func (a *routes) ListSchedules(w http.ResponseWriter, r *http.Request, params gen.ListSchedulesParams) {
	servePage(a, w, r, params.Limit, params.PageToken, views.NewScheduleView, a.Catalog.Schedules)
}

// GetSchedule serves GET /schedules/{package}/{name}.
func (a *routes) GetSchedule(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name) {
	v, err := a.Queries.Schedule(r.Context(), a.caller(r), pkg+"/"+name)
	a.respond(w, r, http.StatusOK, v, err)
}

// PauseSchedule serves POST /schedules/{package}/{name}/pause.
func (a *routes) PauseSchedule(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name) {
	a.changeSchedule(w, r, pkg+"/"+name, a.Catalog.PauseSchedule)
}

// ResumeSchedule serves POST /schedules/{package}/{name}/resume.
func (a *routes) ResumeSchedule(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name) {
	a.changeSchedule(w, r, pkg+"/"+name, a.Catalog.ResumeSchedule)
}

// changeSchedule changes a schedule for a reason and answers with the changed schedule.
func (a *routes) changeSchedule(w http.ResponseWriter, r *http.Request, name string, do func(ctx context.Context, c workflow.Caller, fullName, reason string) (spec.Schedule, error)) {
	var req gen.ReasonRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	s, err := do(r.Context(), a.caller(r), name, deref(req.Reason))
	a.respond(w, r, http.StatusOK, views.NewScheduleView(s), err)
}

// RemoveSchedule serves DELETE /schedules/{package}/{name}.
func (a *routes) RemoveSchedule(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, params gen.RemoveScheduleParams) {
	s, err := a.Catalog.RemoveSchedule(r.Context(), a.caller(r), pkg+"/"+name, deref(params.Reason))
	a.respond(w, r, http.StatusOK, views.NewScheduleView(s), err)
}

// RemoveScheduleByPost serves POST /schedules/{package}/{name}/remove.
func (a *routes) RemoveScheduleByPost(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name) {
	a.changeSchedule(w, r, pkg+"/"+name, a.Catalog.RemoveSchedule)
}

// FireSchedule serves POST /schedules/{package}/{name}/fire.
func (a *routes) FireSchedule(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, params gen.FireScheduleParams) {
	id, existed, err := a.Operations.FireSchedule(r.Context(), a.caller(r), pkg+"/"+name, deref(params.IdempotencyKey))
	status := http.StatusAccepted
	if existed {
		status = http.StatusOK
	}
	if err == nil {
		w.Header().Set("Location", "/workflow-execution/id/"+id)
	}
	a.respond(w, r, status, views.FiredView{ID: id}, err)
}

// ListSecrets serves GET /secrets.
func (a *routes) ListSecrets(w http.ResponseWriter, r *http.Request) {
	v, err := a.Catalog.Secrets(r.Context(), a.caller(r))
	a.respond(w, r, http.StatusOK, v, err)
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
	servePage(a, w, r, params.Limit, params.PageToken, blockResponse, a.Catalog.Blocks)
}
