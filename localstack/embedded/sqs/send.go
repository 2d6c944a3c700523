package sqs

import (
	"time"
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
	var names []string
	for i := range in.Entries {
		m, err := q.newMessage(&in.Entries[i], c.now)
		if err != nil {
			reply.Failed = append(reply.Failed, batchError(ids[i], err))
			continue
		}
		accepted, names = append(accepted, m), append(names, ids[i])
		c.payloadBytes += m.size()
	}
	if c.payloadBytes > maxMessageBytes {
		return nil, batchRequestTooLong(c.payloadBytes, maxMessageBytes)
	}
	sent, err := s.enqueue(q, accepted, c.now)
	if err != nil {
		return nil, err
	}
	for i := range sent {
		sent[i].ID = names[i]
	}
	reply.Successful = append(reply.Successful, sent...)
	return reply, nil
}

// enqueue puts accepted messages into the queue, in one record of the journal:
// all of them or none. What a FIFO queue has seen already is answered as it was
// then and not stored.
func (s *Server) enqueue(q *queue, accepted []*message, now time.Time) ([]sendMessageResult, error) {
	var fresh []*message
	sent := make([]sendMessageResult, len(accepted))
	for i, m := range accepted {
		s.lastKey++
		m.Key = s.lastKey
		sent[i] = m.sendResult(q)
		if q.fifo {
			if earlier, repeated := q.deduplicate(m, sent[i], now); repeated {
				// The sums stay those of what was sent now: the client compares.
				sent[i].MessageID, sent[i].SequenceNumber = earlier.MessageID, earlier.SequenceNumber
				continue
			}
		}
		fresh = append(fresh, m)
		if !q.fifo && s.faults.duplicate(q.name) {
			duplicate := &message{storedMessage: m.storedMessage}
			s.lastKey++
			duplicate.Key = s.lastKey
			fresh = append(fresh, duplicate)
		}
	}
	if len(fresh) == 0 {
		return sent, nil
	}
	for _, m := range fresh {
		if extra := s.faults.delay(q.name); extra > 0 {
			m.NotBeforeNanos = max(m.NotBeforeNanos, now.UnixNano()) + int64(extra)
		}
	}
	if err := s.appendRecord(walRecord{Op: opSendMessages, Queue: q.name, Messages: storedMessages(fresh)}); err != nil {
		for _, m := range fresh {
			q.forgetDedup(m) // a client that tries again must not be told that it is stored
		}
		return nil, err
	}
	for _, m := range fresh {
		q.insert(m, now)
	}
	q.processDue(now)
	return sent, nil
}
