package sqs

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

var queueNamePattern = regexp.MustCompile(`^([A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)$`)

func (s *Server) queueURL(c *call, q *queue) string {
	return c.baseURL + "/" + s.options.Account + "/" + q.name
}

// findQueue is the queue of a URL, of which only the last part matters: the host may
// be any by which we are reached.
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

// findOrCreateQueue asks AutoCreate for a queue that does not exist.
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
	return s.addQueue(name, attributes, nil, c.now)
}

// openQueue makes an empty queue that the server does not know yet.
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

// timerFired settles a queue whose timer has run out.
func (s *Server) timerFired(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.queues[q.name] == q {
		q.processDue(s.options.Clock())
	}
}

func (s *Server) addQueue(name string, attributes, tags map[string]string, now time.Time) (*queue, error) {
	if !queueNamePattern.MatchString(name) {
		return nil, invalidParameterValue("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length, with .fifo behind for a FIFO queue.")
	}
	q := s.openQueue(name, now)
	if err := q.validateAttributes(attributes); err != nil {
		return nil, err
	}
	if q.fifo && attributes["FifoQueue"] == "" {
		return nil, invalidParameterValue("The name of a queue that is not a FIFO queue cannot end with .fifo.")
	}
	if existing := s.queues[name]; existing != nil {
		for attribute, value := range attributes {
			if existing.attributes[attribute] != value {
				return nil, queueNameExists(name, attribute)
			}
		}
		return existing, nil
	}
	if err := s.applyAttributes(q, attributes); err != nil {
		return nil, err
	}
	maps.Copy(q.tags, tags)
	if err := s.appendRecord(queueRecord(q)); err != nil {
		return nil, err
	}
	s.queues[name] = q
	return q, nil
}

func (s *Server) createQueue(c *call, in *queueRequest) (*queueURLResult, error) {
	c.queueName = in.QueueName
	q, err := s.addQueue(in.QueueName, in.Attributes, in.Tags, c.now)
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
	q.purge()
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

// queueNames are those of the queues with a prefix, sorted.
func (s *Server) queueNames(prefix string) (names []string) {
	for name := range s.queues {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// listQueues pages only if MaxResults is given; the token is the last name seen.
func (s *Server) listQueues(c *call, in *listRequest) (*listQueuesResult, error) {
	reply := &listQueuesResult{}
	limit := cmp.Or(in.MaxResults, 1000)
	for _, name := range s.queueNames(in.QueueNamePrefix) {
		if name <= in.NextToken {
			continue
		}
		if len(reply.QueueURLs) == limit {
			if in.MaxResults > 0 {
				reply.NextToken = path.Base(reply.QueueURLs[limit-1])
			}
			break
		}
		reply.QueueURLs = append(reply.QueueURLs, s.queueURL(c, s.queues[name]))
	}
	return reply, nil
}

// purgeQueue forgets all messages, those in flight too.
func (s *Server) purgeQueue(c *call, in *queueRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := s.appendRecord(walRecord{Op: opPurgeQueue, Queue: q.name}); err != nil {
		return nil, err
	}
	q.purge()
	return &emptyResult{}, nil
}

func (s *Server) tagQueue(c *call, in *queueRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	maps.Copy(q.tags, in.Tags)
	return &emptyResult{}, s.appendRecord(queueRecord(q))
}

func (s *Server) untagQueue(c *call, in *queueRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(q.tags, key)
	}
	return &emptyResult{}, s.appendRecord(queueRecord(q))
}

func (s *Server) listQueueTags(c *call, in *queueRequest) (*tagsResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &tagsResult{Tags: maps.Clone(q.tags)}, nil
}
