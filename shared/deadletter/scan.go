package deadletter

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
)

// Message is a message among dead letters, received and kept from others for a
// while.
type Message struct {
	ID       string // the same as in the queue that gave up on it
	Handle   string
	Body     string
	Group    string // its tenant's, where tenants are served in turn
	Receives int
	SentAt   time.Time
}

// Queue is a queue beside its dead letters.
type Queue interface {
	// Receive receives up to n dead letters and keeps them from others for hold. None
	// means that there are none, but for those that somebody else is looking at.
	Receive(ctx context.Context, n int, hold time.Duration) ([]Message, error)
	// Count is about how many dead letters there are, with those that somebody is
	// looking at.
	Count(ctx context.Context) (int, error)
	// Release lets others have them again at once.
	Release(ctx context.Context, letters []Message) error
	// Redrive sends one to its queue, then deletes it here.
	Redrive(ctx context.Context, l Message) error
}

// One walk looks at up to maxMessages, and keeps what it has seen from others for
// hold. The walks of one call are over after scanTimeout.
const (
	maxMessages       = 500
	receiveBatch      = 10
	scanTimeout       = 15 * time.Second
	visibilityTimeout = 60 * time.Second
)

// scanQueue looks at the dead letters of a queue, each once, and lets each see those of
// the tenant; each reports whether the letter has gone. complete says that nothing
// was left out, which it does not where others hold letters at the same time.
//
// The queue is every tenant's, and has no way to ask for one tenant's messages, or
// to look without receiving. So whatever is received stays hidden while the walk
// lasts, which makes the queue give others, and what is still there after it is
// given back at once: nobody's messages are consumed, and another tenant's are
// neither shown nor moved, only hard to see for the length of a walk. But where the
// walk ends before it has seen everything, what is not the caller's stays hidden
// until its hold ends, so that the next call gets to what lies behind. A receive
// count that grows by this does no harm: nothing gives up on dead letters.
func (s *Service) scanQueue(ctx context.Context, tenant, name string, q Queue, until time.Time, handle func(Message, subject) (gone bool)) (complete bool, err error) {
	var kept, others []Message
	drained := false // lies behind what was seen
	defer func() {
		release := kept
		if drained || err != nil {
			release = append(release, others...)
		}
		if releaseErr := q.Release(context.WithoutCancel(ctx), release); releaseErr != nil {
			s.Log.WarnContext(ctx, "dead letters stay hidden for a while", observe.Queue, name, observe.Err(releaseErr))
		}
	}()
	seen := map[string]bool{}
	for len(seen) < maxMessages && s.Now().Before(until) && ctx.Err() == nil {
		messages, err := q.Receive(ctx, min(receiveBatch, maxMessages-len(seen)), visibilityTimeout)
		if err != nil {
			return false, err
		}
		if len(messages) == 0 {
			drained = true
			n, err := q.Count(ctx)
			return err == nil && n <= len(kept)+len(others), err
		}
		for _, l := range messages {
			if seen[l.ID] {
				continue // delivered twice, and held already
			}
			seen[l.ID] = true
			about, readable := s.Decoder.subjectOf(name, l.Body)
			switch {
			case !readable || about.tenant != tenant:
				others = append(others, l)
			case !handle(l, about):
				kept = append(kept, l)
			}
		}
	}
	return false, ctx.Err()
}
