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
	// usualClaim is the time within which a worker usually claims jobs. Until then, a list does not
	// check whether one has.
	usualClaim = 10 * time.Second
	// maxUnclaimedRead is how many executions UnclaimedJobs reads, starting with the newest.
	maxUnclaimedRead = 200
)

// statesWithJobs are the states in which an execution waits for its jobs.
var statesWithJobs = []sm.ExecutionState{sm.ExecutionResourceDiscovery, sm.ExecutionRunning, sm.ExecutionRollback}

// UnclaimedJobs returns the jobs that have waited for a while to be claimed, by pool. It counts
// executions of which no worker has claimed any job. It reads only the newest 200 executions that
// may have such jobs: any number of others may wait for what one of these has locked.
func (v *Service) UnclaimedJobs(ctx context.Context, c workflow.Caller) (map[string]views.UnclaimedJobs, error) {
	listed := v.listStates(c.Tenant, statesWithJobs, workflow.OrderNewest)
	batch, _, err := listed.next(ctx, "", maxUnclaimedRead)
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
			if !r.IsWorking() || !r.HasJobs() {
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

// listedWaits returns what each execution of a list waits for; nil if it does not wait.
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

// workerWaits returns for each execution whether it waits for a worker to claim its first jobs; nil
// if it does not, or if that cannot be read.
func (v *Service) workerWaits(ctx context.Context, executions []*workflow.Execution) ([]*views.Waiting, error) {
	waits := make([]*views.Waiting, len(executions))
	err := parallel.Each(ctx, v.parallel, len(executions), func(ctx context.Context, i int) error {
		waits[i] = v.listedWorkerWaiting(ctx, executions[i])
		return nil
	})
	return waits, err
}

// listedWorkerWaiting is a cheaper workerWaiting. For most executions it takes one read, of the
// first lane: if a worker is available, it has claimed that lane.
func (v *Service) listedWorkerWaiting(ctx context.Context, x *workflow.Execution) *views.Waiting {
	if !slices.Contains(statesWithJobs, x.State) {
		return nil
	}
	i, jobs := v.engine.InspectLoaded(x), false
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if !r.IsWorking() || !r.HasJobs() {
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
		w.All = stepsWaiting(x)
	}
	return w
}
