package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// BeginAudit stores an entry if there is none with its id.
func (r *Registry) BeginAudit(_ context.Context, tenant string, e workflow.AuditEntry) error {
	_, err := call(r.conn, "registry.begin_audit", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		if at := tenantKey(tenant, e.ID); r.w.audit[at].ID == "" {
			r.w.audit[at] = clone(e)
		}
		return true, nil
	})
	return err
}

// EndAudit sets the status of an entry that has none.
func (r *Registry) EndAudit(_ context.Context, tenant string, e workflow.AuditEntry, status int) error {
	_, err := call(r.conn, "registry.end_audit", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, e.ID)
		if stored, ok := r.w.audit[at]; ok && stored.Status == nil {
			stored.Status = &status
			r.w.audit[at] = stored
		}
		return true, nil
	})
	return err
}

// AuditEntries lists the entries of a month that are from one time to another, newest first.
func (r *Registry) AuditEntries(_ context.Context, tenant, month string, from, to time.Time, page workflow.Page) (workflow.List[workflow.AuditEntry], error) {
	return call(r.conn, "registry.audit_entries", func(bool) (workflow.List[workflow.AuditEntry], error) {
		var all []workflow.AuditEntry
		for at, e := range r.w.audit {
			if at == tenantKey(tenant, e.ID) && e.At.UTC().Format("2006-01") == month && e.ID >= workflow.AuditID(from, "") && e.ID < workflow.AuditID(to.Add(time.Millisecond), "") {
				all = append(all, e)
			}
		}
		slices.SortFunc(all, func(a, b workflow.AuditEntry) int { return strings.Compare(b.ID, a.ID) })
		list, err := paginate(r.w.PageItems, all, page, func(e workflow.AuditEntry) string { return e.ID })
		r.countReads(tableRegistry, len(list.Items))
		return list, err
	})
}
