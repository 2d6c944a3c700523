package engine

import (
	"context"
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// uncountedCosts holds what wake-ups without a commit have consumed, by execution. The next commit
// of the same process counts it. A separate write would cost more than most of what it counts, so
// costs that are still here when the process ends are lost.
type uncountedCosts struct {
	mu    sync.Mutex
	costs map[string]workflow.Cost
}

// maxUncounted bounds for how many executions costs are kept.
const maxUncounted = 1000

func (u *uncountedCosts) add(execution string, c workflow.Cost) {
	if c.IsZero() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.costs == nil {
		u.costs = map[string]workflow.Cost{}
	}
	kept, ok := u.costs[execution]
	for other := range u.costs {
		if ok || len(u.costs) < maxUncounted {
			break
		}
		delete(u.costs, other)
	}
	kept.Add(c)
	u.costs[execution] = kept
}

func (u *uncountedCosts) take(execution string) workflow.Cost {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.costs[execution]
	delete(u.costs, execution)
	return c
}

// sendWithCost sends a wake-up that carries what was consumed since the last commit: whoever
// handles it may be another process, and this one may commit nothing more.
func (w *workspace) sendWithCost(ctx context.Context, next workflow.Wakeup) error {
	w.pendingCost.Add(w.ports.Meter.Take())
	next.Cost.Add(w.pendingCost)
	next.Cost.QueueRequests++ // of this message
	if err := w.ports.Sender.SendWakeups(ctx, 0, next); err != nil {
		return err
	}
	w.pendingCost = workflow.Cost{}
	w.forgetRequests(1)
	return nil
}

// forgetRequests takes requests to SQS out of the count that the messages which they sent carry.
func (w *workspace) forgetRequests(n float64) {
	sent := w.ports.Meter.Take()
	sent.QueueRequests = max(0, sent.QueueRequests-n)
	w.pendingCost.Add(sent)
}

// keepCost keeps what the work has consumed and no commit has counted.
func (w *workspace) keepCost() {
	w.pendingCost.Add(w.ports.Meter.Take())
	w.e.uncounted.add(w.tenant+"#"+w.id, w.pendingCost)
	w.pendingCost = workflow.Cost{}
}
