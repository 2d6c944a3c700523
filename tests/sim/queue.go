package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// QueueFaults is how queues misbehave.
type QueueFaults struct {
	Shuffle        bool // messages come in any order
	DuplicateOneIn int  // one message in so many is there twice; 0 none, 1 all
	LoseOneIn      int  // one message in so many is lost when it is sent; 0 none
}

// Queue is one standard queue: what is received is hidden for a while, and comes
// again unless it is deleted.
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

// ID is the message's, the same each time it comes.
func (m Message) ID() string { return fmt.Sprint("m", m.number) }

// Wakeup and Pack read what the message carries.
func (m Message) Wakeup() workflow.Wakeup {
	wakeup := decodeMessage[workflow.Wakeup](m.Body)
	wakeup.Redelivered = m.Receives > 1
	return wakeup
}

// Pack is the message as a pack's.
func (m Message) Pack() *workflow.PackMessage { return decodeMessage[*workflow.PackMessage](m.Body) }

func decodeMessage[T any](raw []byte) (v T) {
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Errorf("simulated: this is no message: %w", err))
	}
	return v
}

// Send puts a message, to be seen from a moment on.
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

// Receive gets a message that is visible now and hides it for so long.
func (q *Queue) Receive(visibilityTimeout time.Duration) (Message, bool) {
	now := q.now() // not under the lock: the clock has its own
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

// Delete ends a message for good.
func (q *Queue) Delete(m Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o.number == m.number })
}

// ChangeVisibility makes a message that was received come back after d.
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

// Len is how many messages there are, hidden ones included.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

// visible is how many messages could be received now.
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

// Purge drops all messages.
func (q *Queue) Purge() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = nil
}

// NextVisible is when the next message is visible, if there is any.
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
