package engine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxEntitiesAtOnce is Options.EntitiesAtOnce of a function with 512 MB. Measured: the locks of
// 2,000 entities with the largest attributes took 154 MB.
const maxEntitiesAtOnce = 2000

// smallScopes defines which executions never wait for memory: those with at most 1/smallScopes of
// Options.EntitiesAtOnce. It is twice the size of a batch of messages, which names ten executions.
const smallScopes = 20

// largeScopes bounds the memory of a process that handles many wake-ups at the same time. An
// execution's entities are in memory while it takes its locks and while a step is planned. So a
// wake-up waits until the entities of all executions at work leave room for its own. An execution
// that is larger than the limit runs without another large one beside it.
type largeScopes struct {
	most int64
	room *semaphore.Weighted
}

func newLargeScopes(most int) *largeScopes {
	return &largeScopes{most: int64(most), room: semaphore.NewWeighted(int64(most))}
}

// errNoRoom means that a wake-up has waited as long as it may. Another handler then gets it.
var errNoRoom = errors.New("other large executions are handled in this process")

// acquireMemory waits until there is room for the execution as last committed. It first gives back what
// it has taken before, so that no wake-up waits while holding something that others wait for.
func (w *workspace) acquireMemory(ctx context.Context) error {
	l := w.e.large
	want := min(int64(w.execution.Scope.Total()), l.most)
	if !w.boundsScope || want <= w.room || want <= l.most/smallScopes {
		return nil
	}
	w.releaseMemory()
	if deadline, ok := ctx.Deadline(); ok { // keep the other half for the work
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	if l.room.Acquire(ctx, want) != nil {
		return errNoRoom
	}
	w.room = want
	return nil
}

// releaseMemory gives back what the wake-up has taken.
func (w *workspace) releaseMemory() {
	if w.room > 0 {
		w.e.large.room.Release(w.room)
		w.room = 0
	}
}

// requeueForMemory sends a wake-up again if it found no room, and returns any other error unchanged. What the
// wake-up has committed stands.
func (w *workspace) requeueForMemory(ctx context.Context, l workflow.Wakeup, err error) error {
	if !errors.Is(err, errNoRoom) {
		return err
	}
	l.Cost, l.Reason = workflow.Cost{}, "no room" // this process counts the cost
	return w.ports.Sender.SendWakeups(ctx, 0, l)
}
