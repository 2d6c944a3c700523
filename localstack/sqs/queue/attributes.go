package queue

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/localstack/sqs/wire"
)

// Limits of the service.
const (
	MaxMessage    = 1 << 20 // bytes of a message, and of a batch
	MaxVisibility = 43_200  // seconds
)

// numbers are the attributes that are numbers, with their limits and defaults.
var numbers = map[string]struct{ least, most, normal int }{
	"DelaySeconds":                  {0, 900, 0},
	"MaximumMessageSize":            {1024, MaxMessage, MaxMessage},
	"MessageRetentionPeriod":        {60, 1_209_600, 345_600},
	"ReceiveMessageWaitTimeSeconds": {0, 20, 0},
	"VisibilityTimeout":             {0, MaxVisibility, 30},
}

// texts are the other attributes that can be set. Those without a list of
// values are stored as they are.
var texts = map[string][]string{
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

var onlyFIFO = []string{"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}

// Number is the value of an attribute that was checked when it was set.
func (q *Queue) Number(name string) int {
	n, err := strconv.Atoi(q.Attributes[name])
	if err != nil {
		return numbers[name].normal
	}
	return n
}

// Check holds new attributes of the queue to their limits.
func (q *Queue) Check(attributes map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		if limit, ok := numbers[name]; ok {
			n, err := strconv.Atoi(value)
			if err != nil || n < limit.least || n > limit.most {
				return wire.BadAttribute(name, value, fmt.Sprintf("must be between %d and %d", limit.least, limit.most))
			}
			continue
		}
		values, ok := texts[name]
		if !ok {
			return wire.UnknownAttribute(name)
		}
		if values != nil && !slices.Contains(values, value) {
			return wire.BadAttribute(name, value, "must be one of "+strings.Join(values, ", "))
		}
		if slices.Contains(onlyFIFO, name) && !q.FIFO {
			return wire.UnknownAttribute(name)
		}
		if name == "FifoQueue" && value != "true" {
			return wire.BadAttribute(name, value, "a queue cannot change its kind")
		}
	}
	return nil
}

// Set applies attributes that Check has let pass, RedrivePolicy included: an
// empty one takes the policy away.
func (q *Queue) Set(attributes map[string]string) error {
	if value, ok := attributes["RedrivePolicy"]; ok {
		q.Redrive = nil
		if value != "" {
			policy, err := ParseRedrive(value)
			if err != nil {
				return err
			}
			q.Redrive = policy
		}
	}
	maps.Copy(q.Attributes, attributes)
	if q.Redrive == nil {
		delete(q.Attributes, "RedrivePolicy")
	}
	return nil
}

// Describe is every attribute, those included that are counted or fixed.
func (q *Queue) Describe() map[string]string {
	all := maps.Clone(q.Attributes)
	visible, inFlight, delayed := q.Count()
	all["ApproximateNumberOfMessages"] = strconv.Itoa(visible)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(inFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(delayed)
	all["CreatedTimestamp"] = strconv.FormatInt(q.Created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.Modified.Unix(), 10)
	all["QueueArn"] = q.ARN
	return all
}

// Known tells whether an attribute can be asked for, set or not.
func Known(name string) bool {
	_, ok := texts[name]
	return ok
}

// Redrive says where messages go that nobody manages to delete.
type Redrive struct {
	Target string // ARN
	Max    int    // receives
}

// ParseRedrive reads a RedrivePolicy; maxReceiveCount may be a number or text.
func ParseRedrive(value string) (*Redrive, error) {
	var in struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(value), &in); err != nil {
		return nil, wire.BadAttribute("RedrivePolicy", value, err.Error())
	}
	most, err := strconv.Atoi(strings.Trim(string(in.Max), `"`))
	if err != nil || most < 1 || most > 1000 {
		return nil, wire.BadAttribute("RedrivePolicy", value, "maxReceiveCount must be between 1 and 1000")
	}
	if in.Target == "" {
		return nil, wire.BadAttribute("RedrivePolicy", value, "deadLetterTargetArn is missing")
	}
	return &Redrive{in.Target, most}, nil
}
