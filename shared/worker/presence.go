package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Presence is where a polling worker says that it lives. Nobody but people and
// the admission to new packs go by it: who may work on a pack is a matter of
// leases.
type Presence interface {
	// Register says who the worker is. Repeating it changes nothing.
	Register(ctx context.Context, w workflow.Worker) error
	// Beat says that it lives, and on what it works; CodeNotFound if it is not known
	// (any more).
	Beat(ctx context.Context, id string, held []workflow.HeldPack) error
	// Unregister says that it leaves.
	Unregister(ctx context.Context, id string) error
}

// partingTime bounds how long a worker that leaves tries to say so.
const partingTime = 5 * time.Second

// attendance keeps a polling worker known.
type attendance struct {
	w *Worker
	f Feed

	beating sync.Mutex // one heartbeat at a time
	mu      sync.Mutex
	last    time.Time // when the last heartbeat that arrived was sent
	held    map[workflow.HeldPack]int
}

func attend(w *Worker, f Feed) *attendance {
	return &attendance{w: w, f: f, held: map[workflow.HeldPack]int{}}
}

// keep beats until ctx ends.
func (a *attendance) keep(ctx context.Context) {
	for a.f.Presence != nil && ctx.Err() == nil {
		if err := a.beat(ctx); err != nil && ctx.Err() == nil {
			a.w.Log.WarnContext(ctx, "heartbeat not written", "worker", a.w.Name, "error", err)
		}
		rest(ctx, a.f.Heartbeat)
	}
}

// admitted reports whether the worker may take new packs: it must have been heard
// of. One that has been silent for too long, because it was asleep or could not
// reach the table, says that it lives before it takes any.
func (a *attendance) admitted(ctx context.Context) bool {
	if a.f.Presence == nil {
		return true
	}
	a.mu.Lock()
	silent := a.w.Now().Round(0).Sub(a.last.Round(0)) // the machine may have slept
	a.mu.Unlock()
	return silent < a.f.Unreachable || a.beat(ctx) == nil
}

// beat says that the worker lives; one that is not known says who it is first.
func (a *attendance) beat(ctx context.Context) error {
	a.beating.Lock()
	defer a.beating.Unlock()
	a.mu.Lock()
	held := slices.AppendSeq(make([]workflow.HeldPack, 0, len(a.held)), maps.Keys(a.held))
	a.mu.Unlock()
	at := a.w.Now()
	err := a.f.Presence.Beat(ctx, a.w.Name, held)
	if workflow.Is(err, workflow.CodeNotFound) {
		if err = a.f.Presence.Register(ctx, a.w.card()); err == nil {
			err = a.f.Presence.Beat(ctx, a.w.Name, held)
		}
	}
	if err == nil {
		a.mu.Lock()
		a.last = at
		a.mu.Unlock()
	}
	return err
}

// card is what a worker says of itself.
func (w *Worker) card() workflow.Worker {
	c := workflow.Worker{ID: w.Name, Pool: w.Pool, Version: w.Version}
	for _, b := range w.Blocks() {
		c.Blocks = append(c.Blocks, b.Ref().String())
	}
	return c
}

// hold and drop say which packs are worked on; the next heartbeat tells.
func (a *attendance) hold(k workflow.PackKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[k.Held()]++
}

func (a *attendance) drop(k workflow.PackKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[k.Held()]--; a.held[k.Held()] <= 0 {
		delete(a.held, k.Held())
	}
}

// leave says that the worker goes, in good order.
func (a *attendance) leave(ctx context.Context) {
	if a.f.Presence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	if err := a.f.Presence.Unregister(ctx, a.w.Name); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		a.w.Log.WarnContext(ctx, "not unregistered; it will be counted as silent", "worker", a.w.Name, "error", err)
	}
}
