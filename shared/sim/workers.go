package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// workerItems holds the workers of a world by tenant and ID. The world's mutex guards it.
type workerItems map[[2]string]*workflow.Worker

// Workers stores the workers that poll over HTTP. It is part of a View.
type Workers struct {
	caller *conn
	items  workerItems
	shards int
}

// Worker reads a worker, strongly consistent; nil if it is absent.
func (w *Workers) Worker(_ context.Context, tenant, id string) (found *workflow.Worker, err error) {
	err = w.caller.Do("workers.worker", func() error {
		found = copyWorker(w.items[[2]string{tenant, id}])
		return nil
	})
	return found, err
}

func copyWorker(w *workflow.Worker) *workflow.Worker {
	if w == nil {
		return nil
	}
	c := *w
	c.Blocks, c.ClaimedPacks = slices.Clone(w.Blocks), slices.Clone(w.ClaimedPacks)
	return &c
}

// Workers lists a tenant's workers in order of ID.
func (w *Workers) Workers(_ context.Context, tenant string, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	err = w.caller.Do("workers.list", func() error {
		list, err = paginateKeyed(w.sorted(func(one *workflow.Worker) (string, bool) {
			return one.ID, one.Tenant == tenant && one.State != statemachines.WorkerRemoved
		}), page)
		return err
	})
	return list, err
}

// DueWorkers lists workers of one shard that are due for a check.
func (w *Workers) DueWorkers(_ context.Context, shard int, now time.Time, page workflow.Page) (list workflow.List[workflow.Worker], err error) {
	err = w.caller.Do("workers.due", func() error {
		list, err = paginateKeyed(w.sorted(func(one *workflow.Worker) (string, bool) {
			h := fnv.New32a()
			h.Write([]byte(one.Tenant + "#" + one.ID))
			due := !one.DueAt.IsZero() && !one.DueAt.After(now) && int(h.Sum32()%uint32(w.shards)) == shard
			return fmt.Sprintf("%015d %s %s", one.DueAt.UnixMilli(), one.Tenant, one.ID), due
		}), page)
		for i, one := range list.Items {
			list.Items[i] = workflow.Worker{Tenant: one.Tenant, ID: one.ID}
		}
		return err
	})
	return list, err
}

// sorted returns the workers that want selects, in the order of the keys it returns.
func (w *Workers) sorted(want func(*workflow.Worker) (at string, ok bool)) (all []keyed[workflow.Worker]) {
	for _, one := range w.items {
		if at, ok := want(one); ok {
			all = append(all, keyed[workflow.Worker]{at, *copyWorker(one)})
		}
	}
	slices.SortFunc(all, func(a, b keyed[workflow.Worker]) int { return cmp.Compare(a.key, b.key) })
	return all
}

// PutWorker replaces seen by next if state and last heartbeat have not changed; seen is nil
// for a new worker.
func (w *Workers) PutWorker(_ context.Context, seen, next *workflow.Worker) (ok bool, err error) {
	err = w.caller.Do("workers.put", func() error {
		key := [2]string{next.Tenant, next.ID}
		old := w.items[key]
		if seen == nil {
			ok = old == nil
		} else {
			ok = old != nil && old.State == seen.State && old.LastSeenAt.Equal(seen.LastSeenAt)
		}
		if !ok {
			return nil
		}
		c := copyWorker(next)
		if len(c.ClaimedPacks) > 0 && old != nil {
			c.ClaimedPacks = slices.Clone(old.ClaimedPacks)
		} else {
			c.ClaimedPacks = nil
		}
		w.items[key] = c
		return nil
	})
	return ok, err
}

// Heartbeat records a heartbeat of a worker that is in the state. Otherwise it returns the worker.
func (w *Workers) Heartbeat(_ context.Context, tenant, id string, state statemachines.WorkerState, at time.Time, held []workflow.ClaimedPack) (ok bool, old *workflow.Worker, err error) {
	err = w.caller.Do("workers.heartbeat", func() error {
		one := w.items[[2]string{tenant, id}]
		if ok, old = one != nil && one.State == state, nil; !ok {
			old = copyWorker(one)
			return nil
		}
		one.LastSeenAt = at
		if held != nil {
			one.ClaimedPacks = nil
			for _, h := range held {
				addClaimedPack(one, h)
			}
		}
		return nil
	})
	return ok, old, err
}

// AddClaimedPack adds a pack to those that a worker has claimed.
func (w *Workers) AddClaimedPack(_ context.Context, tenant, id string, pack workflow.ClaimedPack) error {
	return w.caller.Do("workers.add_claimed_pack", func() error {
		if one := w.items[[2]string{tenant, id}]; one != nil {
			addClaimedPack(one, pack)
		}
		return nil
	})
}

func addClaimedPack(one *workflow.Worker, pack workflow.ClaimedPack) {
	if at, found := slices.BinarySearch(one.ClaimedPacks, pack); !found {
		one.ClaimedPacks = slices.Insert(one.ClaimedPacks, at, pack)
	}
}

// RemoveClaimedPack removes a pack from those that a worker has claimed.
func (w *Workers) RemoveClaimedPack(_ context.Context, tenant, id string, pack workflow.ClaimedPack) error {
	return w.caller.Do("workers.remove_claimed_pack", func() error {
		if one := w.items[[2]string{tenant, id}]; one != nil {
			one.ClaimedPacks = slices.DeleteFunc(one.ClaimedPacks, func(h workflow.ClaimedPack) bool { return h == pack })
			if len(one.ClaimedPacks) == 0 {
				one.ClaimedPacks = nil
			}
		}
		return nil
	})
}
