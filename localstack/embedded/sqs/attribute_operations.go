package sqs

import (
	"slices"
)

func (s *Server) setQueueAttributes(c *call, in *queueRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := q.validateAttributes(in.Attributes); err != nil {
		return nil, err
	}
	if err := s.applyAttributes(q, in.Attributes); err != nil {
		return nil, err
	}
	q.modified = c.now
	q.processDue(c.now)
	return &emptyResult{}, s.appendRecord(queueRecord(q))
}

func (s *Server) getQueueAttributes(c *call, in *queueRequest) (*attributesResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	q.processDue(c.now)
	all := q.allAttributes()
	if slices.Contains(in.AttributeNames, "All") {
		return &attributesResult{Attributes: all}, nil
	}
	reply := &attributesResult{Attributes: map[string]string{}}
	for _, name := range in.AttributeNames {
		if value, isSet := all[name]; isSet {
			reply.Attributes[name] = value
		} else if !isKnownAttribute(name) {
			return nil, invalidAttributeName(name)
		}
	}
	return reply, nil
}

// applyAttributes applies checked attributes. A dead-letter queue must be there, and of the
// same kind.
func (s *Server) applyAttributes(q *queue, attributes map[string]string) error {
	if value := attributes["RedrivePolicy"]; value != "" {
		policy, err := parseRedrivePolicy(value)
		if err != nil {
			return err
		}
		if to := s.queueByARN(policy.targetARN); to == nil || to.fifo != q.fifo {
			return invalidAttributeValue("RedrivePolicy", value, "there is no such dead-letter queue of the same kind")
		}
	}
	return q.setAttributes(attributes)
}
