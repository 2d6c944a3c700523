package api

import (
	"context"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// ListTables serves GET /tables.
func (a *routes) ListTables(w http.ResponseWriter, r *http.Request, params gen.ListTablesParams) {
	servePage(a, w, r, params.Limit, params.PageToken, views.NewTableView, a.Catalog.Tables)
}

// GetTable serves GET /tables/{name}.
func (a *routes) GetTable(w http.ResponseWriter, r *http.Request, name gen.TableName) {
	t, err := a.Catalog.Table(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, views.NewTableView(t), err)
}

// PutTable serves PUT /tables/{name}.
func (a *routes) PutTable(w http.ResponseWriter, r *http.Request, name gen.TableName) {
	var req views.TableRequest
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	t, err := a.Catalog.PutTable(r.Context(), a.caller(r), name, req)
	a.respond(w, r, http.StatusOK, views.NewTableView(t), err)
}

// ListRows serves GET /tables/{name}/rows.
func (a *routes) ListRows(w http.ResponseWriter, r *http.Request, name gen.TableName, params gen.ListRowsParams) {
	servePage(a, w, r, params.Limit, params.PageToken, views.NewRowView, func(ctx context.Context, c workflow.Caller, p workflow.Page) (workflow.List[workflow.Row], error) {
		p.After = deref(params.After)
		return a.Queries.Rows(ctx, c, name, deref(params.Where), p)
	})
}

// RetryRows serves POST /tables/{name}/retry.
func (a *routes) RetryRows(w http.ResponseWriter, r *http.Request, name gen.TableName) {
	var req gen.ReasonRequest // for the reason, which the audit records
	if err := decodeBody(r, &req); err != nil {
		a.writeError(w, r, err)
		return
	}
	v, err := a.Operations.RetryRows(r.Context(), a.caller(r), name)
	a.respond(w, r, http.StatusOK, v, err)
}

// ListTableDeliveries serves GET /tables/{name}/deliveries.
func (a *routes) ListTableDeliveries(w http.ResponseWriter, r *http.Request, name gen.TableName) {
	list, err := a.Catalog.TableDeliveries(r.Context(), a.caller(r), name)
	respondList(a, w, r, list, unchanged[workflow.DeliveryAttempt], err)
}
