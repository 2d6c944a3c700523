package sim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
)

// DLQ is a queue beside its dead letters. Fail, if it is set, says before each
// change which ones fail.
type DLQ struct {
	Source, DeadLetters *Queue
	Now                 func() time.Time
	InjectError         func(what string) error

	received []Message // by handle
}

// AddDeadLetter puts a message among the dead letters.
func (q *DLQ) AddDeadLetter(body []byte) { q.DeadLetters.Send(body, q.Now()) }

func (q *DLQ) injectedError(what string) error {
	if q.InjectError == nil {
		return nil
	}
	return q.InjectError(what)
}

// Receive receives.
func (q *DLQ) Receive(_ context.Context, n int, hold time.Duration) (all []deadletter.Message, err error) {
	if err := q.injectedError("receive"); err != nil {
		return nil, err
	}
	for len(all) < n {
		m, ok := q.DeadLetters.Receive(hold)
		if !ok {
			break
		}
		all = append(all, deadletter.Message{ID: m.ID(), Handle: strconv.Itoa(len(q.received)), Body: string(m.Body), Receives: m.Receives, SentAt: q.Now()})
		q.received = append(q.received, m)
	}
	return all, nil
}

// Count counts, with what is hidden.
func (q *DLQ) Count(context.Context) (int, error) {
	return q.DeadLetters.Len(), q.injectedError("count")
}

var errUnknownHandle = errors.New("simulated: nobody was given this handle")

func (q *DLQ) receivedMessage(l deadletter.Message) (Message, error) {
	i, err := strconv.Atoi(l.Handle)
	if err != nil || i < 0 || i >= len(q.received) {
		return Message{}, errUnknownHandle
	}
	return q.received[i], nil
}

// Release makes messages visible.
func (q *DLQ) Release(_ context.Context, letters []deadletter.Message) error {
	for _, l := range letters {
		m, err := q.receivedMessage(l)
		if err != nil {
			return err
		}
		q.DeadLetters.ChangeVisibility(m, 0)
	}
	return nil
}

// Redrive sends and deletes.
func (q *DLQ) Redrive(_ context.Context, l deadletter.Message) error {
	m, err := q.receivedMessage(l)
	if err != nil {
		return err
	}
	if err := q.injectedError("send"); err != nil {
		return err
	}
	q.Source.Send(m.Body, q.Now())
	if err := q.injectedError("delete"); err != nil {
		return err
	}
	q.DeadLetters.Delete(m)
	return nil
}
