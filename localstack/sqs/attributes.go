package sqs

import (
	"slices"

	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

func (s *Server) setAttributes(c *call, in *wire.Queue) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := q.Check(in.Attributes); err != nil {
		return nil, err
	}
	if err := s.set(q, in.Attributes); err != nil {
		return nil, err
	}
	q.Modified = c.now
	q.Settle(c.now)
	return &wire.Nothing{}, s.keep(described(q))
}

func (s *Server) getAttributes(c *call, in *wire.Queue) (*wire.Attributes, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	q.Settle(c.now)
	all := q.Describe()
	if slices.Contains(in.AttributeNames, "All") {
		return &wire.Attributes{Attributes: all}, nil
	}
	reply := &wire.Attributes{Attributes: map[string]string{}}
	for _, name := range in.AttributeNames {
		if value, isSet := all[name]; isSet {
			reply.Attributes[name] = value
		} else if !queue.Known(name) {
			return nil, wire.UnknownAttribute(name)
		}
	}
	return reply, nil
}

// set applies checked attributes. A dead-letter queue must be there, and of the
// same kind.
func (s *Server) set(q *queue.Queue, attributes map[string]string) error {
	if value := attributes["RedrivePolicy"]; value != "" {
		policy, err := queue.ParseRedrive(value)
		if err != nil {
			return err
		}
		if to := s.byARN(policy.Target); to == nil || to.FIFO != q.FIFO {
			return wire.BadAttribute("RedrivePolicy", value, "there is no such dead-letter queue of the same kind")
		}
	}
	return q.Set(attributes)
}
