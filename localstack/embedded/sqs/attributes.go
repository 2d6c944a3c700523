package sqs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Limits of SQS.
const (
	maxMessageBytes      = 1 << 20 // bytes of a message, and of a batch
	maxVisibilitySeconds = 43_200  // seconds
)

// intAttributes are the numeric attributes with their limits and defaults. The only
// other attribute is RedrivePolicy.
var intAttributes = map[string]struct{ least, most, fallback int }{
	"DelaySeconds":                  {0, 900, 0},
	"MaximumMessageSize":            {1024, maxMessageBytes, maxMessageBytes},
	"MessageRetentionPeriod":        {60, 1_209_600, 345_600},
	"ReceiveMessageWaitTimeSeconds": {0, 20, 0},
	"VisibilityTimeout":             {0, maxVisibilitySeconds, 30},
}

// intAttribute returns the value of a numeric attribute, which was checked when set.
func (q *queue) intAttribute(name string) int {
	n, err := strconv.Atoi(q.attributes[name])
	if err != nil {
		return intAttributes[name].fallback
	}
	return n
}

// validateAttributes checks the names and values of new attributes.
func validateAttributes(attributes map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		if limit, ok := intAttributes[name]; ok {
			n, err := strconv.Atoi(value)
			if err != nil || n < limit.least || n > limit.most {
				return invalidAttributeValue(name, value, fmt.Sprintf("must be between %d and %d", limit.least, limit.most))
			}
			continue
		}
		if name != "RedrivePolicy" {
			return invalidAttributeName(name)
		}
	}
	return nil
}

// allAttributes returns every attribute, including counters and fixed values.
func (q *queue) allAttributes() map[string]string {
	all := maps.Clone(q.attributes)
	visible, inFlight, delayed := q.counts()
	all["ApproximateNumberOfMessages"] = strconv.Itoa(visible)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(inFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(delayed)
	all["CreatedTimestamp"] = strconv.FormatInt(q.created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.modified.Unix(), 10)
	all["QueueArn"] = q.arn
	return all
}

func (s *Server) setQueueAttributes(c *call, in *queueRequest) (*emptyResult, error) {
	q, err := s.findQueue(c, in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := validateAttributes(in.Attributes); err != nil {
		return nil, err
	}
	attributes, redrive, modified := maps.Clone(q.attributes), q.redrive, q.modified
	if err := s.applyAttributes(q, in.Attributes); err != nil {
		return nil, err
	}
	q.modified = c.now
	if err := s.appendRecord(queueRecord(q)); err != nil {
		q.attributes, q.redrive, q.modified = attributes, redrive, modified
		return nil, err
	}
	q.processDue(c.now)
	return &emptyResult{}, nil
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
		} else if name != "RedrivePolicy" {
			return nil, invalidAttributeName(name)
		}
	}
	return reply, nil
}

// applyAttributes sets attributes that validateAttributes has accepted. The
// dead-letter queue of a redrive policy must exist; an empty policy removes it.
func (s *Server) applyAttributes(q *queue, attributes map[string]string) error {
	if value, ok := attributes["RedrivePolicy"]; ok {
		var policy *redrivePolicy
		if value != "" {
			var err error
			if policy, err = parseRedrivePolicy(value); err != nil {
				return err
			}
			if s.queueByARN(policy.targetARN) == nil {
				return invalidAttributeValue("RedrivePolicy", value, "the dead-letter queue does not exist")
			}
		}
		q.redrive = policy
	}
	maps.Copy(q.attributes, attributes)
	if q.redrive == nil {
		delete(q.attributes, "RedrivePolicy")
	}
	return nil
}
