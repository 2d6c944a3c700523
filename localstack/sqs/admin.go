package sqs

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs/queue"
	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

var queueName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)$`)

func (s *Server) url(c *call, q *queue.Queue) string {
	return c.base + "/" + s.options.Account + "/" + q.Name
}

// find is the queue of a URL, of which only the last part matters: the host may
// be any by which we are reached.
func (s *Server) find(c *call, url string) (*queue.Queue, error) {
	if url == "" {
		return nil, wire.Missing("QueueUrl")
	}
	name := path.Base(url)
	q := s.queues[name]
	if q == nil {
		return nil, wire.NoQueue(name)
	}
	c.queue = name
	return q, nil
}

// findOrCreate asks AutoCreate for a queue that does not exist.
func (s *Server) findOrCreate(c *call, url string) (*queue.Queue, error) {
	q, err := s.find(c, url)
	if q != nil || url == "" || s.options.AutoCreate == nil {
		return q, err
	}
	name := path.Base(url)
	attributes, ok := s.options.AutoCreate(name)
	if !ok {
		return nil, err
	}
	if value := attributes["RedrivePolicy"]; value != "" {
		policy, err := queue.ParseRedrive(value)
		if err != nil {
			return nil, err
		}
		if _, err := s.findOrCreate(c, arnName(policy.Target)); err != nil {
			return nil, err
		}
	}
	c.queue = name
	return s.create(name, attributes, nil, c.now)
}

// newQueue makes an empty queue that the server does not know yet.
func (s *Server) newQueue(name string, created time.Time) *queue.Queue {
	return queue.New(queue.Config{
		Name:        name,
		ARN:         "arn:aws:sqs:" + s.options.Region + ":" + s.options.Account + ":" + name,
		Created:     created,
		Boot:        s.boot,
		Sender:      s.options.Account,
		MaxInFlight: s.options.MaxInFlight,
		Faults:      &s.faults,
		Bury:        s.deadLetter,
		Ring:        s.ring,
	})
}

// ring settles a queue whose timer has run out.
func (s *Server) ring(q *queue.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.queues[q.Name] == q {
		q.Settle(s.options.Clock())
	}
}

func (s *Server) create(name string, attributes, tags map[string]string, now time.Time) (*queue.Queue, error) {
	if !queueName.MatchString(name) {
		return nil, wire.BadParameter("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length, with .fifo behind for a FIFO queue.")
	}
	q := s.newQueue(name, now)
	if err := q.Check(attributes); err != nil {
		return nil, err
	}
	if q.FIFO && attributes["FifoQueue"] == "" {
		return nil, wire.BadParameter("The name of a queue that is not a FIFO queue cannot end with .fifo.")
	}
	if earlier := s.queues[name]; earlier != nil {
		for attribute, value := range attributes {
			if earlier.Attributes[attribute] != value {
				return nil, wire.QueueExists(name, attribute)
			}
		}
		return earlier, nil
	}
	if err := s.set(q, attributes); err != nil {
		return nil, err
	}
	maps.Copy(q.Tags, tags)
	if err := s.keep(described(q)); err != nil {
		return nil, err
	}
	s.queues[name] = q
	return q, nil
}

func (s *Server) createQueue(c *call, in *wire.Queue) (*wire.QueueURL, error) {
	c.queue = in.QueueName
	q, err := s.create(in.QueueName, in.Attributes, in.Tags, c.now)
	if err != nil {
		return nil, err
	}
	return &wire.QueueURL{QueueURL: s.url(c, q)}, nil
}

func (s *Server) deleteQueue(c *call, in *wire.Queue) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := s.keep(record{Op: opDrop, Queue: q.Name}); err != nil {
		return nil, err
	}
	delete(s.queues, q.Name)
	q.Clear()
	q.Dismiss()
	return &wire.Nothing{}, nil
}

func (s *Server) getQueueURL(c *call, in *wire.Queue) (*wire.QueueURL, error) {
	if in.QueueName == "" {
		return nil, wire.Missing("QueueName")
	}
	q, err := s.findOrCreate(c, in.QueueName)
	if err != nil {
		return nil, err
	}
	return &wire.QueueURL{QueueURL: s.url(c, q)}, nil
}

// names are those of the queues with a prefix, sorted.
func (s *Server) names(prefix string) (found []string) {
	for name := range s.queues {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// listQueues pages only if MaxResults is given; the token is the last name seen.
func (s *Server) listQueues(c *call, in *wire.List) (*wire.QueueURLs, error) {
	reply := &wire.QueueURLs{}
	most := cmp.Or(in.MaxResults, 1000)
	for _, name := range s.names(in.QueueNamePrefix) {
		if name <= in.NextToken {
			continue
		}
		if len(reply.QueueURLs) == most {
			if in.MaxResults > 0 {
				reply.NextToken = path.Base(reply.QueueURLs[most-1])
			}
			break
		}
		reply.QueueURLs = append(reply.QueueURLs, s.url(c, s.queues[name]))
	}
	return reply, nil
}

// purgeQueue forgets all messages, those in flight too.
func (s *Server) purgeQueue(c *call, in *wire.Queue) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := s.keep(record{Op: opPurge, Queue: q.Name}); err != nil {
		return nil, err
	}
	q.Clear()
	return &wire.Nothing{}, nil
}

func (s *Server) tagQueue(c *call, in *wire.Queue) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	maps.Copy(q.Tags, in.Tags)
	return &wire.Nothing{}, s.keep(described(q))
}

func (s *Server) untagQueue(c *call, in *wire.Queue) (*wire.Nothing, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(q.Tags, key)
	}
	return &wire.Nothing{}, s.keep(described(q))
}

func (s *Server) listTags(c *call, in *wire.Queue) (*wire.Tags, error) {
	q, err := s.find(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &wire.Tags{Tags: maps.Clone(q.Tags)}, nil
}
