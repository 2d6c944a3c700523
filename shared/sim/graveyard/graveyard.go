package graveyard

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
)

// Queue is a queue beside its dead letters. Fail, if it is set, says before each
// change which ones fail.
type Queue struct {
	Source, Dead *queue.Queue
	Now          func() time.Time
	Fail         func(what string) error

	held []queue.Message // by handle
}

// Bury puts a message among the dead letters.
func (q *Queue) Bury(body []byte) { q.Dead.Send(body, q.Now()) }

func (q *Queue) fails(what string) error {
	if q.Fail == nil {
		return nil
	}
	return q.Fail(what)
}

// Take receives.
func (q *Queue) Take(_ context.Context, n int, hold time.Duration) (all []deadletter.Letter, err error) {
	if err := q.fails("take"); err != nil {
		return nil, err
	}
	for len(all) < n {
		m, ok := q.Dead.Receive(hold)
		if !ok {
			break
		}
		all = append(all, deadletter.Letter{ID: m.ID(), Handle: strconv.Itoa(len(q.held)), Body: string(m.Body), Receives: m.Receives, SentAt: q.Now()})
		q.held = append(q.held, m)
	}
	return all, nil
}

// Count counts, with what is hidden.
func (q *Queue) Count(context.Context) (int, error) { return q.Dead.Len(), q.fails("count") }

var errUnknown = errors.New("simulated: nobody was given this handle")

func (q *Queue) find(l deadletter.Letter) (queue.Message, error) {
	i, err := strconv.Atoi(l.Handle)
	if err != nil || i < 0 || i >= len(q.held) {
		return queue.Message{}, errUnknown
	}
	return q.held[i], nil
}

// GiveBack makes messages visible.
func (q *Queue) GiveBack(_ context.Context, letters []deadletter.Letter) error {
	for _, l := range letters {
		m, err := q.find(l)
		if err != nil {
			return err
		}
		q.Dead.Defer(m, 0)
	}
	return nil
}

// Return sends and deletes.
func (q *Queue) Return(_ context.Context, l deadletter.Letter) error {
	m, err := q.find(l)
	if err != nil {
		return err
	}
	if err := q.fails("send"); err != nil {
		return err
	}
	q.Source.Send(m.Body, q.Now())
	if err := q.fails("delete"); err != nil {
		return err
	}
	q.Dead.Delete(m)
	return nil
}
