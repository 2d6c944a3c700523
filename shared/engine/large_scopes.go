package engine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxEntitiesAtOnce is Options.EntitiesAtOnce of a function with 512 MB: the locks of 2,000 entities
// with the largest attributes have taken 154 MB.
const maxEntitiesAtOnce = 2000

// smallScopes is how many executions fit into Options.EntitiesAtOnce that wait for nobody: a batch of
// messages names ten.
const smallScopes = 20

// largeScopes bounds the memory of a process that handles many wake-ups side by side. The entities
// of an execution are in memory while it takes its locks and while a step is planned, so those of
// all wake-ups together are bounded: a wake-up waits until there is room for its execution. One
// with more than there is room for is handled without another large one beside it.
type largeScopes struct {
	most int64
	room *semaphore.Weighted
}

func newLargeScopes(most int) *largeScopes {
	return &largeScopes{most: int64(most), room: semaphore.NewWeighted(int64(most))}
}

// errNoRoom says that a wake-up has waited for as long as it may: another handler gets it.
var errNoRoom = errors.New("other large executions are handled in this process")

// takeRoom waits until there is room for the execution as it was committed last. What it has taken
// before it gives back first: who waits has nothing that others wait for.
func (w *workspace) takeRoom(ctx context.Context) error {
	l := w.e.large
	want := min(int64(w.execution.Scope.Total()), l.most)
	if !w.boundsScope || want <= w.room || want <= l.most/smallScopes {
		return nil
	}
	w.giveRoom()
	if deadline, ok := ctx.Deadline(); ok { // the other half is for the work
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

// giveRoom gives back what the wake-up has taken.
func (w *workspace) giveRoom() {
	if w.room > 0 {
		w.e.large.room.Release(w.room)
		w.room = 0
	}
}

// passOn sends a wake-up again that found no room, and returns any other error as it is. What the
// wake-up has committed stands.
func (w *workspace) passOn(ctx context.Context, l workflow.Wakeup, err error) error {
	if !errors.Is(err, errNoRoom) {
		return err
	}
	l.Cost, l.Reason = workflow.Cost{}, "no room" // the cost is kept by this process
	return w.ports.Sender.SendWakeups(ctx, 0, l)
}
