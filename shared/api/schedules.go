package api

import (
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
)

// ListSchedules serves GET /schedules.
func (a *routes) ListSchedules(w http.ResponseWriter, r *http.Request, params gen.ListSchedulesParams) {
	page, err := a.page(r, params.Limit, params.PageToken)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	part, err := a.Catalog.Schedules(r.Context(), a.caller(r), page)
	replyList(a, w, r, part, views.ScheduleOf, err)
}
