package sqs

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

func (s *Server) sendMessage(c *call, in *sendMessageRequest) (*sendMessageResult, error) {
	q, err := s.findOrCreateQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	m, err := q.newMessage(&in.sendMessageEntry, c.now)
	if err != nil {
		return nil, err
	}
	c.payloadBytes = m.size()
	reply, err := s.enqueue(q, []*message{m}, c.now)
	if err != nil {
		return nil, err
	}
	return &reply[0], nil
}

func (s *Server) sendMessageBatch(c *call, in *sendMessageBatchRequest) (*batchResult[sendMessageResult], error) {
	q, err := s.findOrCreateQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(in.Entries))
	for i, e := range in.Entries {
		ids[i] = e.ID
	}
	if err := validateBatch(ids); err != nil {
		return nil, err
	}
	reply := &batchResult[sendMessageResult]{Successful: []sendMessageResult{}, Failed: []batchErrorEntry{}}
	var accepted []*message
	var acceptedIDs []string
	for i := range in.Entries {
		m, err := q.newMessage(&in.Entries[i], c.now)
		if err != nil {
			reply.Failed = append(reply.Failed, batchError(ids[i], err))
			continue
		}
		accepted, acceptedIDs = append(accepted, m), append(acceptedIDs, ids[i])
		c.payloadBytes += m.size()
	}
	if c.payloadBytes > maxMessageBytes {
		return nil, batchRequestTooLong(c.payloadBytes, maxMessageBytes)
	}
	if len(accepted) == 0 {
		return reply, nil
	}
	sent, err := s.enqueue(q, accepted, c.now)
	if err != nil {
		return nil, err
	}
	for i := range sent {
		sent[i].ID = acceptedIDs[i]
	}
	reply.Successful = append(reply.Successful, sent...)
	return reply, nil
}

// enqueue puts accepted messages into the queue in one record of the log: all of
// them or none.
func (s *Server) enqueue(q *queue, accepted []*message, now time.Time) ([]sendMessageResult, error) {
	var stored []*message // with the copies that a fault makes
	sent := make([]sendMessageResult, len(accepted))
	for i, m := range accepted {
		s.lastKey++
		m.Key = s.lastKey
		sent[i] = m.sendResult()
		stored = append(stored, m)
		if s.faults.duplicate(q.name) {
			duplicate := &message{storedMessage: m.storedMessage}
			s.lastKey++
			duplicate.Key = s.lastKey
			stored = append(stored, duplicate)
		}
	}
	for _, m := range stored {
		if extra := s.faults.delay(q.name); extra > 0 {
			m.NotBeforeNanos = max(m.NotBeforeNanos, now.UnixNano()) + int64(extra)
		}
	}
	if err := s.appendRecord(walRecord{Op: opSendMessages, Queue: q.name, Messages: storedMessages(stored)}); err != nil {
		return nil, err
	}
	for _, m := range stored {
		q.insert(m, now)
	}
	q.processDue(now)
	return sent, nil
}

// newMessage checks one entry against the queue's limits and makes a message that is
// not yet in the queue.
func (q *queue) newMessage(in *sendMessageEntry, now time.Time) (*message, error) {
	if in.MessageBody == nil || *in.MessageBody == "" {
		return nil, missingParameter("MessageBody")
	}
	if i := strings.IndexFunc(*in.MessageBody, isForbiddenRune); i >= 0 {
		return nil, invalidMessageContents([]rune((*in.MessageBody)[i:])[0])
	}
	delay, err := intInRange("DelaySeconds", in.DelaySeconds, q.intAttribute("DelaySeconds"), 0, 900)
	if err != nil {
		return nil, err
	}
	if err := validateMessageAttributes(in.MessageAttributes); err != nil {
		return nil, err
	}
	m := &message{storedMessage: storedMessage{
		ID:         uuid.NewString(),
		Body:       *in.MessageBody,
		Attributes: in.MessageAttributes,
		GroupID:    in.MessageGroupID,
		SentMillis: now.UnixMilli(),
	}}
	if delay > 0 {
		m.NotBeforeNanos = now.Add(seconds(delay)).UnixNano()
	}
	if limit := q.intAttribute("MaximumMessageSize"); m.size() > limit {
		return nil, invalidParameterValue("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", limit)
	}
	return m, nil
}

// isForbiddenRune reports whether a message must not contain the character.
func isForbiddenRune(r rune) bool {
	return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}

func validateMessageAttributes(attributes map[string]messageAttribute) error {
	if len(attributes) > 10 {
		return invalidParameterValue("Number of message attributes [%d] exceeds the allowed maximum [10].", len(attributes))
	}
	for name, a := range attributes {
		kind, _, _ := strings.Cut(a.DataType, ".")
		text := a.StringValue != nil && *a.StringValue != ""
		valid := kind == "Binary" && len(a.BinaryValue) > 0 && !text ||
			(kind == "String" || kind == "Number") && text && len(a.BinaryValue) == 0
		if !valid || name == "" || len(name) > 256 || len(a.DataType) > 256 {
			return invalidParameterValue("The message attribute %q must have a name, a type (String, Number, Binary) and one non-empty value of that type.", name)
		}
	}
	return nil
}

// intInRange checks an optional number of a request; fallback is its default.
func intInRange(field string, given *int, fallback, minimum, maximum int) (int, error) {
	if given == nil {
		return fallback, nil
	}
	if *given < minimum || *given > maximum {
		return 0, invalidParameterValue("Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", *given, field, minimum, maximum)
	}
	return *given, nil
}

// seconds converts from the protocol's unit.
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
