package sqs

import (
	"container/heap"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// queueConfig is what a queue is born with.
type queueConfig struct {
	name        string
	arn         string
	created     time.Time
	instanceID  string // a mark in receipt handles: those of an earlier process are void
	senderID    string // shown as SenderId
	maxInFlight int
	faults      *faultInjector
	// moveToDLQ takes a message away that was received as often as Redrive allows,
	// by calling Remove; false leaves it here. nil never does.
	moveToDLQ func(q *queue, m *message, now time.Time) bool
	// timerFired is called by a timer, in its own goroutine, when the queue has to be
	// settled. nil leaves that to the next operation.
	timerFired func(q *queue)
}

// queue is one queue. Every message is in messages; besides, a visible one is in
// ready (standard queues), and an invisible one is in hidden. A fifo queue keeps
// all of its messages in order instead of ready.
type queue struct {
	queueConfig
	fifo       bool
	modified   time.Time
	attributes map[string]string // those that can be set, defaults included
	tags       map[string]string
	redrive    *redrivePolicy // parsed from the attribute RedrivePolicy

	messages     map[uint64]*message
	inFlight     int
	delayed      int
	visible      []*message // oldest first; those that have gone are skipped
	ordered      []*message
	invisible    invisibleHeap
	longPolls    []*longPoll
	timer        *time.Timer
	dedupEntries map[string]dedupEntry // fifo: what was sent in the last minutes
}

// newQueue makes an empty queue with the service's default attributes. A name with
// .fifo behind makes a fifo queue.
func newQueue(config queueConfig) *queue {
	q := &queue{
		queueConfig:  config,
		fifo:         strings.HasSuffix(config.name, ".fifo"),
		modified:     config.created,
		attributes:   map[string]string{},
		tags:         map[string]string{},
		messages:     map[uint64]*message{},
		dedupEntries: map[string]dedupEntry{},
	}
	for attribute, limit := range intAttributes {
		q.attributes[attribute] = strconv.Itoa(limit.normal)
	}
	if q.fifo {
		maps.Copy(q.attributes, map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "false", "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"})
	}
	return q
}

// setState moves m to a state and keeps the counts true.
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
	if q.fifo {
		q.ordered = append(q.ordered, m)
	}
	if m.NotBeforeNanos > now.UnixNano() {
		m.visibleAt = time.Unix(0, m.NotBeforeNanos)
		q.setState(m, stateDelayed)
		heap.Push(&q.invisible, m)
		return
	}
	q.makeVisible(m)
}

// makeVisible makes m visible.
func (q *queue) makeVisible(m *message) {
	q.setState(m, stateVisible)
	if !q.fifo {
		q.visible = append(q.visible, m)
	}
}

// hide makes m invisible to everybody but its receiver, until a moment.
func (q *queue) hide(m *message, until time.Time) {
	m.visibleAt = until
	if m.state == stateInFlight {
		heap.Fix(&q.invisible, m.heapIndex)
		return
	}
	q.setState(m, stateInFlight)
	heap.Push(&q.invisible, m)
}

// remove forgets m.
func (q *queue) remove(m *message) {
	if m.state == stateDelayed || m.state == stateInFlight {
		heap.Remove(&q.invisible, m.heapIndex)
	}
	delete(q.messages, m.Key)
	if q.fifo {
		if i := slices.Index(q.ordered, m); i >= 0 {
			q.ordered = slices.Delete(q.ordered, i, i+1)
		}
	}
	q.setState(m, stateGone)
}

// purge forgets all messages.
func (q *queue) purge() {
	for _, m := range q.messages {
		m.state = stateGone
	}
	q.messages = map[uint64]*message{}
	q.visible, q.ordered, q.invisible = nil, nil, nil
	q.inFlight, q.delayed = 0, 0
}

// counts tells how many messages are visible, in flight, and delayed.
func (q *queue) counts() (visible, inFlight, delayed int) {
	return len(q.messages) - q.inFlight - q.delayed, q.inFlight, q.delayed
}

// message finds a message by its key; nil if it has gone.
func (q *queue) message(key uint64) *message { return q.messages[key] }

// size tells how many messages there are.
func (q *queue) size() int { return len(q.messages) }

// full tells whether too many messages are in flight to deliver another.
func (q *queue) full() bool { return q.inFlight >= q.maxInFlight }

// inSendOrder lists all messages by age.
func (q *queue) inSendOrder() []*message {
	return slices.SortedFunc(maps.Values(q.messages), func(a, b *message) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
}

// expired tells whether m is older than the queue keeps messages.
func (q *queue) expired(m *message, now time.Time) bool {
	return now.UnixMilli()-m.SentMillis >= int64(q.intAttribute("MessageRetentionPeriod"))*1000
}

// processDue brings q up to now: what is due becomes visible, whoever waits for it
// is served, and the timer is set for what comes next. Every operation that
// looks at a queue or changes it calls Settle.
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
		w := q.longPolls[0]
		w.deliveries = q.receive(now, w.options)
		if len(w.deliveries) == 0 {
			break
		}
		q.longPolls = q.longPolls[1:]
		close(w.done)
	}
	if len(q.invisible) == 0 || q.timerFired == nil {
		return // a timer that still runs finds nothing to do
	}
	next := max(q.invisible[0].visibleAt.Sub(now), time.Millisecond)
	if q.timer == nil {
		q.timer = time.AfterFunc(next, func() { q.timerFired(q) })
		return
	}
	q.timer.Reset(next)
}

// deadLetter offers m, which is no longer hidden, to its grave.
func (q *queue) deadLetter(m *message, now time.Time) bool {
	q.setState(m, stateVisible)
	return q.moveToDLQ != nil && q.moveToDLQ(q, m, now)
}

// stop sends everybody away who waits, and stops the timer.
func (q *queue) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, w := range q.longPolls {
		close(w.done)
	}
	q.longPolls = nil
}

// invisibleHeap is a heap of invisible messages, the one that comes back first on top.
type invisibleHeap []*message

func (h invisibleHeap) Len() int           { return len(h) }
func (h invisibleHeap) Less(a, b int) bool { return h[a].visibleAt.Before(h[b].visibleAt) }
func (h invisibleHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].heapIndex, h[b].heapIndex = a, b
}

// Push and Pop are for container/heap.
func (h *invisibleHeap) Push(m any) {
	m.(*message).heapIndex = len(*h)
	*h = append(*h, m.(*message))
}

// Pop removes the last message of the slice.
func (h *invisibleHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}
