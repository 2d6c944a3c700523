package workerapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// RegisterWorker adds a worker, or changes its registration.
func (s *Service) RegisterWorker(ctx context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error) {
	if err := checkRegion(r.Region); err != nil {
		return views.WorkerView{}, err
	}
	if !topology.ValidPool(cmp.Or(r.Pool, topology.PoolDefault)) { // no block can name it
		return views.WorkerView{}, workflow.Invalid("the registration is not valid", []workflow.Issue{{Path: "pool", Code: "format", Message: "want " + topology.PoolNames}})
	}
	w := workflow.Worker{
		Tenant: c.Tenant, ID: cmp.Or(r.ID, "worker-"+s.NewNonce()), Pool: topology.PoolInRegion(cmp.Or(r.Pool, topology.PoolDefault), r.Region), Blocks: r.Blocks, Version: r.Version,
	}
	registered, err := s.WorkerRegistry.Register(ctx, w)
	v := workerView(registered)
	if err == nil {
		v.Warnings = s.poolWarnings(ctx, c.Tenant, r.Pool)
	}
	return v, err
}

// poolWarnings warns if no block names the pool of a worker, whose polls get only packs from the
// pools of the blocks that they name. The worker has been registered by then, so a failed read is
// no error.
func (s *Service) poolWarnings(ctx context.Context, tenant, pool string) []string {
	if pool == "" || pool == topology.PoolDefault {
		return nil
	}
	blocks, err := s.BlockRegistry.Blocks(ctx, tenant, workflow.Page{Limit: maxListed})
	if err != nil || blocks.NextToken != "" {
		return nil
	}
	pools := []string{topology.PoolDefault}
	for _, b := range blocks.Items {
		pools = append(pools, poolName(b))
	}
	slices.Sort(pools)
	pools = slices.Compact(pools)
	if slices.Contains(pools, pool) {
		return nil
	}
	return []string{fmt.Sprintf("no registered block names the pool %q, and jobs go to the pools that blocks name%s", pool, workflow.DidYouMean(pool, pools))}
}

// checkRegion refuses what cannot be a region.
func checkRegion(region string) error {
	if region == "" || topology.ValidRegion(region) {
		return nil
	}
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "region", Code: "pattern", Message: "want " + topology.RegionNames}})
}

// HeartbeatWorker records that a worker is alive.
func (s *Service) HeartbeatWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	if _, err := s.WorkerRegistry.Heartbeat(ctx, c.Tenant, id, nil); err != nil {
		return views.WorkerView{}, err
	}
	return s.Worker(ctx, c, id)
}

// DrainWorker makes a worker get no new packs. It finishes those that it has.
func (s *Service) DrainWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	w, err := s.WorkerRegistry.Drain(ctx, c.Tenant, id)
	return workerView(w), err
}

// UnregisterWorker removes a worker that stops. It returns the worker's last state.
func (s *Service) UnregisterWorker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	w, err := s.WorkerRegistry.Unregister(ctx, c.Tenant, id)
	return workerView(w), err
}

// Worker returns one worker.
func (s *Service) Worker(ctx context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	w, err := s.WorkerRegistry.Worker(ctx, c.Tenant, id)
	return workerView(w), err
}

// Workers lists the workers; with a block, only those that serve this exact version.
func (s *Service) Workers(ctx context.Context, c workflow.Caller, block *workflow.Ref, page workflow.Page) (workflow.List[views.WorkerView], error) {
	list, err := s.WorkerRegistry.List(ctx, c.Tenant, block, page)
	out := workflow.List[views.WorkerView]{NextToken: list.NextToken}
	for _, w := range list.Items {
		out.Items = append(out.Items, workerView(w))
	}
	return out, err
}

func workerView(w workflow.Worker) views.WorkerView {
	v := views.WorkerView{ID: w.ID, State: w.State, Pool: w.Pool, Blocks: w.Blocks, RegisteredAt: w.RegisteredAt}
	if w.Version != "" {
		v.Version = &w.Version
	}
	if at := w.LastHeartbeat(); !at.IsZero() {
		v.LastHeartbeat = &at
	}
	for _, h := range w.ClaimedPacks {
		v.Packs = append(v.Packs, h.Name())
	}
	return v
}

// maxListed bounds the workers and blocks that Pools reads. Any beyond that are
// missing from its result.
const maxListed = workflow.MaxPageSize

// poolsTimeout bounds the time for querying the queues of pools: there may be one for each pool in
// each region of the stage.
const poolsTimeout = 20 * time.Second // below the 30 s of the gateway

// Pools returns the queue depth of every pool that a registered block names, and the packs that its
// workers have reported to hold. For regions, it lists the pools in the regions of the stage that
// have a queue, those that a worker has registered with, and those for which jobs wait.
func (s *Service) Pools(ctx context.Context, c workflow.Caller) ([]views.PoolView, error) {
	blocks, err := s.BlockRegistry.Blocks(ctx, c.Tenant, workflow.Page{Limit: maxListed})
	if err != nil {
		return nil, err
	}
	workers, err := s.WorkerRegistry.List(ctx, c.Tenant, nil, workflow.Page{Limit: maxListed})
	if err != nil {
		return nil, err
	}
	claims := map[string][]views.ClaimView{topology.PoolDefault: nil}
	for _, b := range blocks.Items {
		if _, known := claims[poolName(b)]; !known {
			claims[poolName(b)] = nil
		}
	}
	for pool := range maps.Clone(claims) {
		for _, region := range s.Regions {
			claims[topology.PoolInRegion(pool, region)] = nil
		}
	}
	registered := map[string]bool{}
	for _, w := range workers.Items {
		if registered[w.Pool] = true; topology.RegionOf(w.Pool) != "" && claims[w.Pool] == nil {
			claims[w.Pool] = nil
		}
		for _, h := range w.ClaimedPacks {
			claims[w.Pool] = append(claims[w.Pool], views.ClaimView{Pack: h.Name(), Execution: h.Wakeup().Execution, Worker: w.ID})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, poolsTimeout)
	defer cancel()
	unclaimed, err := s.UnclaimedJobs(ctx, c)
	if err != nil {
		return nil, err
	}
	for pool := range unclaimed {
		if claims[pool] == nil {
			claims[pool] = nil
		}
	}
	pools := slices.Sorted(maps.Keys(claims))
	found := make([]*views.PoolView, len(pools))
	err = parallel.Each(ctx, s.Parallel, len(pools), func(ctx context.Context, i int) error {
		v := &views.PoolView{Pool: pools[i], Claims: claims[pools[i]]}
		if err := s.addDepth(ctx, c.Tenant, v); err != nil {
			return err
		}
		if u, waits := unclaimed[v.Pool]; waits {
			v.Unclaimed = &u
		}
		if v.Queue || topology.RegionOf(v.Pool) == "" || registered[v.Pool] || v.Unclaimed != nil { // not every pool is served in every region
			found[i] = v
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, workflow.Errorf(workflow.CodeUnavailable, "the queues of %d pools were not all read within %s: %w", len(pools), poolsTimeout, err)
	}
	if err != nil {
		return nil, err
	}
	var all []views.PoolView
	for _, v := range found {
		if v != nil {
			all = append(all, *v)
		}
	}
	return all, nil
}

// addDepth adds whether a pool has a queue and, if every message in it belongs to the tenant, how
// many it has.
func (s *Service) addDepth(ctx context.Context, tenant string, v *views.PoolView) error {
	q, err := s.PoolQueue(ctx, v.Pool)
	if hasNoQueue(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if v.Queue = true; !s.OwnsQueues(tenant) {
		return nil
	}
	waiting, received, delayed, err := q.Depth(ctx)
	v.Waiting, v.Claimed, v.Delayed = &waiting, &received, &delayed
	return err
}

// hasNoQueue distinguishes a pool without a queue from a queue that could not be queried.
func hasNoQueue(err error) bool {
	var coded *workflow.Error
	return errors.As(err, &coded) && coded.Code == workflow.CodeUnavailable && coded.Cause == nil
}

func poolName(b workflow.Block) string { return cmp.Or(b.Pool, topology.PoolDefault) }
