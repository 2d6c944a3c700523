package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/shape"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListWorkers serves GET /workers.
func (a *routes) ListWorkers(w http.ResponseWriter, r *http.Request, params gen.ListWorkersParams) {
	a.workers(w, r, nil, params.Limit, params.PageToken)
}

// ListBlockWorkers serves GET /function-blocks/{package}/{name}/{version}/workers.
func (a *routes) ListBlockWorkers(w http.ResponseWriter, r *http.Request, pkg gen.Package, name gen.Name, version gen.Version, params gen.ListBlockWorkersParams) {
	a.workers(w, r, &workflow.Ref{Package: pkg, Name: name, Version: version}, params.Limit, params.PageToken)
}

func (a *routes) workers(w http.ResponseWriter, r *http.Request, block *workflow.Ref, limit *int, token *string) {
	page, err := a.page(r, limit, token)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.Blackboard.Workers(r.Context(), a.caller(r), block, page)
	replyList(a, w, r, part, shape.Worker, err)
}

// RegisterWorker serves POST /workers/register.
func (a *routes) RegisterWorker(w http.ResponseWriter, r *http.Request) {
	var req views.WorkerRegistration
	if err := decode(r, &req); err != nil {
		a.fail(w, r, err)
		return
	}
	v, err := a.Blackboard.RegisterWorker(r.Context(), a.caller(r), req)
	a.reply(w, r, http.StatusCreated, shape.Worker(v), err)
}

// GetWorker serves GET /workers/{id}.
func (a *routes) GetWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	v, err := a.Blackboard.Worker(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, shape.Worker(v), err)
}

// HeartbeatWorker serves POST /workers/{id}/heartbeat.
func (a *routes) HeartbeatWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	v, err := a.Blackboard.BeatWorker(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, shape.Worker(v), err)
}

// UnregisterWorker serves POST /workers/{id}/unregister.
func (a *routes) UnregisterWorker(w http.ResponseWriter, r *http.Request, id gen.WorkerId) {
	v, err := a.Blackboard.UnregisterWorker(r.Context(), a.caller(r), id)
	a.reply(w, r, http.StatusOK, shape.Worker(v), err)
}

// PollJob serves POST /blackboard/job.
func (a *routes) PollJob(w http.ResponseWriter, r *http.Request) {
	var req views.JobPoll
	if err := decode(r, &req); err != nil {
		a.fail(w, r, err)
		return
	}
	offer, err := a.Blackboard.Poll(r.Context(), a.caller(r), req)
	if err == nil && offer == nil {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.reply(w, r, http.StatusOK, offer, err)
}

// ExtendJob serves POST /blackboard/job/heartbeat.
func (a *routes) ExtendJob(w http.ResponseWriter, r *http.Request) {
	a.said(w, r, false)
}

// FinishJob serves POST /blackboard/job/result.
func (a *routes) FinishJob(w http.ResponseWriter, r *http.Request) {
	a.said(w, r, true)
}

// said takes what a worker says of a pack.
func (a *routes) said(w http.ResponseWriter, r *http.Request, results bool) {
	var req views.PackResults
	if err := decode(r, &req); err != nil {
		a.fail(w, r, err)
		return
	}
	say := a.Blackboard.Extend
	if results {
		say = a.Blackboard.Finish
	}
	lease, err := say(r.Context(), a.caller(r), req)
	a.reply(w, r, http.StatusOK, lease, err)
}

// InspectJobs serves GET /blackboard/jobs.
func (a *routes) InspectJobs(w http.ResponseWriter, r *http.Request) {
	pools, err := a.Blackboard.Pools(r.Context(), a.caller(r))
	replyList(a, w, r, workflow.List[views.PoolView]{Items: pools}, shape.Pool, err)
}
