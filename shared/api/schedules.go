package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
)

// ListSchedules serves GET /schedules.
func (a *routes) ListSchedules(w http.ResponseWriter, r *http.Request, params gen.ListSchedulesParams) {
	page, err := a.parsePage(r, params.Limit, params.PageToken)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	part, err := a.Catalog.Schedules(r.Context(), a.caller(r), page)
	respondList(a, w, r, part, views.NewScheduleView, err)
}
