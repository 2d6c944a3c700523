package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PutEnd stores an end unless it is stored.
func (r *Registry) PutEnd(_ context.Context, tenant string, e workflow.End) error {
	_, err := call(r.conn, "registry.put_end", func(bool) (bool, error) {
		r.countWrite(tableRegistry)
		at := tenantKey(tenant, workflow.EndDay(e.At)+" "+e.ID())
		if _, stored := r.w.ends[at]; !stored {
			r.w.ends[at] = e
		}
		return true, nil
	})
	return err
}

// Ends lists the ends of a day, those of one workflow or of all, in order of their ids.
func (r *Registry) Ends(_ context.Context, tenant, day, fullName string, page workflow.Page) (workflow.List[workflow.End], error) {
	return call(r.conn, "registry.ends", func(bool) (list workflow.List[workflow.End], err error) {
		var all []workflow.End
		for at, e := range r.w.ends {
			if at == tenantKey(tenant, day+" "+e.ID()) && (fullName == "" || e.Workflow.FullName() == fullName) {
				e.At = e.At.UTC().Truncate(24 * time.Hour)
				e.Took = e.Took.Truncate(time.Millisecond)
				all = append(all, e)
			}
		}
		slices.SortFunc(all, func(a, b workflow.End) int { return strings.Compare(a.ID(), b.ID()) })
		list, err = paginate(r.w.PageItems, all, page, func(e workflow.End) string { return e.ID() })
		r.countReads(tableRegistry, len(list.Items))
		return list, err
	})
}
