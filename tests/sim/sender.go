package sim

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/faults"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Sender sends: looks to the lifecycle queue, packs to the queue of their pool.
type Sender struct{ *conn }

// maxDelay is the longest delay of a queue; delays are in whole seconds.
const maxDelay = 15 * time.Minute

func visibleAt(now time.Time, d time.Duration) time.Time {
	d = min(max(d, 0), maxDelay)
	return now.Add((d + time.Second - 1).Truncate(time.Second))
}

// PoolQueue makes a pool's queue, if there is none.
func (w *World) PoolQueue(name string) *Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.poolQueues[name] == nil {
		w.poolQueues[name] = w.newQueue(uint64(len(w.poolQueues) + 2))
	}
	return w.poolQueues[name]
}

// LifecycleQueue is the queue of looks.
func (w *World) LifecycleQueue() *Queue { return w.lifecycleQueue }

// SendPacks sends packs. What has no queue, or is too large, is not sent.
func (b *Sender) SendPacks(_ context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error) {
	type answer struct {
		failed []workflow.PackKey
		err    error
	}
	a, err := callWithFault(b.conn, "sender.send_packs", func(f faults.Fault) (answer, error) {
		var a answer
		for i, m := range packs {
			body := encodeMessage(m)
			q := b.w.poolQueues[m.Work.Pool]
			if len(body) > maxMessageBytes {
				a.err = workflow.Errorf(workflow.CodeTooLarge, "a message of %d bytes", len(body))
			}
			if q == nil || len(body) > maxMessageBytes || f == faults.PartialBatch && i%2 == 0 {
				a.failed = append(a.failed, m.Key)
				continue
			}
			b.meter.count.QueueRequests += 0.1
			q.Send(body, visibleAt(b.w.now, m.NotBefore.Sub(now)))
		}
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return a.failed, a.err
}

// SendWakeups sends looks.
func (b *Sender) SendWakeups(_ context.Context, delay time.Duration, wakeups ...workflow.Wakeup) error {
	_, err := call(b.conn, "sender.send_wakeups", func(bool) (empty, error) {
		for _, l := range wakeups {
			b.meter.count.QueueRequests += 0.1
			b.w.lifecycleQueue.Send(encodeMessage(l), visibleAt(b.w.now, delay))
		}
		return empty{}, nil
	})
	return err
}

// QueuedWakeups counts the wake-ups that are visible.
func (b *Sender) QueuedWakeups(context.Context) (int, error) {
	return call(b.conn, "sender.queued_wakeups", func(bool) (int, error) {
		b.meter.count.QueueRequests++
		return b.w.lifecycleQueue.visible(b.w.now), nil
	})
}
