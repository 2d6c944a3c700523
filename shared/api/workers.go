package api

import (
	"context"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListWorkers serves GET /workers.
func (a *routes) ListWorkers(w http.ResponseWriter, r *http.Request, params gen.ListWorkersParams) {
	a.listWorkers(w, r, nil, params.Limit, params.PageToken)
}

// ListBlockWorkers serves GET /function-blocks/{package}/{name}/{version}/workers.
func (a *routes) ListBlockWorkers(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.Version, params gen.ListBlockWorkersParams) {
	a.listWorkers(w, r, &workflow.Ref{Package: pkg, Name: name, Version: version}, params.Limit, params.PageToken)
}

func (a *routes) listWorkers(w http.ResponseWriter, r *http.Request, block *workflow.Ref, limit *int, token *string) {
	servePage(a, w, r, limit, token, workerResponse, func(ctx context.Context, c workflow.Caller, page workflow.Page) (workflow.List[views.WorkerView], error) {
		return a.WorkerAPI.Workers(ctx, c, block, page)
	})
}

// RegisterWorker serves POST /workers/register.
func (a *routes) RegisterWorker(w http.ResponseWriter, r *http.Request) {
	var req views.WorkerRegistration
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	v, err := a.WorkerAPI.RegisterWorker(r.Context(), a.caller(r), req)
	a.respond(w, r, http.StatusCreated, workerResponse(v), err)
}

// GetWorker serves GET /workers/{id}.
func (a *routes) GetWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	v, err := a.WorkerAPI.Worker(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, workerResponse(v), err)
}

// HeartbeatWorker serves POST /workers/{id}/heartbeat.
func (a *routes) HeartbeatWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	v, err := a.WorkerAPI.HeartbeatWorker(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, workerResponse(v), err)
}

// DrainWorker serves POST /workers/{id}/drain.
func (a *routes) DrainWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	var req gen.ReasonRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	v, err := a.WorkerAPI.DrainWorker(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, workerResponse(v), err)
}

// UnregisterWorker serves POST /workers/{id}/unregister.
func (a *routes) UnregisterWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	v, err := a.WorkerAPI.UnregisterWorker(r.Context(), a.caller(r), id)
	a.respond(w, r, http.StatusOK, workerResponse(v), err)
}

// PollJob serves POST /blackboard/job.
func (a *routes) PollJob(w http.ResponseWriter, r *http.Request) {
	var req views.JobPoll
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	offer, err := a.WorkerAPI.Poll(r.Context(), a.caller(r), req)
	if err == nil && (offer == nil || offer.Drain) {
		w.Header().Set("Cache-Control", "no-store")
		if offer != nil {
			w.Header().Set("Lockstep-Drain", "true")
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.respond(w, r, http.StatusOK, offer, err)
}

// ExtendJob serves POST /blackboard/job/heartbeat.
func (a *routes) ExtendJob(w http.ResponseWriter, r *http.Request) {
	a.updatePack(w, r, a.WorkerAPI.Extend)
}

// FinishJob serves POST /blackboard/job/result.
func (a *routes) FinishJob(w http.ResponseWriter, r *http.Request) {
	a.updatePack(w, r, a.WorkerAPI.Finish)
}

// updatePack passes on what a worker reports about a pack.
func (a *routes) updatePack(w http.ResponseWriter, r *http.Request, update func(context.Context, workflow.Caller, views.PackResults) (views.PackLease, error)) {
	var req views.PackResults
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	lease, err := update(r.Context(), a.caller(r), req)
	a.respond(w, r, http.StatusOK, lease, err)
}

// InspectJobs serves GET /blackboard/jobs.
func (a *routes) InspectJobs(w http.ResponseWriter, r *http.Request) {
	pools, err := a.WorkerAPI.Pools(r.Context(), a.caller(r))
	respondList(a, w, r, workflow.List[views.PoolView]{Items: pools}, poolResponse, err)
}
