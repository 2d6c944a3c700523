package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/api/shape"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListDeadLetters serves GET /dead-letters.
func (a *routes) ListDeadLetters(w http.ResponseWriter, r *http.Request, params gen.ListDeadLettersParams) {
	queues, err := a.Upkeep.DeadLetters(r.Context(), a.caller(r), or(params.Queue), or(params.Limit))
	replyList(a, w, r, workflow.List[views.DeadLetterQueue]{Items: queues}, shape.DeadLetters, err)
}

// RedriveDeadLetters serves POST /dead-letters/redrive.
func (a *routes) RedriveDeadLetters(w http.ResponseWriter, r *http.Request) {
	var req views.RedriveRequest
	if err := decode(r, &req); err != nil {
		a.fail(w, r, err)
		return
	}
	v, err := a.Upkeep.Redrive(r.Context(), a.caller(r), req)
	a.reply(w, r, http.StatusOK, shape.Redrive(v), err)
}

// GetSweep serves GET /sweep.
func (a *routes) GetSweep(w http.ResponseWriter, r *http.Request) {
	v, err := a.Upkeep.NextSweep(r.Context(), a.caller(r))
	a.reply(w, r, http.StatusOK, shape.Sweep(v), err)
}
