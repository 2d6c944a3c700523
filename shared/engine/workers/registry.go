package workers

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Registry is the polling workers.
type Registry struct {
	Workers  port.Workers
	Timeouts LivenessTimeouts
	Now      func() time.Time
}

// maxTries bounds how often one call judges a worker that changes under it.
const maxTries = 8

// now is the time in the resolution in which it is stored.
func (r *Registry) now() time.Time { return r.Now().UTC().Truncate(time.Millisecond) }

// update reads a worker, lets decide say what becomes of it, and writes that if
// nobody was faster; otherwise it begins again.
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
	return workflow.Worker{}, workflow.Errorf(workflow.CodeConflict, "worker %s keeps changing", id)
}

// Register makes a worker known, or changes what is known of it.
func (r *Registry) Register(ctx context.Context, w workflow.Worker) (workflow.Worker, error) {
	return r.update(ctx, w.Tenant, w.ID, func(seen *workflow.Worker) (workflow.Worker, error) {
		return r.Timeouts.afterRegistration(seen, w, r.now()), nil
	})
}

// Heartbeat says that a worker lives: whatever its state was, it is ONLINE. held are
// the packs that it works on; nil leaves what is known of them. A worker that is
// not known is CodeNotFound: it has to register.
func (r *Registry) Heartbeat(ctx context.Context, tenant, id string, held []workflow.ClaimedPack) error {
	ok, _, err := r.Workers.Heartbeat(ctx, tenant, id, r.now(), held)
	if ok || err != nil {
		return err
	}
	_, err = r.update(ctx, tenant, id, func(seen *workflow.Worker) (workflow.Worker, error) {
		return r.Timeouts.afterHeartbeat(seen, r.now())
	})
	return err
}

// Unregister says that a worker leaves. That one is not known is no error.
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
		return known, nil // somebody else has said so meanwhile
	}
	return removed, err
}

// Worker reads a worker; CodeNotFound if it is not known.
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

// AcceptsPacks reports whether a worker in this state is given new packs.
func AcceptsPacks(state sm.WorkerState) bool {
	return state == sm.WorkerRegistered || state == sm.WorkerOnline
}

// List lists a tenant's workers, or those that serve an exact block, in order of
// id.
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
		page.Token = list.NextToken // nobody here; a page that is empty would look like the end
	}
}
