package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListDeadLetters serves GET /dead-letters.
func (a *routes) ListDeadLetters(w http.ResponseWriter, r *http.Request, params gen.ListDeadLettersParams) {
	queues, err := a.Operations.DeadLetters(r.Context(), a.caller(r), deref(params.Queue), deref(params.Limit))
	respondList(a, w, r, workflow.List[views.DeadLetterQueue]{Items: queues}, deadLettersResponse, err)
}

// RedriveDeadLetters serves POST /dead-letters/redrive.
func (a *routes) RedriveDeadLetters(w http.ResponseWriter, r *http.Request) {
	var req views.RedriveRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	v, err := a.Operations.Redrive(r.Context(), a.caller(r), req)
	a.respond(w, r, http.StatusOK, redriveResponse(v), err)
}

// GetSweep serves GET /sweep.
func (a *routes) GetSweep(w http.ResponseWriter, r *http.Request) {
	v, err := a.Operations.NextSweep(r.Context(), a.caller(r))
	a.respond(w, r, http.StatusOK, sweepResponse(v), err)
}
