package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// repeatWindow is how long a FIFO queue remembers what it was sent.
const repeatWindow = 5 * time.Minute

// repeat is what was answered to a message, to be answered to its repetition.
type repeat struct {
	sent wire.Sent
	at   time.Time
}

// acceptOrder checks and sets what a FIFO queue needs: a group, and an id by
// which repetitions are known. A standard queue may have a group, which there
// only names a tenant and orders nothing.
func (q *Queue) acceptOrder(in *wire.SendEntry, m *Message) error {
	if in.MessageDeduplicationID != nil {
		m.Dedup = *in.MessageDeduplicationID
	}
	if !q.FIFO {
		if m.Dedup != "" {
			return wire.BadParameter("Value %s for parameter MessageDeduplicationId is invalid. Reason: The queue is not a FIFO queue.", m.Dedup)
		}
		return nil
	}
	if m.Group == "" {
		return wire.Missing("MessageGroupId")
	}
	if m.Dedup != "" {
		return nil
	}
	if q.Attributes["ContentBasedDeduplication"] != "true" {
		return wire.BadParameter("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly.")
	}
	sum := sha256.Sum256([]byte(m.Body))
	m.Dedup = hex.EncodeToString(sum[:])
	return nil
}

// repeatKey is what must be equal for a message to be a repetition.
func (q *Queue) repeatKey(m *Message) string {
	if q.Attributes["DeduplicationScope"] == "messageGroup" {
		return m.Group + "\x00" + m.Dedup
	}
	return m.Dedup
}

// Repeated remembers m, or answers what was answered to an equal message that
// was sent less than five minutes ago, whether or not it is still there. A
// restart keeps this memory for the messages that are still there.
func (q *Queue) Repeated(m *Message, sent wire.Sent, now time.Time) (wire.Sent, bool) {
	key := q.repeatKey(m)
	if earlier, ok := q.repeats[key]; ok && now.Sub(earlier.at) < repeatWindow {
		return earlier.sent, true
	}
	if len(q.repeats) >= 2*len(q.messages)+1000 { // seldom enough to cost nothing
		for k, r := range q.repeats {
			if now.Sub(r.at) >= repeatWindow {
				delete(q.repeats, k)
			}
		}
	}
	q.repeats[key] = repeat{sent, now}
	return wire.Sent{}, false
}

// Remember restores, after a restart, what Repeated knew of the messages that
// are still there.
func (q *Queue) Remember(now time.Time) {
	if !q.FIFO {
		return
	}
	for _, m := range q.ordered {
		if at := time.UnixMilli(m.Sent); now.Sub(at) < repeatWindow {
			q.repeats[q.repeatKey(m)] = repeat{m.Receipt(q), at}
		}
	}
}

// Forget undoes what Repeated remembered of m, which was not stored after all.
func (q *Queue) Forget(m *Message) { delete(q.repeats, q.repeatKey(m)) }

// openGroups walks the messages that can be delivered now, in order. A group
// with a message in flight gives nothing until that is deleted or visible again,
// and a delayed message holds up its group; one receive may get several
// messages of one group. The cost is linear in the queue's length: nothing in
// the product is long and FIFO.
func (q *Queue) openGroups() func() *Message {
	blocked := map[string]bool{}
	for _, m := range q.ordered {
		if m.State == InFlight {
			blocked[m.Group] = true
		}
	}
	var open []*Message
	for _, m := range q.ordered {
		if m.State != Ready {
			blocked[m.Group] = true
		}
		if !blocked[m.Group] {
			open = append(open, m)
		}
	}
	return func() *Message {
		if len(open) == 0 {
			return nil
		}
		m := open[0]
		open = open[1:]
		return m
	}
}
