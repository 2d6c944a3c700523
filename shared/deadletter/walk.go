package deadletter

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
)

// Letter is a message among dead letters, received and kept from others for a
// while.
type Letter struct {
	ID       string // the same as in the queue that gave up on it
	Handle   string
	Body     string
	Group    string // its tenant's, where tenants are served in turn
	Receives int
	SentAt   time.Time
}

// Queue is a queue beside its dead letters.
type Queue interface {
	// Take receives up to n dead letters and keeps them from others for hold. None
	// means that there are none, but for those that somebody else is looking at.
	Take(ctx context.Context, n int, hold time.Duration) ([]Letter, error)
	// Count is about how many dead letters there are, with those that somebody is
	// looking at.
	Count(ctx context.Context) (int, error)
	// GiveBack lets others have them again at once.
	GiveBack(ctx context.Context, letters []Letter) error
	// Return sends one to its queue, then deletes it here.
	Return(ctx context.Context, l Letter) error
}

// One walk looks at up to mostLetters, and keeps what it has seen from others for
// hold. The walks of one call are over after walkTime.
const (
	mostLetters = 500
	takeLetters = 10
	walkTime    = 15 * time.Second
	hold        = 60 * time.Second
)

// walk looks at the dead letters of a queue, each once, and lets each see those of
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
func (s *Service) walk(ctx context.Context, tenant, name string, q Queue, until time.Time, each func(Letter, subject) (gone bool)) (complete bool, err error) {
	var own, others []Letter
	nothing := false // lies behind what was seen
	defer func() {
		back := own
		if nothing || err != nil {
			back = append(back, others...)
		}
		if trouble := q.GiveBack(context.WithoutCancel(ctx), back); trouble != nil {
			s.Log.WarnContext(ctx, "dead letters stay hidden for a while", observe.Queue, name, observe.Err(trouble))
		}
	}()
	seen := map[string]bool{}
	for len(seen) < mostLetters && s.Now().Before(until) && ctx.Err() == nil {
		letters, err := q.Take(ctx, min(takeLetters, mostLetters-len(seen)), hold)
		if err != nil {
			return false, err
		}
		if len(letters) == 0 {
			nothing = true
			n, err := q.Count(ctx)
			return err == nil && n <= len(own)+len(others), err
		}
		for _, l := range letters {
			if seen[l.ID] {
				continue // delivered twice, and held already
			}
			seen[l.ID] = true
			about, readable := s.Decode.of(name, l.Body)
			switch {
			case !readable || about.tenant != tenant:
				others = append(others, l)
			case !each(l, about):
				own = append(own, l)
			}
		}
	}
	return false, ctx.Err()
}
