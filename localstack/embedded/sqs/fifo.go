package sqs

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// dedupInterval is how long a fifo queue remembers what it was sent.
const dedupInterval = 5 * time.Minute

// dedupEntry is what was answered to a message, to be answered to its repetition.
type dedupEntry struct {
	result sendMessageResult
	at     time.Time
}

// validateFIFO checks and sets what a fifo queue needs: a group, and an id by
// which repetitions are known. A standard queue may have a group, which there
// only names a tenant and orders nothing.
func (q *queue) validateFIFO(in *sendMessageEntry, m *message) error {
	if in.MessageDeduplicationID != nil {
		m.DedupID = *in.MessageDeduplicationID
	}
	if !q.fifo {
		if m.DedupID != "" {
			return invalidParameterValue("Value %s for parameter MessageDeduplicationId is invalid. Reason: The queue is not a FIFO queue.", m.DedupID)
		}
		return nil
	}
	if m.GroupID == "" {
		return missingParameter("MessageGroupId")
	}
	if m.DedupID != "" {
		return nil
	}
	if q.attributes["ContentBasedDeduplication"] != "true" {
		return invalidParameterValue("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly.")
	}
	sum := sha256.Sum256([]byte(m.Body))
	m.DedupID = hex.EncodeToString(sum[:])
	return nil
}

// dedupKey is what must be equal for a message to be a repetition.
func (q *queue) dedupKey(m *message) string {
	if q.attributes["DeduplicationScope"] == "messageGroup" {
		return m.GroupID + "\x00" + m.DedupID
	}
	return m.DedupID
}

// deduplicate remembers m, or answers what was answered to an equal message that
// was sent less than five minutes ago, whether or not it is still there. A
// restart keeps this memory for the messages that are still there.
func (q *queue) deduplicate(m *message, sent sendMessageResult, now time.Time) (sendMessageResult, bool) {
	key := q.dedupKey(m)
	if earlier, ok := q.dedupEntries[key]; ok && now.Sub(earlier.at) < dedupInterval {
		return earlier.result, true
	}
	if len(q.dedupEntries) >= 2*len(q.messages)+1000 { // seldom enough to cost nothing
		for k, r := range q.dedupEntries {
			if now.Sub(r.at) >= dedupInterval {
				delete(q.dedupEntries, k)
			}
		}
	}
	q.dedupEntries[key] = dedupEntry{sent, now}
	return sendMessageResult{}, false
}

// restoreDedup restores, after a restart, what Repeated knew of the messages that
// are still there.
func (q *queue) restoreDedup(now time.Time) {
	if !q.fifo {
		return
	}
	for _, m := range q.ordered {
		if at := time.UnixMilli(m.SentMillis); now.Sub(at) < dedupInterval {
			q.dedupEntries[q.dedupKey(m)] = dedupEntry{m.sendResult(q), at}
		}
	}
}

// forgetDedup undoes what Repeated remembered of m, which was not stored after all.
func (q *queue) forgetDedup(m *message) { delete(q.dedupEntries, q.dedupKey(m)) }

// nextInGroups walks the messages that can be delivered now, in order. A group
// with a message in flight gives nothing until that is deleted or visible again,
// and a delayed message holds up its group; one receive may get several
// messages of one group. The cost is linear in the queue's length: nothing in
// the product is long and fifo.
func (q *queue) nextInGroups() func() *message {
	blocked := map[string]bool{}
	for _, m := range q.ordered {
		if m.state == stateInFlight {
			blocked[m.GroupID] = true
		}
	}
	var open []*message
	for _, m := range q.ordered {
		if m.state != stateVisible {
			blocked[m.GroupID] = true
		}
		if !blocked[m.GroupID] {
			open = append(open, m)
		}
	}
	return func() *message {
		if len(open) == 0 {
			return nil
		}
		m := open[0]
		open = open[1:]
		return m
	}
}
