package queue

import (
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/fault"
)

// Config is what a queue is born with.
type Config struct {
	Name        string
	ARN         string
	Created     time.Time
	Boot        string // a mark in receipt handles: those of an earlier process are void
	Sender      string // shown as SenderId
	MaxInFlight int
	Faults      *fault.Injector
	// Bury takes a message away that was received as often as Redrive allows,
	// by calling Remove; false leaves it here. nil never does.
	Bury func(q *Queue, m *Message, now time.Time) bool
	// Ring is called by a timer, in its own goroutine, when the queue has to be
	// settled. nil leaves that to the next operation.
	Ring func(q *Queue)
}

// Queue is one queue. Every message is in messages; besides, a visible one is in
// ready (standard queues), and an invisible one is in hidden. A FIFO queue keeps
// all of its messages in order instead of ready.
type Queue struct {
	Config
	FIFO       bool
	Modified   time.Time
	Attributes map[string]string // those that can be set, defaults included
	Tags       map[string]string
	Redrive    *Redrive // parsed from the attribute RedrivePolicy

	messages map[uint64]*Message
	inFlight int
	delayed  int
	ready    []*Message // oldest first; those that have gone are skipped
	ordered  []*Message
	hidden   hidden
	waiters  []*Waiter
	timer    *time.Timer
	repeats  map[string]repeat // FIFO: what was sent in the last minutes
}

// New makes an empty queue with the service's default attributes. A name with
// .fifo behind makes a FIFO queue.
func New(config Config) *Queue {
	q := &Queue{
		Config:     config,
		FIFO:       strings.HasSuffix(config.Name, ".fifo"),
		Modified:   config.Created,
		Attributes: map[string]string{},
		Tags:       map[string]string{},
		messages:   map[uint64]*Message{},
		repeats:    map[string]repeat{},
	}
	for attribute, limit := range numbers {
		q.Attributes[attribute] = strconv.Itoa(limit.normal)
	}
	if q.FIFO {
		maps.Copy(q.Attributes, map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "false", "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"})
	}
	return q
}

// mark moves m to a state and keeps the counts true.
func (q *Queue) mark(m *Message, to State) {
	for _, change := range []struct {
		state State
		by    int
	}{{m.State, -1}, {to, 1}} {
		switch change.state {
		case InFlight:
			q.inFlight += change.by
		case Delayed:
			q.delayed += change.by
		case Ready, Gone:
		}
	}
	m.State = to
}

// Insert adds a message that is new to this queue.
func (q *Queue) Insert(m *Message, now time.Time) {
	q.messages[m.Key] = m
	if q.FIFO {
		q.ordered = append(q.ordered, m)
	}
	if m.NotBefore > now.UnixNano() {
		m.at = time.Unix(0, m.NotBefore)
		q.mark(m, Delayed)
		heap.Push(&q.hidden, m)
		return
	}
	q.show(m)
}

// show makes m visible.
func (q *Queue) show(m *Message) {
	q.mark(m, Ready)
	if !q.FIFO {
		q.ready = append(q.ready, m)
	}
}

// Hide makes m invisible to everybody but its receiver, until a moment.
func (q *Queue) Hide(m *Message, until time.Time) {
	m.at = until
	if m.State == InFlight {
		heap.Fix(&q.hidden, m.index)
		return
	}
	q.mark(m, InFlight)
	heap.Push(&q.hidden, m)
}

// Remove forgets m.
func (q *Queue) Remove(m *Message) {
	if m.State == Delayed || m.State == InFlight {
		heap.Remove(&q.hidden, m.index)
	}
	delete(q.messages, m.Key)
	if q.FIFO {
		if i := slices.Index(q.ordered, m); i >= 0 {
			q.ordered = slices.Delete(q.ordered, i, i+1)
		}
	}
	q.mark(m, Gone)
}

// Clear forgets all messages.
func (q *Queue) Clear() {
	for _, m := range q.messages {
		m.State = Gone
	}
	q.messages = map[uint64]*Message{}
	q.ready, q.ordered, q.hidden = nil, nil, nil
	q.inFlight, q.delayed = 0, 0
}

// Count tells how many messages are visible, in flight, and delayed.
func (q *Queue) Count() (visible, inFlight, delayed int) {
	return len(q.messages) - q.inFlight - q.delayed, q.inFlight, q.delayed
}

// Message finds a message by its key; nil if it has gone.
func (q *Queue) Message(key uint64) *Message { return q.messages[key] }

// Len tells how many messages there are.
func (q *Queue) Len() int { return len(q.messages) }

// Full tells whether too many messages are in flight to deliver another.
func (q *Queue) Full() bool { return q.inFlight >= q.MaxInFlight }

// InOrder lists all messages by age.
func (q *Queue) InOrder() []*Message {
	return slices.SortedFunc(maps.Values(q.messages), func(a, b *Message) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
}

// expired tells whether m is older than the queue keeps messages.
func (q *Queue) expired(m *Message, now time.Time) bool {
	return now.UnixMilli()-m.Sent >= int64(q.Number("MessageRetentionPeriod"))*1000
}

// Settle brings q up to now: what is due becomes visible, whoever waits for it
// is served, and the timer is set for what comes next. Every operation that
// looks at a queue or changes it calls Settle.
func (q *Queue) Settle(now time.Time) {
	for len(q.hidden) > 0 && !q.hidden[0].at.After(now) {
		m := heap.Pop(&q.hidden).(*Message)
		switch {
		case q.expired(m, now):
			q.mark(m, Ready) // no longer in the heap
			q.Remove(m)
		case m.State == InFlight && q.Redrive != nil && m.Receives >= q.Redrive.Max && q.bury(m, now):
		default:
			q.show(m)
		}
	}
	for len(q.waiters) > 0 {
		w := q.waiters[0]
		w.Got = q.Take(now, w.want)
		if len(w.Got) == 0 {
			break
		}
		q.waiters = q.waiters[1:]
		close(w.done)
	}
	if len(q.hidden) == 0 || q.Ring == nil {
		return // a timer that still runs finds nothing to do
	}
	next := max(q.hidden[0].at.Sub(now), time.Millisecond)
	if q.timer == nil {
		q.timer = time.AfterFunc(next, func() { q.Ring(q) })
		return
	}
	q.timer.Reset(next)
}

// bury offers m, which is no longer hidden, to its grave.
func (q *Queue) bury(m *Message, now time.Time) bool {
	q.mark(m, Ready)
	return q.Bury != nil && q.Bury(q, m, now)
}

// Dismiss sends everybody away who waits, and stops the timer.
func (q *Queue) Dismiss() {
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, w := range q.waiters {
		close(w.done)
	}
	q.waiters = nil
}

// hidden is a heap of invisible messages, the one that comes back first on top.
type hidden []*Message

func (h hidden) Len() int           { return len(h) }
func (h hidden) Less(a, b int) bool { return h[a].at.Before(h[b].at) }
func (h hidden) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = a, b
}

// Push and Pop are for container/heap.
func (h *hidden) Push(m any) {
	m.(*Message).index = len(*h)
	*h = append(*h, m.(*Message))
}

// Pop removes the last message of the slice.
func (h *hidden) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}
