package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Sender sends messages. Sending is at least once; a queue that does not exist is
// no error: the message counts as not sent, and an alarm sends it again.
type Sender interface {
	// SendPacks sends packs to the queue of their pool, each after its delay (cut to
	// 15 minutes), in batches. It returns the keys that could not be sent.
	SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)

	// SendWakeups sends looks to the lifecycle queue after the delay.
	SendWakeups(ctx context.Context, delay time.Duration, looks ...workflow.Wakeup) error
}
