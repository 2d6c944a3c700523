package sqs

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// storedMessage is the part of a message that never changes, as the log keeps it.
type storedMessage struct {
	Key            uint64                      `json:"key"` // unique on the server, in the order of sending
	ID             string                      `json:"id"`  // shared by the copies that a fault makes
	Body           string                      `json:"body"`
	Attributes     map[string]messageAttribute `json:"attributes,omitempty"`
	GroupID        string                      `json:"groupId,omitempty"`
	SentMillis     int64                       `json:"sentMillis"`               // Unix milliseconds
	NotBeforeNanos int64                       `json:"notBeforeNanos,omitempty"` // Unix nanoseconds; only of delayed messages
	SourceARN      string                      `json:"sourceArn,omitempty"`      // ARN of the queue that dead-lettered it
}

type messageState int

const (
	stateGone     messageState = iota // deleted, expired or dead-lettered
	stateVisible                      // can be received
	stateDelayed                      // sent, not yet visible
	stateInFlight                     // received, invisible until its timeout ends
)

// message is one copy of a message in one queue.
type message struct {
	storedMessage
	state           messageState
	visibleAt       time.Time // if delayed or in flight: when it becomes visible
	heapIndex       int       // if delayed or in flight: its index in the queue's heap
	receiveCount    int
	firstReceivedAt time.Time
	receivedAt      time.Time // if in flight: when it was received last
}

// size returns the number of bytes that count against limits and are billed.
func (m *message) size() int {
	size := len(m.Body)
	for name, a := range m.Attributes {
		size += a.size(name)
	}
	return size
}

// sendResult returns the reply to the sender of the message.
func (m *message) sendResult() sendMessageResult {
	return sendMessageResult{MessageID: m.ID, BodyMD5: bodyMD5(m.Body), AttributesMD5: attributesMD5(m.Attributes)}
}

// receiptHandle returns the handle of the latest delivery of m. A later delivery makes it void, and
// so does a restart, because receives are then counted from zero.
func (q *queue) receiptHandle(m *message) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{
		q.instanceID, strconv.FormatUint(m.Key, 36), strconv.Itoa(m.receiveCount), q.name,
	}, " ")))
}

// findByReceipt finds the message of a receipt handle. It returns nil if the handle
// is not the latest or the message is gone.
func (q *queue) findByReceipt(handle string) (*message, error) {
	if handle == "" {
		return nil, missingParameter("ReceiptHandle")
	}
	text, err := base64.RawURLEncoding.DecodeString(handle)
	if err != nil {
		return nil, receiptHandleIsInvalid()
	}
	parts := strings.Split(string(text), " ")
	if len(parts) != 4 || parts[3] != q.name {
		return nil, receiptHandleIsInvalid()
	}
	key, err := strconv.ParseUint(parts[1], 36, 64)
	if err != nil {
		return nil, receiptHandleIsInvalid()
	}
	m := q.messages[key]
	if m == nil || parts[0] != q.instanceID || parts[2] != strconv.Itoa(m.receiveCount) {
		return nil, nil
	}
	return m, nil
}

func (a messageAttribute) isBinary() bool {
	return a.DataType == "Binary" || strings.HasPrefix(a.DataType, "Binary.")
}

// size returns the number of bytes that the attribute adds to its message, including its name.
func (a messageAttribute) size(name string) int {
	size := len(name) + len(a.DataType) + len(a.BinaryValue)
	if a.StringValue != nil {
		size += len(*a.StringValue)
	}
	return size
}

// bodyMD5 returns the MD5 of a body; the SDK rejects a reply with another sum.
func bodyMD5(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// attributesMD5 returns the MD5 of attributes in the service's canonical form: sorted by name, each
// as name, type, one byte for the kind of value (1 text, 2 binary) and value, with four-byte
// big-endian lengths. It is "" if there are no attributes.
func attributesMD5(attributes map[string]messageAttribute) string {
	if len(attributes) == 0 {
		return ""
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var canonical []byte
	field := func(value string) {
		canonical = binary.BigEndian.AppendUint32(canonical, uint32(len(value)))
		canonical = append(canonical, value...)
	}
	for _, name := range names {
		a := attributes[name]
		field(name)
		field(a.DataType)
		if a.isBinary() {
			canonical = append(canonical, 2)
			field(string(a.BinaryValue))
		} else {
			canonical = append(canonical, 1)
			field(*a.StringValue)
		}
	}
	sum := md5.Sum(canonical)
	return hex.EncodeToString(sum[:])
}
