package sqs

import (
	"path"
	"regexp"
	"time"
)

var queueNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

func (s *Server) queueURL(c *call, q *queue) string {
	return c.baseURL + "/" + s.options.Account + "/" + q.name
}

// findQueue finds the queue of a URL. Only the last part of the URL counts, because clients reach
// the server under several hosts.
func (s *Server) findQueue(c *call, url string) (*queue, error) {
	if url == "" {
		return nil, missingParameter("QueueUrl")
	}
	name := path.Base(url)
	q := s.queues[name]
	if q == nil {
		return nil, queueDoesNotExist(name)
	}
	c.queueName = name
	return q, nil
}

// findOrCreateQueue finds a queue, or creates it if AutoCreate allows that.
func (s *Server) findOrCreateQueue(c *call, url string) (*queue, error) {
	q, err := s.findQueue(c, url)
	if q != nil || url == "" || s.options.AutoCreate == nil {
		return q, err
	}
	name := path.Base(url)
	attributes, ok := s.options.AutoCreate(name)
	if !ok {
		return nil, err
	}
	if value := attributes["RedrivePolicy"]; value != "" {
		policy, err := parseRedrivePolicy(value)
		if err != nil {
			return nil, err
		}
		if _, err := s.findOrCreateQueue(c, queueNameFromARN(policy.targetARN)); err != nil {
			return nil, err
		}
	}
	c.queueName = name
	return s.addQueue(name, attributes, c.now)
}

// openQueue makes an empty queue that is not yet registered.
func (s *Server) openQueue(name string, created time.Time) *queue {
	return newQueue(queueConfig{
		name:        name,
		arn:         "arn:aws:sqs:" + s.options.Region + ":" + s.options.Account + ":" + name,
		created:     created,
		instanceID:  s.instanceID,
		senderID:    s.options.Account,
		maxInFlight: s.options.MaxInFlight,
		faults:      &s.faults,
		moveToDLQ:   s.moveToDLQ,
		timerFired:  s.timerFired,
	})
}

// timerFired processes a queue whose timer has fired.
func (s *Server) timerFired(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.queues[q.name] == q {
		q.processDue(s.options.Clock())
	}
}

func (s *Server) addQueue(name string, attributes map[string]string, now time.Time) (*queue, error) {
	if !queueNamePattern.MatchString(name) {
		return nil, invalidParameterValue("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.")
	}
	if err := validateAttributes(attributes); err != nil {
		return nil, err
	}
	if existing := s.queues[name]; existing != nil {
		for attribute, value := range attributes {
			if existing.attributes[attribute] != value {
				return nil, queueNameExists(name, attribute)
			}
		}
		return existing, nil
	}
	q := s.openQueue(name, now)
	if err := s.applyAttributes(q, attributes); err != nil {
		return nil, err
	}
	if err := s.appendRecord(queueRecord(q)); err != nil {
		return nil, err
	}
	s.queues[name] = q
	return q, nil
}

func (s *Server) createQueue(c *call, in *queueRequest) (*queueURLResult, error) {
	c.queueName = in.QueueName
	q, err := s.addQueue(in.QueueName, in.Attributes, c.now)
	if err != nil {
		return nil, err
	}
	return &queueURLResult{QueueURL: s.queueURL(c, q)}, nil
}

func (s *Server) deleteQueue(c *call, in *queueRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := s.appendRecord(walRecord{Op: opDeleteQueue, Queue: q.name}); err != nil {
		return nil, err
	}
	delete(s.queues, q.name)
	q.clear()
	q.stop()
	return &emptyResult{}, nil
}

func (s *Server) getQueueURL(c *call, in *queueRequest) (*queueURLResult, error) {
	if in.QueueName == "" {
		return nil, missingParameter("QueueName")
	}
	q, err := s.findOrCreateQueue(c, in.QueueName)
	if err != nil {
		return nil, err
	}
	return &queueURLResult{QueueURL: s.queueURL(c, q)}, nil
}
