package sim

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Board sends: looks to the lifecycle queue, packs to the queue of their pool.
type Board struct{ *line }

// maxDelay is the longest delay of a queue; delays are in whole seconds.
const maxDelay = 15 * time.Minute

func delayed(now time.Time, d time.Duration) time.Time {
	d = min(max(d, 0), maxDelay)
	return now.Add((d + time.Second - 1).Truncate(time.Second))
}

// MakePool makes a pool's queue, if there is none.
func (w *World) MakePool(name string) *queue.Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pools[name] == nil {
		w.pools[name] = w.queue(uint64(len(w.pools) + 2))
	}
	return w.pools[name]
}

// Lifecycle is the queue of looks.
func (w *World) Lifecycle() *queue.Queue { return w.lifecycle }

// Offer sends packs. What has no queue, or is too large, is not sent.
func (b *Board) Offer(_ context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error) {
	type answer struct {
		failed []workflow.PackKey
		err    error
	}
	a, err := struck(b.line, "board.offer", func(f fate.Fault) (answer, error) {
		var a answer
		for i, m := range packs {
			body := encoded(m)
			q := b.w.pools[m.Work.Pool]
			if len(body) > messageBytes {
				a.err = workflow.Errorf(workflow.CodeTooLarge, "a message of %d bytes", len(body))
			}
			if q == nil || len(body) > messageBytes || f == fate.Partly && i%2 == 0 {
				a.failed = append(a.failed, m.Key)
				continue
			}
			b.meter.count.Queue += 0.1
			q.Send(body, delayed(b.w.now, m.NotBefore.Sub(now)))
		}
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return a.failed, a.err
}

// Notify sends looks.
func (b *Board) Notify(_ context.Context, delay time.Duration, looks ...workflow.Look) error {
	_, err := call(b.line, "board.notify", func(bool) (nothing, error) {
		for _, l := range looks {
			b.meter.count.Queue += 0.1
			b.w.lifecycle.Send(encoded(l), delayed(b.w.now, delay))
		}
		return nothing{}, nil
	})
	return err
}
