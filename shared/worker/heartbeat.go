package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// WorkerRegistry is where a polling worker says that it lives. Nobody but people and
// the admission to new packs go by it: who may work on a pack is a matter of
// leases.
type WorkerRegistry interface {
	// Register says who the worker is. Repeating it changes nothing.
	Register(ctx context.Context, w workflow.Worker) error
	// Heartbeat says that it lives, and on what it works; CodeNotFound if it is not known
	// (any more).
	Heartbeat(ctx context.Context, id string, held []workflow.ClaimedPack) error
	// Unregister says that it leaves.
	Unregister(ctx context.Context, id string) error
}

// unregisterTimeout bounds how long a worker that leaves tries to say so.
const unregisterTimeout = 5 * time.Second

// heartbeater keeps a polling worker known.
type heartbeater struct {
	w *Worker
	f PollOptions

	sending  sync.Mutex // one heartbeat at a time
	mu       sync.Mutex
	lastSent time.Time // when the last heartbeat that arrived was sent
	held     map[workflow.ClaimedPack]int
}

func newHeartbeater(w *Worker, f PollOptions) *heartbeater {
	return &heartbeater{w: w, f: f, held: map[workflow.ClaimedPack]int{}}
}

// loop beats until ctx ends.
func (a *heartbeater) loop(ctx context.Context) {
	for a.f.Registry != nil && ctx.Err() == nil {
		if err := a.send(ctx); err != nil && ctx.Err() == nil {
			a.w.Logger.WarnContext(ctx, "heartbeat not written", "worker", a.w.Name, "error", err)
		}
		sleep(ctx, a.f.HeartbeatInterval)
	}
}

// mayReceive reports whether the worker may take new packs: it must have been heard
// of. One that has been silent for too long, because it was asleep or could not
// reach the table, says that it lives before it takes any.
func (a *heartbeater) mayReceive(ctx context.Context) bool {
	if a.f.Registry == nil {
		return true
	}
	a.mu.Lock()
	sinceLast := a.w.Now().Round(0).Sub(a.lastSent.Round(0)) // the machine may have slept
	a.mu.Unlock()
	return sinceLast < a.f.UnreachableAfter || a.send(ctx) == nil
}

// send says that the worker lives; one that is not known says who it is first.
func (a *heartbeater) send(ctx context.Context) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	a.mu.Lock()
	held := slices.AppendSeq(make([]workflow.ClaimedPack, 0, len(a.held)), maps.Keys(a.held))
	a.mu.Unlock()
	at := a.w.Now()
	err := a.f.Registry.Heartbeat(ctx, a.w.Name, held)
	if workflow.Is(err, workflow.CodeNotFound) {
		if err = a.f.Registry.Register(ctx, a.w.descriptor()); err == nil {
			err = a.f.Registry.Heartbeat(ctx, a.w.Name, held)
		}
	}
	if err == nil {
		a.mu.Lock()
		a.lastSent = at
		a.mu.Unlock()
	}
	return err
}

// descriptor is what a worker says of itself.
func (w *Worker) descriptor() workflow.Worker {
	c := workflow.Worker{ID: w.Name, Pool: w.Pool, Version: w.Version}
	for _, b := range w.Blocks() {
		c.Blocks = append(c.Blocks, b.Ref().String())
	}
	return c
}

// addPack and drop say which packs are worked on; the next heartbeat tells.
func (a *heartbeater) addPack(k workflow.PackKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[k.ClaimedPack()]++
}

func (a *heartbeater) removePack(k workflow.PackKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[k.ClaimedPack()]--; a.held[k.ClaimedPack()] <= 0 {
		delete(a.held, k.ClaimedPack())
	}
}

// unregister says that the worker goes, in good order.
func (a *heartbeater) unregister(ctx context.Context) {
	if a.f.Registry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	if err := a.f.Registry.Unregister(ctx, a.w.Name); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		a.w.Logger.WarnContext(ctx, "not unregistered; it will be counted as silent", "worker", a.w.Name, "error", err)
	}
}
