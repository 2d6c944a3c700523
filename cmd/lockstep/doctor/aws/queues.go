package aws

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Queue is an SQS queue.
type Queue struct {
	URL, ARN          string
	Name              string
	VisibleMessages   int    // approximate number of messages that can be received
	VisibilityTimeout int    // seconds for which a received message is hidden
	RetentionPeriod   int    // seconds for which a message is kept
	DeadLetterARN     string // of the dead-letter queue, empty for none
	MaxReceiveCount   int    // receives after which a message becomes a dead letter
}

// Queue reads a queue by its URL.
func (a *Account) Queue(ctx context.Context, url string) (Queue, error) {
	out, err := a.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return Queue{URL: url}, err
	}
	return parseQueue(url, out.Attributes), nil
}

func parseQueue(url string, attributes map[string]string) Queue {
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(attributes[string(name)]) // SQS writes numbers; a missing one is 0
		return n
	}
	q := Queue{
		URL: url, ARN: attributes[string(types.QueueAttributeNameQueueArn)],
		Name:              url[strings.LastIndexByte(url, '/')+1:],
		VisibleMessages:   number(types.QueueAttributeNameApproximateNumberOfMessages),
		VisibilityTimeout: number(types.QueueAttributeNameVisibilityTimeout),
		RetentionPeriod:   number(types.QueueAttributeNameMessageRetentionPeriod),
	}
	// maxReceiveCount is a number or a string, depending on who set the policy.
	var policy struct {
		Target   string `json:"deadLetterTargetArn"`
		Receives any    `json:"maxReceiveCount"`
	}
	if text := attributes[string(types.QueueAttributeNameRedrivePolicy)]; text != "" && json.Unmarshal([]byte(text), &policy) == nil {
		q.DeadLetterARN = policy.Target
		switch n := policy.Receives.(type) {
		case float64:
			q.MaxReceiveCount = int(n)
		case string:
			q.MaxReceiveCount, _ = strconv.Atoi(n) // any other text is no bound
		}
	}
	return q
}
