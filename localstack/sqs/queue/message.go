package queue

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// Stored is the part of a message that never changes, as the journal keeps it.
type Stored struct {
	Key        uint64                    `json:"k"` // unique on the server, in order of sending
	ID         string                    `json:"i"` // shared by copies that a fault made
	Body       string                    `json:"b"`
	Attributes map[string]wire.Attribute `json:"a,omitempty"`
	Trace      map[string]wire.Attribute `json:"t,omitempty"` // AWSTraceHeader
	Group      string                    `json:"g,omitempty"`
	Dedup      string                    `json:"d,omitempty"`
	Sent       int64                     `json:"s"`           // Unix milliseconds
	NotBefore  int64                     `json:"n,omitempty"` // Unix nanoseconds, for delayed messages
	Source     string                    `json:"o,omitempty"` // ARN of the queue that dead-lettered it
}

// State says where a message is in its life.
type State int

// The states of a message.
const (
	Gone     State = iota // deleted, purged, expired or moved
	Ready                 // visible
	Delayed               // sent, not yet visible
	InFlight              // received, invisible for now
)

// Message is one copy of a message in one queue.
type Message struct {
	Stored
	State    State
	at       time.Time // when it becomes visible, if delayed or in flight
	index    int       // its place in the queue's heap, then
	Receives int
	First    time.Time // received first
}

// Size is what counts against limits and what is billed.
func (m *Message) Size() int {
	size := len(m.Body)
	for name, a := range m.Attributes {
		size += a.Size(name)
	}
	return size
}

// sequence is the SequenceNumber of a message in a FIFO queue.
func (m *Message) sequence() string {
	digits := strconv.FormatUint(m.Key, 10)
	return strings.Repeat("0", max(0, 20-len(digits))) + digits
}

// Receipt is what the sender of the message is told.
func (m *Message) Receipt(q *Queue) wire.Sent {
	reply := wire.Sent{
		MessageID:     m.ID,
		BodySum:       wire.BodySum(m.Body),
		AttributesSum: wire.AttributesSum(m.Attributes),
		SystemSum:     wire.AttributesSum(m.Trace),
	}
	if q.FIFO {
		reply.SequenceNumber = m.sequence()
	}
	return reply
}

// handle names the latest delivery of m: a later one makes it void, and so does
// a restart, because receives are then counted anew.
func (q *Queue) handle(m *Message) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{
		q.Boot, strconv.FormatUint(m.Key, 36), strconv.Itoa(m.Receives), q.Name,
	}, " ")))
}

// Held finds the message that a receipt handle names; nil if the handle is not
// the latest or the message has gone.
func (q *Queue) Held(handle string) (*Message, error) {
	if handle == "" {
		return nil, wire.Missing("ReceiptHandle")
	}
	text, err := base64.RawURLEncoding.DecodeString(handle)
	if err != nil {
		return nil, wire.BadReceipt()
	}
	part := strings.Split(string(text), " ")
	if len(part) != 4 || part[3] != q.Name {
		return nil, wire.BadReceipt()
	}
	key, err := strconv.ParseUint(part[1], 36, 64)
	if err != nil {
		return nil, wire.BadReceipt()
	}
	m := q.messages[key]
	if m == nil || part[0] != q.Boot || part[2] != strconv.Itoa(m.Receives) {
		return nil, nil
	}
	return m, nil
}
