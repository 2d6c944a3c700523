package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Table reads a table.
func (r *Registry) Table(_ context.Context, tenant, name string) (workflow.Table, error) {
	return call(r.conn, "registry.table", func(bool) (workflow.Table, error) {
		r.countReads(tableRegistry, 1)
		t := clone(r.w.tables[tenant][name])
		t.Name = name
		return t, nil
	})
}

// PutTable writes a table whose revision is still seen.
func (r *Registry) PutTable(_ context.Context, tenant string, t workflow.Table) (bool, error) {
	return call(r.conn, "registry.put_table", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		old := r.w.tables[tenant][t.Name]
		next := clone(t)
		next.Revision++
		if old.Revision != t.Revision {
			return old.Revision == next.Revision && string(encodeMessage(old)) == string(encodeMessage(next)), nil
		}
		if r.w.tables[tenant] == nil {
			r.w.tables[tenant] = map[string]workflow.Table{}
		}
		r.w.tables[tenant][t.Name] = next
		return true, nil
	})
}

// Tables lists the tables of a tenant.
func (r *Registry) Tables(_ context.Context, tenant string) ([]workflow.Table, error) {
	return call(r.conn, "registry.tables", func(bool) (list []workflow.Table, err error) {
		r.countReads(tableRegistry, 1)
		for _, name := range slices.Sorted(maps.Keys(r.w.tables[tenant])) {
			list = append(list, clone(r.w.tables[tenant][name]))
		}
		return list, nil
	})
}

// Rows stores the rows of tables.
type Rows struct{ *conn }

// PutRow stores a row if there is none with its id.
func (r *Rows) PutRow(_ context.Context, tenant, name string, row workflow.Row, _ time.Time) error {
	_, err := call(r.conn, "rows.put", func(bool) (empty, error) {
		r.countWrite(tableData)
		at := tenantKey(tenant, name)
		if r.w.rows[at] == nil {
			r.w.rows[at] = map[string]workflow.Row{}
		}
		if _, there := r.w.rows[at][row.ID]; !there {
			r.w.rows[at][row.ID] = clone(row)
			if r.w.Observer != nil {
				r.w.Observer.RowWritten(name, row)
			}
		}
		return empty{}, nil
	})
	return err
}

// HasRow reports whether a table has a row with an id.
func (r *Rows) HasRow(_ context.Context, tenant, name, id string) (bool, error) {
	return call(r.conn, "rows.has", func(bool) (bool, error) {
		r.countReads(tableData, 1)
		_, there := r.w.rows[tenantKey(tenant, name)][id]
		return there, nil
	})
}

// Rows lists the rows of a table in the order of their ids, those that follow page.After.
func (r *Rows) Rows(_ context.Context, tenant, name string, page workflow.Page) (workflow.List[workflow.Row], error) {
	return call(r.conn, "rows.list", func(bool) (workflow.List[workflow.Row], error) {
		var all []workflow.Row
		for _, row := range r.w.rows[tenantKey(tenant, name)] {
			all = append(all, clone(row))
		}
		if page.Token == "" {
			all = slices.DeleteFunc(all, func(row workflow.Row) bool { return row.ID <= page.After })
		}
		slices.SortFunc(all, func(a, b workflow.Row) int { return strings.Compare(a.ID, b.ID) })
		r.countReads(tableData, len(all))
		return paginate(r.w.PageItems, all, page, func(row workflow.Row) string { return row.ID })
	})
}
