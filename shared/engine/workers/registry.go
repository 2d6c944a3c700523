// Package workers registers the polling workers, records their heartbeats, and marks
// workers without a heartbeat UNREACHABLE, then OFFLINE, until they are removed. The
// worker layer of package statemachines has the transitions.
//
//   - registry.go reads and writes workers.
//   - liveness.go applies the timeouts, and finds the workers that are due for the
//     sweeper.
//
// Nothing here decides who may work on a pack: leases do. The state of a worker only
// decides whether it gets new packs, and is shown to users.
package workers

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Registry manages the polling workers.
type Registry struct {
	Workers  port.Workers
	Timeouts LivenessTimeouts
	Now      func() time.Time
}

// maxTries bounds how often one call reads a worker again because it has changed.
const maxTries = 8

// now returns the current time in milliseconds, the resolution in which it is stored.
func (r *Registry) now() time.Time { return r.Now().UTC().Truncate(time.Millisecond) }

// update reads a worker and writes what decide returns for it, if the worker has not changed in
// between; otherwise it tries again. seen is nil if there is no such worker.
func (r *Registry) update(ctx context.Context, tenant, id string, decide func(seen *workflow.Worker) (workflow.Worker, error)) (workflow.Worker, error) {
	for range maxTries {
		seen, err := r.Workers.Worker(ctx, tenant, id)
		if err != nil {
			return workflow.Worker{}, err
		}
		next, err := decide(seen)
		if err != nil {
			return workflow.Worker{}, err
		}
		if ok, err := r.Workers.PutWorker(ctx, seen, &next); ok || err != nil {
			return next, err
		}
	}
	return workflow.Worker{}, workflow.Contended(workflow.CodeConflict, "worker %s", id)
}

// Register adds a worker, or updates it.
func (r *Registry) Register(ctx context.Context, w workflow.Worker) (workflow.Worker, error) {
	return r.update(ctx, w.Tenant, w.ID, func(seen *workflow.Worker) (workflow.Worker, error) {
		return r.Timeouts.afterRegistration(seen, w, r.now()), nil
	})
}

// Heartbeat records a heartbeat. It makes a worker ONLINE whatever its state was, unless it drains.
// held are the packs that it works on; nil keeps the recorded ones. It returns CodeNotFound if the
// worker is not registered.
func (r *Registry) Heartbeat(ctx context.Context, tenant, id string, held []workflow.ClaimedPack) (draining bool, err error) {
	ok, old, err := r.Workers.Heartbeat(ctx, tenant, id, sm.WorkerOnline, r.now(), held)
	if draining = !ok && err == nil && old != nil && old.State == sm.WorkerDraining; draining {
		ok, _, err = r.Workers.Heartbeat(ctx, tenant, id, sm.WorkerDraining, r.now(), held)
	}
	if ok || err != nil {
		return draining, err
	}
	w, err := r.update(ctx, tenant, id, func(seen *workflow.Worker) (workflow.Worker, error) {
		return r.Timeouts.afterHeartbeat(seen, r.now())
	})
	return w.State == sm.WorkerDraining, err
}

// Drain stops sending new packs to a worker until it registers again. It returns CodeNotFound if
// there is no such worker.
func (r *Registry) Drain(ctx context.Context, tenant, id string) (workflow.Worker, error) {
	return r.update(ctx, tenant, id, func(seen *workflow.Worker) (workflow.Worker, error) {
		if seen == nil || seen.State == sm.WorkerRemoved {
			return workflow.Worker{}, workflow.Errorf(workflow.CodeNotFound, "there is no worker %s", id)
		}
		w := *seen
		if sm.Worker.Verdict(seen.State, sm.EventWorkerDrained) == sm.Ignore {
			return w, nil
		}
		w.State = sm.WorkerDraining
		return w, sm.Worker.Move(seen.State, sm.EventWorkerDrained, w.State)
	})
}

// Unregister removes a worker and returns it. It returns CodeNotFound if there is no such worker.
func (r *Registry) Unregister(ctx context.Context, tenant, id string) (workflow.Worker, error) {
	known, err := r.Worker(ctx, tenant, id)
	if err != nil {
		return workflow.Worker{}, err
	}
	removed, err := r.update(ctx, tenant, id, func(seen *workflow.Worker) (workflow.Worker, error) {
		if seen == nil || seen.State == sm.WorkerRemoved {
			return workflow.Worker{}, workflow.Errorf(workflow.CodeNotFound, "there is no worker %s", id)
		}
		w := *seen
		w.State, w.DueAt, w.ClaimedPacks = sm.WorkerRemoved, time.Time{}, nil
		return w, sm.Worker.Move(seen.State, sm.EventWorkerUnregistered, w.State)
	})
	if workflow.Is(err, workflow.CodeNotFound) {
		return known, nil // another call has removed it in between
	}
	return removed, err
}

// Worker reads a worker. It returns CodeNotFound if there is no such worker.
func (r *Registry) Worker(ctx context.Context, tenant, id string) (workflow.Worker, error) {
	w, err := r.Workers.Worker(ctx, tenant, id)
	if err == nil && (w == nil || w.State == sm.WorkerRemoved) {
		err = workflow.Errorf(workflow.CodeNotFound, "there is no worker %s", id)
	}
	if err != nil {
		return workflow.Worker{}, err
	}
	return *w, nil
}

// AcceptsPacks reports whether a worker in this state gets new packs.
func AcceptsPacks(state sm.WorkerState) bool {
	return state == sm.WorkerRegistered || state == sm.WorkerOnline
}

// List lists a tenant's workers ordered by id. If block is not nil, it lists only the workers that
// serve that exact block.
func (r *Registry) List(ctx context.Context, tenant string, block *workflow.Ref, page workflow.Page) (workflow.List[workflow.Worker], error) {
	for {
		list, err := r.Workers.Workers(ctx, tenant, page)
		if err != nil || block == nil {
			return list, err
		}
		list.Items = slices.DeleteFunc(list.Items, func(w workflow.Worker) bool { return !w.Serves(*block) })
		if len(list.Items) > 0 || list.NextToken == "" {
			return list, nil
		}
		page.Token = list.NextToken // skip an empty page, which the caller would take for the end
	}
}
