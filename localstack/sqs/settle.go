package sqs

import (
	"errors"
	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
	"regexp"
)

func (s *Server) deleteMessage(c *call, in *wire.OneReceipt) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &wire.Nothing{}, s.deleteOne(c, q, in.Receipt)
}

func (s *Server) deleteMessageBatch(c *call, in *wire.Receipts) (*wire.BatchReply[wire.Done], error) {
	return s.settleBatch(c, in, s.deleteOne)
}

// deleteOne deletes what the latest receipt names. A handle that is void
// deletes nothing and is not an error: the message will be delivered again, or
// is gone already.
func (s *Server) deleteOne(c *call, q *queue.Queue, r wire.Receipt) error {
	m, err := q.Held(r.ReceiptHandle)
	if err != nil || m == nil {
		return err
	}
	if q.FIFO && m.State != queue.InFlight {
		return wire.BadParameter("Value %s for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.", r.ReceiptHandle)
	}
	if err := s.keep(record{Op: opDelete, Queue: q.Name, Keys: []uint64{m.Key}}); err != nil {
		return err
	}
	q.Remove(m)
	q.Settle(c.now) // a message group may be free now
	return nil
}

func (s *Server) changeVisibility(c *call, in *wire.OneReceipt) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &wire.Nothing{}, s.changeOne(c, q, in.Receipt)
}

func (s *Server) changeVisibilityBatch(c *call, in *wire.Receipts) (*wire.BatchReply[wire.Done], error) {
	return s.settleBatch(c, in, s.changeOne)
}

// changeOne lets a delivery end at another moment, counted from now.
func (s *Server) changeOne(c *call, q *queue.Queue, r wire.Receipt) error {
	// The SDK leaves a visibility of zero out of single requests.
	visibility, err := queue.Within("VisibilityTimeout", r.VisibilityTimeout, 0, 0, queue.MaxVisibility)
	if err != nil {
		return err
	}
	m, err := q.Held(r.ReceiptHandle)
	if err != nil {
		return err
	}
	if m == nil {
		return wire.BadParameter("Value %s for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.", r.ReceiptHandle)
	}
	if m.State != queue.InFlight {
		return wire.NotInFlight()
	}
	q.Hide(m, c.now.Add(queue.Seconds(visibility)))
	q.Settle(c.now)
	return nil
}

// settleBatch does one thing for each receipt of a batch.
func (s *Server) settleBatch(c *call, in *wire.Receipts, do func(*call, *queue.Queue, wire.Receipt) error) (*wire.BatchReply[wire.Done], error) {
	q, err := s.find(c, in.QueueURL)
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
	reply := &wire.BatchReply[wire.Done]{Successful: []wire.Done{}, Failed: []wire.Failure{}}
	for _, e := range in.Entries {
		if err := do(c, q, e); err != nil {
			reply.Failed = append(reply.Failed, failure(e.ID, err))
			continue
		}
		reply.Successful = append(reply.Successful, wire.Done{ID: e.ID})
	}
	return reply, nil
}

var entryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// checkBatch holds a batch to the rules that all batches share.
func checkBatch(ids []string) error {
	if len(ids) == 0 {
		return wire.EmptyBatch()
	}
	if len(ids) > 10 {
		return wire.TooManyEntries(len(ids))
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if !entryID.MatchString(id) {
			return wire.BadEntryID(id)
		}
		if seen[id] {
			return wire.IDsNotDistinct(id)
		}
		seen[id] = true
	}
	return nil
}

// failure reports an error on one entry of a batch.
func failure(id string, err error) wire.Failure {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		refused = wire.Internal(err)
	}
	return wire.Failure{ID: id, Code: refused.Code, Message: refused.Message, SenderFault: refused.SenderFault()}
}
