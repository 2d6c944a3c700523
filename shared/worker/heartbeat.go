package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// unregisterTimeout bounds the call that unregisters a worker that stops.
const unregisterTimeout = 5 * time.Second

// heartbeater keeps a polling worker registered. Without a registry it does nothing.
type heartbeater struct {
	w    *Worker
	opts PollOptions

	sending  sync.Mutex // one heartbeat at a time
	mu       sync.Mutex // guards the fields below
	lastSent time.Time  // when the last successful heartbeat was sent
	held     map[workflow.ClaimedPack]int
	draining bool // an operator wants it to receive no more packs
	drained  bool // the log has said that it has no packs left
}

func newHeartbeater(w *Worker, o PollOptions) *heartbeater {
	return &heartbeater{w: w, opts: o, held: map[workflow.ClaimedPack]int{}}
}

// loop sends heartbeats until ctx ends.
func (h *heartbeater) loop(ctx context.Context) {
	for h.opts.Registry != nil && ctx.Err() == nil {
		if err := h.send(ctx); err != nil && ctx.Err() == nil {
			h.w.opts.Logger.WarnContext(ctx, "heartbeat failed", observe.Worker, h.w.opts.Name, observe.Err(err))
		}
		sleep(ctx, h.opts.HeartbeatInterval)
	}
}

// mayReceive reports whether the worker may receive new packs. If its last heartbeat
// is too old, because the machine was asleep or the registry could not be reached, it
// must send one first.
func (h *heartbeater) mayReceive(ctx context.Context) bool {
	if h.opts.Registry == nil {
		return true
	}
	h.mu.Lock()
	sinceLast := h.w.opts.Now().Round(0).Sub(h.lastSent.Round(0)) // wall clock: the machine may have been asleep
	h.mu.Unlock()
	return sinceLast < h.opts.UnreachableAfter || h.send(ctx) == nil
}

// send sends a heartbeat. It registers the worker if the registry does not know it.
func (h *heartbeater) send(ctx context.Context) error {
	h.sending.Lock()
	defer h.sending.Unlock()
	h.mu.Lock()
	held := slices.AppendSeq(make([]workflow.ClaimedPack, 0, len(h.held)), maps.Keys(h.held))
	h.mu.Unlock()
	at := h.w.opts.Now()
	draining, err := h.opts.Registry.Heartbeat(ctx, h.w.opts.Name, held)
	if workflow.Is(err, workflow.CodeNotFound) {
		if err = h.opts.Registry.Register(ctx, h.w.descriptor()); err == nil {
			draining, err = h.opts.Registry.Heartbeat(ctx, h.w.opts.Name, held)
		}
	}
	if err == nil {
		h.mu.Lock()
		h.lastSent = at
		h.logDraining(ctx, draining)
		h.draining = draining
		h.mu.Unlock()
	}
	return err
}

// isDraining reports whether an operator has drained the worker. It then receives no packs, and
// finishes those that it has. The process continues, because a process that ended would be started
// again.
func (h *heartbeater) isDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}

// logDraining logs that the worker starts to drain, and later that it has no packs left. The caller
// holds h.mu.
func (h *heartbeater) logDraining(ctx context.Context, draining bool) {
	if draining && !h.draining {
		h.w.opts.Logger.InfoContext(ctx, "an operator drains this worker: it receives no more packs until it is started again", observe.Worker, h.w.opts.Name)
	}
	if left := draining && len(h.held) == 0; left && !h.drained {
		h.drained = true
		h.w.opts.Logger.InfoContext(ctx, "drained: the worker has no packs left and can be stopped", observe.Worker, h.w.opts.Name)
	}
}

// descriptor returns the data with which the worker registers.
func (w *Worker) descriptor() workflow.Worker {
	d := workflow.Worker{ID: w.opts.Name, Pool: topology.PoolInRegion(w.opts.Pool, w.opts.Region), Version: w.opts.Version}
	for _, b := range w.Blocks() {
		d.Blocks = append(d.Blocks, b.Ref().String())
	}
	return d
}

// addPack records that the worker works on a pack. The next heartbeat reports it.
func (h *heartbeater) addPack(k workflow.PackKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[k.ClaimedPack()]++
}

// removePack reverses one addPack.
func (h *heartbeater) removePack(k workflow.PackKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[k.ClaimedPack()]--; h.held[k.ClaimedPack()] <= 0 {
		delete(h.held, k.ClaimedPack())
	}
}

// unregister removes the worker from the registry when it stops.
func (h *heartbeater) unregister(ctx context.Context) {
	if h.opts.Registry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	if err := h.opts.Registry.Unregister(ctx, h.w.opts.Name); err != nil && !workflow.Is(err, workflow.CodeNotFound) {
		h.w.opts.Logger.WarnContext(ctx, "worker not unregistered; it will be shown as unreachable", observe.Worker, h.w.opts.Name, observe.Err(err))
	}
}
