package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// RetryRows sends failed deliveries of rows to a table again, unless they are known to have been
// stored since. The original messages may still arrive; they then change nothing, because a row is
// stored once.
func (e *Engine) RetryRows(ctx context.Context, tenant, table string) (v views.RowsRetry, err error) {
	ports := e.OpenPorts()
	t, err := ports.Registry.Table(ctx, tenant, table)
	if err == nil && t.Revision == 0 {
		err = workflow.Errorf(workflow.CodeNotFound, "there is no table %q", table)
	}
	if err != nil {
		return v, err
	}
	tried, err := ports.Registry.DeliveryAttempts(ctx, tenant, workflow.TableSubscriber(table))
	if err != nil {
		return v, err
	}
	failed := map[string][]int{} // step runs, by execution: if a part has failed, the whole step run is split again
	for _, a := range tried {
		if seq, ok := workflow.PipedStepRun(table, a); ok && !a.Delivered && !slices.Contains(failed[a.Execution], seq) {
			failed[a.Execution] = append(failed[a.Execution], seq)
		}
	}
	found, _, err := ports.Store.LoadMany(ctx, tenant, slices.Sorted(maps.Keys(failed)))
	if err != nil {
		return v, err
	}
	var again []*workflow.Delivery
	for _, x := range found {
		for _, seq := range failed[x.ID] {
			r := x.StepRunBySeq(seq)
			if r == nil || r.Open() || r.Jobs == 0 || !x.DiscardedAt.IsZero() {
				continue
			}
			d := &workflow.Delivery{Tenant: tenant, Execution: x.ID, Workflow: x.Workflow.String(), Rows: &workflow.PipedJobs{StepRun: seq, To: r.Jobs, Again: true}}
			again = append(again, toTable(d, table))
		}
	}
	for _, steps := range failed {
		v.Lost += len(steps)
	}
	v.Retried, v.Lost = len(again), v.Lost-len(again)
	if len(again) == 0 {
		return v, nil
	}
	return v, ports.Sender.SendDeliveries(ctx, again...)
}
