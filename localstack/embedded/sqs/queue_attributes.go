package sqs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of the service.
const (
	maxMessageBytes      = 1 << 20 // bytes of a message, and of a batch
	maxVisibilitySeconds = 43_200  // seconds
)

// intAttributes are the attributes that are numbers, with their limits and defaults.
var intAttributes = map[string]struct{ least, most, normal int }{
	"DelaySeconds":                  {0, 900, 0},
	"MaximumMessageSize":            {1024, maxMessageBytes, maxMessageBytes},
	"MessageRetentionPeriod":        {60, 1_209_600, 345_600},
	"ReceiveMessageWaitTimeSeconds": {0, 20, 0},
	"VisibilityTimeout":             {0, maxVisibilitySeconds, 30},
}

// stringAttributes are the other attributes that can be set. Those without a list of
// values are stored as they are.
var stringAttributes = map[string][]string{
	"FifoQueue":                    {"true", "false"},
	"ContentBasedDeduplication":    {"true", "false"},
	"DeduplicationScope":           {"queue", "messageGroup"},
	"FifoThroughputLimit":          {"perQueue", "perMessageGroupId"},
	"RedrivePolicy":                nil,
	"RedriveAllowPolicy":           nil,
	"Policy":                       nil,
	"KmsMasterKeyId":               nil,
	"KmsDataKeyReusePeriodSeconds": nil,
	"SqsManagedSseEnabled":         {"true", "false"},
}

var fifoAttributes = []string{"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}

// intAttribute is the value of an attribute that was checked when it was set.
func (q *queue) intAttribute(name string) int {
	n, err := strconv.Atoi(q.attributes[name])
	if err != nil {
		return intAttributes[name].normal
	}
	return n
}

// validateAttributes holds new attributes of the queue to their limits.
func (q *queue) validateAttributes(attributes map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		if limit, ok := intAttributes[name]; ok {
			n, err := strconv.Atoi(value)
			if err != nil || n < limit.least || n > limit.most {
				return invalidAttributeValue(name, value, fmt.Sprintf("must be between %d and %d", limit.least, limit.most))
			}
			continue
		}
		values, ok := stringAttributes[name]
		if !ok {
			return invalidAttributeName(name)
		}
		if values != nil && !slices.Contains(values, value) {
			return invalidAttributeValue(name, value, "must be one of "+strings.Join(values, ", "))
		}
		if slices.Contains(fifoAttributes, name) && !q.fifo {
			return invalidAttributeName(name)
		}
		if name == "FifoQueue" && value != "true" {
			return invalidAttributeValue(name, value, "a queue cannot change its kind")
		}
	}
	return nil
}

// setAttributes applies attributes that Check has let pass, RedrivePolicy included: an
// empty one takes the policy away.
func (q *queue) setAttributes(attributes map[string]string) error {
	if value, ok := attributes["RedrivePolicy"]; ok {
		q.redrive = nil
		if value != "" {
			policy, err := parseRedrivePolicy(value)
			if err != nil {
				return err
			}
			q.redrive = policy
		}
	}
	maps.Copy(q.attributes, attributes)
	if q.redrive == nil {
		delete(q.attributes, "RedrivePolicy")
	}
	return nil
}

// allAttributes is every attribute, those included that are counted or fixed.
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

// isKnownAttribute tells whether an attribute can be asked for, set or not.
func isKnownAttribute(name string) bool {
	_, ok := stringAttributes[name]
	return ok
}

// redrivePolicy says where messages go that nobody manages to delete.
type redrivePolicy struct {
	targetARN       string // arn
	maxReceiveCount int    // receives
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
