package workerapi

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// RegisterWorker adds a worker, or changes its registration.
func (s *Service) RegisterWorker(ctx context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error) {
	if err := checkRegion(r.Region); err != nil {
		return views.WorkerView{}, err
	}
	w := workflow.Worker{
		Tenant: c.Tenant, ID: cmp.Or(r.ID, "worker-"+s.NewNonce()), Pool: topology.PoolInRegion(cmp.Or(r.Pool, topology.PoolDefault), r.Region), Blocks: r.Blocks, Version: r.Version,
	}
	registered, err := s.WorkerRegistry.Register(ctx, w)
	return workerView(registered), err
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

// DrainWorker makes a worker get no new packs. It ends those that it has.
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

// Pools returns the queue depth of every pool that a registered block names, and the
// packs that its workers have reported to hold. The pools of regions are those of the regions of
// the stage that have a queue, and those that a worker has registered with.
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
	var all []views.PoolView
	for pool, held := range claims {
		v := views.PoolView{Pool: pool, Claims: held}
		q, err := s.PoolQueue(ctx, pool)
		switch {
		case workflow.Is(err, workflow.CodeUnavailable): // the pool has no queue
			if topology.RegionOf(pool) != "" && !registered[pool] {
				continue // not every pool is served in every region
			}
		case err != nil:
			return nil, err
		case !s.OwnsQueues(c.Tenant):
			v.Queue = true
		default:
			v.Queue = true
			waiting, received, delayed, err := q.Depth(ctx)
			if err != nil {
				return nil, err
			}
			v.Waiting, v.Claimed, v.Delayed = &waiting, &received, &delayed
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b views.PoolView) int { return cmp.Compare(a.Pool, b.Pool) })
	return all, nil
}

func poolName(b workflow.Block) string { return cmp.Or(b.Pool, topology.PoolDefault) }
