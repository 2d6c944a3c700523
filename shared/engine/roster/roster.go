package roster

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Roster is the polling workers.
type Roster struct {
	Workers port.Workers
	Silence Silence
	Now     func() time.Time
}

// tries bounds how often one call judges a worker that changes under it.
const tries = 8

// now is the time in the resolution in which it is stored.
func (r *Roster) now() time.Time { return r.Now().UTC().Truncate(time.Millisecond) }

// change reads a worker, lets decide say what becomes of it, and writes that if
// nobody was faster; otherwise it begins again.
func (r *Roster) change(ctx context.Context, tenant, id string, decide func(seen *workflow.Worker) (workflow.Worker, error)) (workflow.Worker, error) {
	for range tries {
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
func (r *Roster) Register(ctx context.Context, w workflow.Worker) (workflow.Worker, error) {
	return r.change(ctx, w.Tenant, w.ID, func(seen *workflow.Worker) (workflow.Worker, error) {
		return r.Silence.registered(seen, w, r.now()), nil
	})
}

// Beat says that a worker lives: whatever its state was, it is ONLINE. held are
// the packs that it works on; nil leaves what is known of them. A worker that is
// not known is CodeNotFound: it has to register.
func (r *Roster) Beat(ctx context.Context, tenant, id string, held []workflow.HeldPack) error {
	ok, _, err := r.Workers.Beat(ctx, tenant, id, r.now(), held)
	if ok || err != nil {
		return err
	}
	_, err = r.change(ctx, tenant, id, func(seen *workflow.Worker) (workflow.Worker, error) {
		return r.Silence.heard(seen, r.now())
	})
	return err
}

// Unregister says that a worker leaves. That one is not known is no error.
func (r *Roster) Unregister(ctx context.Context, tenant, id string) (workflow.Worker, error) {
	known, err := r.Worker(ctx, tenant, id)
	if err != nil {
		return workflow.Worker{}, err
	}
	gone, err := r.change(ctx, tenant, id, func(seen *workflow.Worker) (workflow.Worker, error) {
		if seen == nil || seen.State == sm.WorkerRemoved {
			return workflow.Worker{}, workflow.Errorf(workflow.CodeNotFound, "there is no worker %s", id)
		}
		w := *seen
		w.State, w.DueAt, w.Held = sm.WorkerRemoved, time.Time{}, nil
		return w, sm.Worker.Move(seen.State, sm.EventWorkerUnregistered, w.State)
	})
	if workflow.Is(err, workflow.CodeNotFound) {
		return known, nil // somebody else has said so meanwhile
	}
	return gone, err
}

// Worker reads a worker; CodeNotFound if it is not known.
func (r *Roster) Worker(ctx context.Context, tenant, id string) (workflow.Worker, error) {
	w, err := r.Workers.Worker(ctx, tenant, id)
	if err == nil && (w == nil || w.State == sm.WorkerRemoved) {
		err = workflow.Errorf(workflow.CodeNotFound, "there is no worker %s", id)
	}
	if err != nil {
		return workflow.Worker{}, err
	}
	return *w, nil
}

// Admits reports whether a worker in this state is given new packs.
func Admits(state sm.WorkerState) bool {
	return state == sm.WorkerRegistered || state == sm.WorkerOnline
}

// List lists a tenant's workers, or those that serve an exact block, in order of
// id.
func (r *Roster) List(ctx context.Context, tenant string, block *workflow.Ref, page workflow.Page) (workflow.List[workflow.Worker], error) {
	for {
		list, err := r.Workers.Workers(ctx, tenant, page)
		if err != nil || block == nil {
			return list, err
		}
		list.Items = slices.DeleteFunc(list.Items, func(w workflow.Worker) bool { return !w.Serves(*block) })
		if len(list.Items) > 0 || list.Next == "" {
			return list, nil
		}
		page.Token = list.Next // nobody here; a page that is empty would look like the end
	}
}
