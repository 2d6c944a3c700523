package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	// usualClaim is the time in which a worker claims jobs, as a rule. Before it, a list does not look whether one has.
	usualClaim = 10 * time.Second
	// maxUnclaimedRead is how many executions, the newest, UnclaimedJobs reads.
	maxUnclaimedRead = 200
)

// statesWithJobs are the states in which an execution waits for its jobs.
var statesWithJobs = []sm.ExecutionState{sm.ExecutionResourceDiscovery, sm.ExecutionRunning, sm.ExecutionRollback}

// UnclaimedJobs are the jobs that have waited for a while to be claimed, by pool, as far as no worker has
// claimed any of their execution. It reads the newest 200 executions that may have such jobs: any number may wait for
// what one of these has locked.
func (v *Service) UnclaimedJobs(ctx context.Context, c workflow.Caller) (map[string]views.UnclaimedJobs, error) {
	batch, _, err := v.readExecutions(ctx, c.Tenant, statesWithJobs, "", workflow.OrderNewest, maxUnclaimedRead)
	if err != nil {
		return nil, err
	}
	waits, err := v.workerWaits(ctx, batch.executions)
	if err != nil {
		return nil, err
	}
	found := map[string]views.UnclaimedJobs{}
	for i, x := range batch.executions {
		if waits[i] == nil {
			continue
		}
		counted := map[string]bool{}
		for n := range x.StepRuns {
			r := &x.StepRuns[n]
			if !r.AtWork() || !r.HasJobs() {
				continue
			}
			pool := cmp.Or(r.Pool, topology.PoolDefault)
			u := found[pool]
			if u.Jobs += r.Jobs; !counted[pool] {
				counted[pool] = true
				u.Executions++
			}
			if u.Since.IsZero() || r.EnteredAt.Before(u.Since) {
				u.Since = r.EnteredAt
			}
			found[pool] = u
		}
	}
	return found, nil
}

// listedWaits is what each execution of a list waits for; nil where it does not wait.
func (v *Service) listedWaits(ctx context.Context, tenant string, executions []*workflow.Execution) ([]*views.Waiting, error) {
	holders := v.holders(ctx, tenant, executions...)
	waits, err := v.workerWaits(ctx, executions)
	if err != nil {
		return nil, err
	}
	for i, x := range executions {
		if w := v.storedWaiting(x, holders); w != nil {
			waits[i] = w
		}
		if waits[i] == nil && x.State == sm.ExecutionRunning {
			waits[i] = branchWaiting(x)
		}
	}
	return waits, nil
}

// workerWaits says of each execution whether it waits for a worker that claims its first jobs; nil where it
// does not, and where that cannot be read.
func (v *Service) workerWaits(ctx context.Context, executions []*workflow.Execution) ([]*views.Waiting, error) {
	waits := make([]*views.Waiting, len(executions))
	err := parallel.Each(ctx, v.parallel, len(executions), func(ctx context.Context, i int) error {
		waits[i] = v.listedWorkerWaiting(ctx, executions[i])
		return nil
	})
	return waits, err
}

// listedWorkerWaiting is workerWaiting at the cost of one read for most executions: that of the first lane,
// which a worker has claimed where any is there.
func (v *Service) listedWorkerWaiting(ctx context.Context, x *workflow.Execution) *views.Waiting {
	if !slices.Contains(statesWithJobs, x.State) {
		return nil
	}
	i, jobs := v.engine.InspectLoaded(x), false
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if !r.AtWork() || !r.HasJobs() {
			continue
		}
		if r.Closing || v.engine.Now().Sub(r.EnteredAt) < usualClaim {
			return nil
		}
		if first, err := i.LanePacks(ctx, r, 0); err != nil || len(first) > 0 {
			return nil
		}
		jobs = true
	}
	if !jobs {
		return nil
	}
	w := v.workerWaiting(ctx, i)
	if w == nil || w.Kind != workflow.WaitWorker {
		return nil
	}
	if x.State == sm.ExecutionRunning {
		w.Others = otherWaits(x, "")
	}
	return w
}
