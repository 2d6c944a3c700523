package queue

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Faults is how queues misbehave.
type Faults struct {
	Shuffle   bool // messages come in any order
	Duplicate int  // one message in so many is there twice; 0 none, 1 all
	Lose      int  // one message in so many is lost when it is sent; 0 none
}

// Queue is one standard queue: what is received is hidden for a while, and comes
// again unless it is deleted.
type Queue struct {
	now    func() time.Time
	random *rand.Rand
	faults *Faults

	mu       sync.Mutex
	messages []*message
	last     int
}

// New makes a queue on a clock. faults may be changed while it is not in use.
func New(now func() time.Time, random *rand.Rand, faults *Faults) *Queue {
	return &Queue{now: now, random: random, faults: faults}
}

type message struct {
	n        int
	body     []byte
	visible  time.Time
	receives int
}

// Message is one delivery.
type Message struct {
	Body     []byte
	Receives int // this one included
	n        int
}

// ID is the message's, the same each time it comes.
func (m Message) ID() string { return fmt.Sprint("m", m.n) }

// Look and Pack read what the message carries.
func (m Message) Look() workflow.Look { return decoded[workflow.Look](m.Body) }

// Pack is the message as a pack's.
func (m Message) Pack() *workflow.PackMessage { return decoded[*workflow.PackMessage](m.Body) }

func decoded[T any](raw []byte) (v T) {
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
	if d.Lose > 0 && q.random.IntN(d.Lose) == 0 {
		return
	}
	copies := 1
	if d.Duplicate > 0 && q.random.IntN(d.Duplicate) == 0 {
		copies = 2
	}
	for range copies {
		q.last++
		q.messages = append(q.messages, &message{n: q.last, body: body, visible: visible})
	}
}

// Receive gets a message that is visible now and hides it for so long.
func (q *Queue) Receive(hide time.Duration) (Message, bool) {
	now := q.now() // not under the lock: the clock has its own
	q.mu.Lock()
	defer q.mu.Unlock()
	var there []*message
	for _, m := range q.messages {
		if !m.visible.After(now) {
			there = append(there, m)
		}
	}
	if len(there) == 0 {
		return Message{}, false
	}
	m := there[0]
	if q.faults.Shuffle {
		m = there[q.random.IntN(len(there))]
	}
	m.visible, m.receives = now.Add(hide), m.receives+1
	return Message{Body: slices.Clone(m.body), Receives: m.receives, n: m.n}, true
}

// Delete ends a message for good.
func (q *Queue) Delete(m Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o.n == m.n })
}

// Defer makes a message that was received come back after d.
func (q *Queue) Defer(m Message, d time.Duration) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.messages {
		if o.n == m.n {
			o.visible = now.Add(d)
		}
	}
}

// Len is how many messages there are, hidden ones included.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

// Purge drops all messages.
func (q *Queue) Purge() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = nil
}

// Next is when the next message is visible, if there is any.
func (q *Queue) Next() (at time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if !ok || m.visible.Before(at) {
			at, ok = m.visible, true
		}
	}
	return at, ok
}
