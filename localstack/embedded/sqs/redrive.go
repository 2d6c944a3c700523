package sqs

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// redrivePolicy says which dead-letter queue gets messages that nobody deletes.
type redrivePolicy struct {
	targetARN       string
	maxReceiveCount int
}

// parseRedrivePolicy reads a RedrivePolicy; maxReceiveCount may be a number or text.
func parseRedrivePolicy(value string) (*redrivePolicy, error) {
	var in struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(value), &in); err != nil {
		return nil, invalidAttributeValue("RedrivePolicy", value, err.Error())
	}
	maxReceives, err := strconv.Atoi(strings.Trim(string(in.Max), `"`))
	if err != nil || maxReceives < 1 || maxReceives > 1000 {
		return nil, invalidAttributeValue("RedrivePolicy", value, "maxReceiveCount must be between 1 and 1000")
	}
	if in.Target == "" {
		return nil, invalidAttributeValue("RedrivePolicy", value, "deadLetterTargetArn is missing")
	}
	return &redrivePolicy{in.Target, maxReceives}, nil
}

// queueByARN finds a queue; nil if there is none.
func (s *Server) queueByARN(arn string) *queue {
	if q := s.queues[queueNameFromARN(arn)]; q != nil && q.arn == arn {
		return q
	}
	return nil
}

func queueNameFromARN(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// moveToDLQ moves m, whose last visibility timeout has ended, to the dead-letter
// queue. The message keeps its id, its age and its receive count. If the queue does
// not exist or the log cannot be written, m stays in q.
func (s *Server) moveToDLQ(q *queue, m *message, now time.Time) bool {
	dlq := s.queueByARN(q.redrive.targetARN)
	if dlq == nil {
		return false
	}
	moved := &message{storedMessage: m.storedMessage, receiveCount: m.receiveCount, firstReceivedAt: m.firstReceivedAt}
	moved.SourceARN, moved.NotBeforeNanos = q.arn, 0
	if err := s.appendRecord(walRecord{Op: opMoveMessages, Queue: q.name, Keys: []uint64{m.Key}, To: dlq.name, Messages: storedMessages([]*message{moved})}); err != nil {
		return false
	}
	q.remove(m)
	dlq.insert(moved, now)
	dlq.processDue(now)
	return true
}
