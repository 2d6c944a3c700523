package workerapi

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fakePools has blocks of many pools, one worker, and the queues that a test names. Each question for
// a queue takes a while.
type fakePools struct {
	BlockRegistry
	PoolQueue
	pools  []string
	queues map[string]error // nil for a queue that is there

	unclaimed map[string]views.UnclaimedJobs

	mu                   sync.Mutex
	asked, running, most int
	endless              bool // a question is not answered
}

func (f *fakePools) Blocks(context.Context, string, workflow.Page) (list workflow.List[workflow.Block], err error) {
	for _, pool := range f.pools {
		list.Items = append(list.Items, workflow.Block{Package: "p", Name: pool, Pool: pool})
	}
	return list, nil
}

type workerStore = port.Workers

// fakeWorkers has one worker.
type fakeWorkers struct {
	workerStore
	worker workflow.Worker
}

func (f fakeWorkers) Workers(context.Context, string, workflow.Page) (workflow.List[workflow.Worker], error) {
	return workflow.List[workflow.Worker]{Items: []workflow.Worker{f.worker}}, nil
}

func (f fakeWorkers) Worker(context.Context, string, string) (*workflow.Worker, error) {
	return nil, nil
}

func (f fakeWorkers) PutWorker(context.Context, *workflow.Worker, *workflow.Worker) (bool, error) {
	return true, nil
}

func (f *fakePools) Depth(context.Context) (waiting, received, delayed int, err error) {
	return 3, 2, 1, nil
}

func (f *fakePools) queue(ctx context.Context, pool string) (PoolQueue, error) {
	f.mu.Lock()
	f.asked++
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.running--; f.mu.Unlock() }()
	if f.endless {
		<-ctx.Done()
		return nil, &workflow.Error{Code: workflow.CodeUnavailable, Message: "the queue is unavailable", Cause: ctx.Err()}
	}
	time.Sleep(10 * time.Millisecond) // of the bubble
	if err, there := f.queues[pool]; there {
		return f, err
	}
	return nil, workflow.Errorf(workflow.CodeUnavailable, "the pool %s has no queue", pool)
}

// manyPools are as many as one call reads, in as many regions as a deployment has.
func manyPools(f *fakePools) *Service {
	s := &Service{
		BlockRegistry: f, PoolQueue: f.queue, OwnsQueues: func(string) bool { return true }, Parallel: 16, UnclaimedJobs: f.unclaimedJobs,
		WorkerRegistry: &workers.Registry{Workers: fakeWorkers{worker: workflow.Worker{ID: "w1", Pool: "p7@r3"}}},
	}
	for i := range maxListed {
		f.pools = append(f.pools, fmt.Sprint("p", i))
	}
	for i := range topology.MaxRegions {
		s.Regions = append(s.Regions, fmt.Sprint("r", i))
	}
	return s
}

// unclaimedJobs are those of executions with a region that nobody serves, and of a pool with a queue.
func (f *fakePools) unclaimedJobs(context.Context, workflow.Caller) (map[string]views.UnclaimedJobs, error) {
	return f.unclaimed, nil
}

// Pools for which jobs wait are listed, also those of a region that nobody serves, and of no block that is
// registered any more.
func TestPools_ShowsUnclaimedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePools{queues: map[string]error{"p5": nil}, unclaimed: map[string]views.UnclaimedJobs{"p5": {Jobs: 3, Executions: 2}, "p5@mars": {Jobs: 1, Executions: 1}, "gone": {Jobs: 7, Executions: 1}}}
		all, err := manyPools(f).Pools(t.Context(), workflow.Caller{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]views.UnclaimedJobs{}
		for _, v := range all {
			if v.Unclaimed != nil {
				found[v.Pool] = *v.Unclaimed
			}
		}
		if !maps.Equal(found, f.unclaimed) {
			t.Errorf("%+v", found)
		}
	})
}

// The queues of all pools in all regions are asked for once each, a bounded number of them side by side.
// A pool has no queue in most regions, which is told from a queue that cannot be asked for.
func TestPools_AsksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePools{queues: map[string]error{"p5": nil, "p5@r0": nil, "p99@r19": nil}}
		s := manyPools(f)
		all, err := s.Pools(t.Context(), workflow.Caller{Tenant: "acme"})
		if err != nil || f.asked != (maxListed+1)*(topology.MaxRegions+1) || f.most != s.Parallel {
			t.Errorf("asked for %d queues, %d at a time: %v", f.asked, f.most, err)
		}
		if len(all) != maxListed+1+3 { // each without a region, and those of regions with a queue or a worker
			t.Errorf("%d pools", len(all))
		}
		for i, v := range all {
			_, queue := f.queues[v.Pool]
			if v.Queue != queue || queue != (v.Waiting != nil && *v.Waiting == 3 && *v.Claimed == 2 && *v.Delayed == 1) || strings.Contains(v.Pool, "@") && !queue && v.Pool != "p7@r3" {
				t.Errorf("%+v", v)
			}
			if i > 0 && all[i-1].Pool >= v.Pool {
				t.Errorf("%s before %s", all[i-1].Pool, v.Pool)
			}
		}
		f.queues["p5@r1"] = &workflow.Error{Code: workflow.CodeUnavailable, Message: "the queue is unavailable", Cause: context.Canceled}
		if all, err := s.Pools(t.Context(), workflow.Caller{Tenant: "acme"}); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("a queue that cannot be asked for: %d pools, %v", len(all), err)
		}
	})
}

// Where the queues do not answer, the call ends before the gateway gives up.
func TestPools_EndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		all, err := manyPools(&fakePools{endless: true}).Pools(t.Context(), workflow.Caller{Tenant: "acme"})
		if took := time.Since(begun); !workflow.Is(err, workflow.CodeUnavailable) || all != nil || took != poolsTimeout {
			t.Errorf("%d pools after %s: %v", len(all), took, err)
		}
	})
}

// A worker that registers with a pool that no block names is registered, and told so.
func TestRegisterWorker_WarnsOfUnknownPool(t *testing.T) {
	f := &fakePools{pools: []string{"edge", "lab"}}
	s := &Service{BlockRegistry: f, NewNonce: func() string { return "n" }, WorkerRegistry: &workers.Registry{Workers: &fakeWorkers{}, Now: time.Now}}
	for pool, want := range map[string]string{"": "", "default": "", "lab": "", "edgee": `no registered block names the pool "edgee", and jobs go to the pools that blocks name; did you mean "edge"?`} {
		for _, region := range []string{"", "eu"} {
			v, err := s.RegisterWorker(t.Context(), workflow.Caller{Tenant: "acme"}, views.WorkerRegistration{ID: "w1", Pool: pool, Region: region, Blocks: []string{"p/a"}})
			if got := strings.Join(v.Warnings, ", "); err != nil || got != want {
				t.Errorf("%q, %q: %q, %v", pool, region, got, err)
			}
		}
	}
}

// A pool that no block can name is refused: its queue would be that of a region, or of dead letters.
func TestRegisterWorker_RefusesPoolsOfNoBlock(t *testing.T) {
	f := &fakePools{}
	s := &Service{BlockRegistry: f, NewNonce: func() string { return "n" }, WorkerRegistry: &workers.Registry{Workers: &fakeWorkers{}, Now: time.Now}}
	for _, pool := range []string{"a--b", "a-dlq", strings.Repeat("a", 41)} {
		if _, err := s.RegisterWorker(t.Context(), workflow.Caller{Tenant: "acme"}, views.WorkerRegistration{ID: "w1", Pool: pool, Blocks: []string{"p/a"}}); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%q: %v", pool, err)
		}
	}
}
