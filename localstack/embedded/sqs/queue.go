package sqs

import (
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"time"
)

// queueConfig is fixed when a queue is created.
type queueConfig struct {
	name        string
	arn         string
	created     time.Time
	instanceID  string // in receipt handles; those of an earlier process are void
	senderID    string // SenderId of every message
	maxInFlight int
	faults      *faultInjector
	// moveToDLQ moves a message that has reached maxReceiveCount to the dead-letter
	// queue; false leaves it in the queue.
	moveToDLQ func(q *queue, m *message, now time.Time) bool
	// timerFired is called in a goroutine of the timer when the queue has messages
	// that are due.
	timerFired func(q *queue)
}

// queue is one standard queue. Every message is in messages; a visible one is also in
// visible, a delayed or received one in invisible.
type queue struct {
	queueConfig
	modified   time.Time
	attributes map[string]string // the settable ones, with defaults
	redrive    *redrivePolicy    // parsed from the attribute RedrivePolicy

	messages  map[uint64]*message
	inFlight  int
	delayed   int
	visible   []*message // oldest first; may hold messages that are no longer visible
	invisible invisibleHeap
	longPolls []*longPoll
	timer     *time.Timer
}

// newQueue makes an empty queue with the default attributes of SQS.
func newQueue(config queueConfig) *queue {
	q := &queue{
		queueConfig: config,
		modified:    config.created,
		attributes:  map[string]string{},
		messages:    map[uint64]*message{},
	}
	for attribute, limit := range intAttributes {
		q.attributes[attribute] = strconv.Itoa(limit.fallback)
	}
	return q
}

// setState changes the state of m and the counters.
func (q *queue) setState(m *message, to messageState) {
	for _, change := range []struct {
		state messageState
		by    int
	}{{m.state, -1}, {to, 1}} {
		switch change.state {
		case stateInFlight:
			q.inFlight += change.by
		case stateDelayed:
			q.delayed += change.by
		case stateVisible, stateGone:
		}
	}
	m.state = to
}

// insert adds a message that is new to this queue.
func (q *queue) insert(m *message, now time.Time) {
	q.messages[m.Key] = m
	if m.NotBeforeNanos > now.UnixNano() {
		m.visibleAt = time.Unix(0, m.NotBeforeNanos)
		q.setState(m, stateDelayed)
		heap.Push(&q.invisible, m)
		return
	}
	q.makeVisible(m)
}

func (q *queue) makeVisible(m *message) {
	q.setState(m, stateVisible)
	q.visible = append(q.visible, m)
}

// hide makes m invisible until a time, because one receiver has it.
func (q *queue) hide(m *message, until time.Time) {
	m.visibleAt = until
	if m.state == stateInFlight {
		heap.Fix(&q.invisible, m.heapIndex)
		return
	}
	q.setState(m, stateInFlight)
	heap.Push(&q.invisible, m)
}

// remove deletes m.
func (q *queue) remove(m *message) {
	if m.state == stateDelayed || m.state == stateInFlight {
		heap.Remove(&q.invisible, m.heapIndex)
	}
	delete(q.messages, m.Key)
	q.setState(m, stateGone)
}

// clear deletes all messages.
func (q *queue) clear() {
	for _, m := range q.messages {
		m.state = stateGone
	}
	q.messages = map[uint64]*message{}
	q.visible, q.invisible = nil, nil
	q.inFlight, q.delayed = 0, 0
}

// counts returns how many messages are visible, in flight and delayed.
func (q *queue) counts() (visible, inFlight, delayed int) {
	return len(q.messages) - q.inFlight - q.delayed, q.inFlight, q.delayed
}

// full reports whether too many messages are in flight to deliver another.
func (q *queue) full() bool { return q.inFlight >= q.maxInFlight }

// inSendOrder lists all messages, the oldest first.
func (q *queue) inSendOrder() []*message {
	return slices.SortedFunc(maps.Values(q.messages), func(a, b *message) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
}

// expired reports whether m is older than the queue's retention period.
func (q *queue) expired(m *message, now time.Time) bool {
	return now.UnixMilli()-m.SentMillis >= int64(q.intAttribute("MessageRetentionPeriod"))*1000
}

// processDue makes due messages visible, serves the long polls and sets the timer
// for the next due message. Every operation that reads or changes a queue calls it.
func (q *queue) processDue(now time.Time) {
	for len(q.invisible) > 0 && !q.invisible[0].visibleAt.After(now) {
		m := heap.Pop(&q.invisible).(*message)
		switch {
		case q.expired(m, now):
			q.setState(m, stateVisible) // no longer in the heap
			q.remove(m)
		case m.state == stateInFlight && q.redrive != nil && m.receiveCount >= q.redrive.maxReceiveCount && q.deadLetter(m, now):
		default:
			q.makeVisible(m)
		}
	}
	for len(q.longPolls) > 0 {
		poll := q.longPolls[0]
		poll.deliveries = q.receive(now, poll.options)
		if len(poll.deliveries) == 0 {
			break
		}
		q.longPolls = q.longPolls[1:]
		close(poll.done)
	}
	if len(q.invisible) == 0 {
		return // a timer that is still set will find nothing due
	}
	next := max(q.invisible[0].visibleAt.Sub(now), time.Millisecond)
	if q.timer == nil {
		q.timer = time.AfterFunc(next, func() { q.timerFired(q) })
		return
	}
	q.timer.Reset(next)
}

// deadLetter moves m, which has left the heap, to the dead-letter queue.
func (q *queue) deadLetter(m *message, now time.Time) bool {
	q.setState(m, stateVisible)
	return q.moveToDLQ(q, m, now)
}

// stop ends the long polls and stops the timer.
func (q *queue) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, poll := range q.longPolls {
		close(poll.done)
	}
	q.longPolls = nil
}

// invisibleHeap is a heap of invisible messages, the first to become visible on top.
type invisibleHeap []*message

func (h invisibleHeap) Len() int           { return len(h) }
func (h invisibleHeap) Less(a, b int) bool { return h[a].visibleAt.Before(h[b].visibleAt) }
func (h invisibleHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].heapIndex, h[b].heapIndex = a, b
}

// Push appends a message; container/heap calls it.
func (h *invisibleHeap) Push(m any) {
	m.(*message).heapIndex = len(*h)
	*h = append(*h, m.(*message))
}

// Pop removes the last message; container/heap calls it.
func (h *invisibleHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}
