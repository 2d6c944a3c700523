package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// QueueFaults describes how queues misbehave.
type QueueFaults struct {
	Shuffle        bool // messages arrive in any order
	DuplicateOneIn int  // one message in so many is delivered twice; 0 none, 1 all
	LoseOneIn      int  // one message in so many is lost when it is sent; 0 none
}

// Queue is a standard SQS queue: a received message is hidden for a while and is delivered again
// unless it is deleted.
type Queue struct {
	now    func() time.Time
	random *rand.Rand
	faults *QueueFaults

	mu         sync.Mutex
	messages   []*message
	lastNumber int
}

// NewQueue makes a queue on a clock. faults may be changed while it is not in use.
func NewQueue(now func() time.Time, random *rand.Rand, faults *QueueFaults) *Queue {
	return &Queue{now: now, random: random, faults: faults}
}

type message struct {
	number    int
	body      []byte
	visibleAt time.Time
	receives  int
}

// Message is one delivery.
type Message struct {
	Body     []byte
	Receives int // this one included
	number   int
}

// ID identifies the message; it is the same on each delivery.
func (m Message) ID() string { return fmt.Sprint("m", m.number) }

// Wakeup decodes a message of the lifecycle queue.
func (m Message) Wakeup() workflow.Wakeup {
	wakeup := decodeMessage[workflow.Wakeup](m.Body)
	wakeup.Redelivered = m.Receives > 1
	return wakeup
}

// Pack decodes a message of a pool's queue.
func (m Message) Pack() *workflow.PackMessage { return decodeMessage[*workflow.PackMessage](m.Body) }

func decodeMessage[T any](raw []byte) (v T) {
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Errorf("sim: cannot decode message: %w", err))
	}
	return v
}

// Send adds a message that becomes visible at a given time.
func (q *Queue) Send(body []byte, visible time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := *q.faults
	if d.LoseOneIn > 0 && q.random.IntN(d.LoseOneIn) == 0 {
		return
	}
	copies := 1
	if d.DuplicateOneIn > 0 && q.random.IntN(d.DuplicateOneIn) == 0 {
		copies = 2
	}
	for range copies {
		q.lastNumber++
		q.messages = append(q.messages, &message{number: q.lastNumber, body: body, visibleAt: visible})
	}
}

// Receive returns a visible message and hides it for visibilityTimeout.
func (q *Queue) Receive(visibilityTimeout time.Duration) (Message, bool) {
	now := q.now() // before locking: the clock has a lock of its own
	q.mu.Lock()
	defer q.mu.Unlock()
	var available []*message
	for _, m := range q.messages {
		if !m.visibleAt.After(now) {
			available = append(available, m)
		}
	}
	if len(available) == 0 {
		return Message{}, false
	}
	m := available[0]
	if q.faults.Shuffle {
		m = available[q.random.IntN(len(available))]
	}
	m.visibleAt, m.receives = now.Add(visibilityTimeout), m.receives+1
	return Message{Body: slices.Clone(m.body), Receives: m.receives, number: m.number}, true
}

// Delete deletes a message.
func (q *Queue) Delete(m Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o.number == m.number })
}

// ChangeVisibility makes a received message visible again after d.
func (q *Queue) ChangeVisibility(m Message, d time.Duration) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.messages {
		if o.number == m.number {
			o.visibleAt = now.Add(d)
		}
	}
}

// Len counts the messages, hidden ones included.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

// visible counts the messages that could be received at now.
func (q *Queue) visible(now time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if !m.visibleAt.After(now) {
			n++
		}
	}
	return n
}

// Purge deletes all messages.
func (q *Queue) Purge() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = nil
}

// NextVisible returns when the next message becomes visible, if there is any.
func (q *Queue) NextVisible() (at time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if !ok || m.visibleAt.Before(at) {
			at, ok = m.visibleAt, true
		}
	}
	return at, ok
}

// Sender sends wake-ups to the lifecycle queue and packs to the queue of their pool.
type Sender struct{ *conn }

// maxDelay is the longest delay of a queue; delays are in whole seconds.
const maxDelay = 15 * time.Minute

func visibleAt(now time.Time, d time.Duration) time.Time {
	d = min(max(d, 0), maxDelay)
	return now.Add((d + time.Second - 1).Truncate(time.Second))
}

// PoolQueue returns a pool's queue and creates it if necessary.
func (w *World) PoolQueue(name string) *Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.poolQueues[name] == nil {
		w.poolQueues[name] = w.newQueue(uint64(len(w.poolQueues) + 2))
	}
	return w.poolQueues[name]
}

// LifecycleQueue returns the queue of wake-ups.
func (w *World) LifecycleQueue() *Queue { return w.lifecycleQueue }

// EventsQueue returns the queue of announcements, HooksQueue that of deliveries.
func (w *World) EventsQueue() *Queue { return w.eventsQueue }
func (w *World) HooksQueue() *Queue  { return w.hooksQueue }

// Announcement decodes a message of the queue of announcements.
func (m Message) Announcement() workflow.Announcement {
	return decodeMessage[workflow.Announcement](m.Body)
}

// Delivery decodes a message of the queue of deliveries.
func (m Message) Delivery() *workflow.Delivery { return decodeMessage[*workflow.Delivery](m.Body) }

// SendAnnouncements sends announcements.
func (s *Sender) SendAnnouncements(_ context.Context, delay time.Duration, announcements ...workflow.Announcement) error {
	_, err := call(s.conn, "sender.send_announcements", func(bool) (empty, error) {
		for _, a := range announcements {
			s.count(workflow.Cost{QueueRequests: 1})
			s.w.eventsQueue.Send(encodeMessage(a), visibleAt(s.w.now, delay))
		}
		return empty{}, nil
	})
	return err
}

// SendDeliveries sends deliveries.
func (s *Sender) SendDeliveries(_ context.Context, deliveries ...*workflow.Delivery) error {
	_, err := call(s.conn, "sender.send_deliveries", func(bool) (empty, error) {
		for _, d := range deliveries {
			body := encodeMessage(d)
			if len(body) > maxMessageBytes {
				return empty{}, workflow.Errorf(workflow.CodeTooLarge, "message has %d bytes", len(body))
			}
			s.count(workflow.Cost{QueueRequests: 1})
			s.w.hooksQueue.Send(body, s.w.now)
		}
		return empty{}, nil
	})
	return err
}

// SendPacks sends packs. It does not send a pack that has no queue or is too large.
func (s *Sender) SendPacks(_ context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error) {
	type answer struct {
		failed []workflow.PackKey
		err    error
	}
	a, err := callWithFault(s.conn, "sender.send_packs", func(f faults.Fault) (answer, error) {
		var a answer
		for i, m := range packs {
			body := encodeMessage(m)
			q := s.w.poolQueues[m.Work.Pool]
			if len(body) > maxMessageBytes {
				a.err = workflow.Errorf(workflow.CodeTooLarge, "message has %d bytes", len(body))
			}
			if q == nil || len(body) > maxMessageBytes || f == faults.PartialBatch && i%2 == 0 {
				a.failed = append(a.failed, m.Key)
				continue
			}
			s.count(workflow.Cost{QueueRequests: 0.1})
			q.Send(body, visibleAt(s.w.now, m.NotBefore.Sub(now)))
		}
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	return a.failed, a.err
}

// SendWakeups sends wake-ups.
func (s *Sender) SendWakeups(_ context.Context, delay time.Duration, wakeups ...workflow.Wakeup) error {
	_, err := call(s.conn, "sender.send_wakeups", func(bool) (empty, error) {
		for _, l := range wakeups {
			s.count(workflow.Cost{QueueRequests: 0.1})
			s.w.lifecycleQueue.Send(encodeMessage(l), visibleAt(s.w.now, delay))
		}
		return empty{}, nil
	})
	return err
}

// QueuedWakeups counts the wake-ups that are visible.
func (s *Sender) QueuedWakeups(context.Context) (int, error) {
	return call(s.conn, "sender.queued_wakeups", func(bool) (int, error) {
		s.count(workflow.Cost{QueueRequests: 1})
		return s.w.lifecycleQueue.visible(s.w.now), nil
	})
}

// DLQ is a queue with its dead-letter queue. InjectError, if set, is called before each operation,
// which fails with the error that it returns.
type DLQ struct {
	Source, DeadLetters *Queue
	Now                 func() time.Time
	InjectError         func(what string) error

	received []Message // by handle
}

// AddDeadLetter adds a message to the dead-letter queue.
func (q *DLQ) AddDeadLetter(body []byte) { q.DeadLetters.Send(body, q.Now()) }

func (q *DLQ) injectedError(what string) error {
	if q.InjectError == nil {
		return nil
	}
	return q.InjectError(what)
}

// Receive receives up to n dead letters and hides them for the duration hold.
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

// Count counts the dead letters, hidden ones included.
func (q *DLQ) Count(context.Context) (int, error) {
	return q.DeadLetters.Len(), q.injectedError("count")
}

var errUnknownHandle = errors.New("sim: unknown receipt handle")

func (q *DLQ) receivedMessage(l deadletter.Message) (Message, error) {
	i, err := strconv.Atoi(l.Handle)
	if err != nil || i < 0 || i >= len(q.received) {
		return Message{}, errUnknownHandle
	}
	return q.received[i], nil
}

// Release makes messages visible again.
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

// Redrive sends a dead letter to the source queue and deletes it.
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
