package sqs

import (
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

func (s *Server) sendMessage(c *call, in *wire.SendMessage) (*wire.Sent, error) {
	q, err := s.findOrCreate(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	m, err := q.Accept(&in.SendEntry, c.now)
	if err != nil {
		return nil, err
	}
	c.payload = m.Size()
	reply, err := s.publish(q, []*queue.Message{m}, c.now)
	if err != nil {
		return nil, err
	}
	return &reply[0], nil
}

func (s *Server) sendMessageBatch(c *call, in *wire.SendMessageBatch) (*wire.BatchReply[wire.Sent], error) {
	q, err := s.findOrCreate(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(in.Entries))
	for i, e := range in.Entries {
		ids[i] = e.ID
	}
	if err := checkBatch(ids); err != nil {
		return nil, err
	}
	reply := &wire.BatchReply[wire.Sent]{Successful: []wire.Sent{}, Failed: []wire.Failure{}}
	var accepted []*queue.Message
	var names []string
	for i := range in.Entries {
		m, err := q.Accept(&in.Entries[i], c.now)
		if err != nil {
			reply.Failed = append(reply.Failed, failure(ids[i], err))
			continue
		}
		accepted, names = append(accepted, m), append(names, ids[i])
		c.payload += m.Size()
	}
	if c.payload > queue.MaxMessage {
		return nil, wire.BatchTooLong(c.payload, queue.MaxMessage)
	}
	sent, err := s.publish(q, accepted, c.now)
	if err != nil {
		return nil, err
	}
	for i := range sent {
		sent[i].ID = names[i]
	}
	reply.Successful = append(reply.Successful, sent...)
	return reply, nil
}

// publish puts accepted messages into the queue, in one record of the journal:
// all of them or none. What a FIFO queue has seen already is answered as it was
// then and not stored.
func (s *Server) publish(q *queue.Queue, accepted []*queue.Message, now time.Time) ([]wire.Sent, error) {
	var fresh []*queue.Message
	sent := make([]wire.Sent, len(accepted))
	for i, m := range accepted {
		s.key++
		m.Key = s.key
		sent[i] = m.Receipt(q)
		if q.FIFO {
			if earlier, repeated := q.Repeated(m, sent[i], now); repeated {
				// The sums stay those of what was sent now: the client compares.
				sent[i].MessageID, sent[i].SequenceNumber = earlier.MessageID, earlier.SequenceNumber
				continue
			}
		}
		fresh = append(fresh, m)
		if !q.FIFO && s.faults.Duplicates(q.Name) {
			copied := &queue.Message{Stored: m.Stored}
			s.key++
			copied.Key = s.key
			fresh = append(fresh, copied)
		}
	}
	if len(fresh) == 0 {
		return sent, nil
	}
	for _, m := range fresh {
		if extra := s.faults.Delay(q.Name); extra > 0 {
			m.NotBefore = max(m.NotBefore, now.UnixNano()) + int64(extra)
		}
	}
	if err := s.keep(record{Op: opPut, Queue: q.Name, Messages: storedParts(fresh)}); err != nil {
		for _, m := range fresh {
			q.Forget(m) // a client that tries again must not be told that it is stored
		}
		return nil, err
	}
	for _, m := range fresh {
		q.Insert(m, now)
	}
	q.Settle(now)
	return sent, nil
}
