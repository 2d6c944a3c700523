package sqs

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// storedMessage is the part of a message that never changes, as the journal keeps it.
type storedMessage struct {
	Key             uint64                      `json:"key"` // unique on the server, in order of sending
	ID              string                      `json:"id"`  // shared by copies that a fault made
	Body            string                      `json:"body"`
	Attributes      map[string]messageAttribute `json:"attributes,omitempty"`
	TraceAttributes map[string]messageAttribute `json:"traceAttributes,omitempty"` // AWSTraceHeader
	GroupID         string                      `json:"groupId,omitempty"`
	DedupID         string                      `json:"dedupId,omitempty"`
	SentMillis      int64                       `json:"sentMillis"`               // Unix milliseconds
	NotBeforeNanos  int64                       `json:"notBeforeNanos,omitempty"` // Unix nanoseconds, for delayed messages
	SourceARN       string                      `json:"sourceArn,omitempty"`      // arn of the queue that dead-lettered it
}

// messageState says where a message is in its life.
type messageState int

// The states of a message.
const (
	stateGone     messageState = iota // deleted, purged, expired or moved
	stateVisible                      // visible
	stateDelayed                      // sent, not yet visible
	stateInFlight                     // received, invisible for now
)

// message is one copy of a message in one queue.
type message struct {
	storedMessage
	state           messageState
	visibleAt       time.Time // when it becomes visible, if delayed or in flight
	heapIndex       int       // its place in the queue's heap, then
	receiveCount    int
	firstReceivedAt time.Time // received first
}

// size is what counts against limits and what is billed.
func (m *message) size() int {
	size := len(m.Body)
	for name, a := range m.Attributes {
		size += a.size(name)
	}
	return size
}

// sequenceNumber is the SequenceNumber of a message in a fifo queue.
func (m *message) sequenceNumber() string {
	digits := strconv.FormatUint(m.Key, 10)
	return strings.Repeat("0", max(0, 20-len(digits))) + digits
}

// sendResult is what the sender of the message is told.
func (m *message) sendResult(q *queue) sendMessageResult {
	reply := sendMessageResult{
		MessageID:           m.ID,
		BodyMD5:             bodyMD5(m.Body),
		AttributesMD5:       attributesMD5(m.Attributes),
		SystemAttributesMD5: attributesMD5(m.TraceAttributes),
	}
	if q.fifo {
		reply.SequenceNumber = m.sequenceNumber()
	}
	return reply
}

// receiptHandle names the latest delivery of m: a later one makes it void, and so does
// a restart, because receives are then counted anew.
func (q *queue) receiptHandle(m *message) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{
		q.instanceID, strconv.FormatUint(m.Key, 36), strconv.Itoa(m.receiveCount), q.name,
	}, " ")))
}

// findByReceipt finds the message that a receipt handle names; nil if the handle is not
// the latest or the message has gone.
func (q *queue) findByReceipt(handle string) (*message, error) {
	if handle == "" {
		return nil, missingParameter("ReceiptHandle")
	}
	text, err := base64.RawURLEncoding.DecodeString(handle)
	if err != nil {
		return nil, receiptHandleIsInvalid()
	}
	part := strings.Split(string(text), " ")
	if len(part) != 4 || part[3] != q.name {
		return nil, receiptHandleIsInvalid()
	}
	key, err := strconv.ParseUint(part[1], 36, 64)
	if err != nil {
		return nil, receiptHandleIsInvalid()
	}
	m := q.messages[key]
	if m == nil || part[0] != q.instanceID || part[2] != strconv.Itoa(m.receiveCount) {
		return nil, nil
	}
	return m, nil
}
