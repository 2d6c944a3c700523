package source

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Source is one pool's queue, for a polling worker.
type Source struct {
	client     *awssqs.Client
	url        string
	visibility time.Duration
	meter      *cost.Meter
}

// New makes a source. visibility is how long a received message stays
// away from others unless it is deleted or deferred; a nil meter counts nothing.
func New(client *awssqs.Client, url string, visibility time.Duration, m *cost.Meter) *Source {
	return &Source{client, url, visibility, m}
}

// receiveMost is how many messages SQS gives at a time, receiveWait the longest
// poll that it offers, maxVisibility the longest time it keeps a message away.
const (
	receiveMost   = 10
	receiveWait   = 20
	maxVisibility = 12 * time.Hour
)

// Receive waits up to 20 s for messages, at most n and at most 10.
func (s *Source) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return s.Within(ctx, n, receiveWait*time.Second)
}

// Within waits for a shorter time, in whole seconds rounded down.
func (s *Source) Within(ctx context.Context, n int, wait time.Duration) ([]worker.Delivery, error) {
	out, err := s.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl:                    &s.url,
		MaxNumberOfMessages:         int32(min(max(n, 1), receiveMost)),
		WaitTimeSeconds:             int32(min(max(wait, 0), receiveWait*time.Second) / time.Second),
		VisibilityTimeout:           seconds(s.visibility),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	}, sqs.Counted(s.meter))
	if err != nil {
		return nil, sqs.Typed(err)
	}
	deliveries := make([]worker.Delivery, len(out.Messages))
	for i, m := range out.Messages {
		receives, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		deliveries[i] = worker.Delivery{
			ID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body), Receives: max(receives, 1),
		}
	}
	return deliveries, nil
}

// Delete ends a delivery for good.
func (s *Source) Delete(ctx context.Context, d worker.Delivery) error {
	_, err := s.client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &s.url, ReceiptHandle: &d.Handle}, sqs.Counted(s.meter))
	return sqs.Typed(err)
}

// Defer makes a delivery come back after a time, in whole seconds rounded up.
func (s *Source) Defer(ctx context.Context, d worker.Delivery, after time.Duration) error {
	_, err := s.client.ChangeMessageVisibility(ctx, &awssqs.ChangeMessageVisibilityInput{
		QueueUrl: &s.url, ReceiptHandle: &d.Handle, VisibilityTimeout: seconds(after),
	}, sqs.Counted(s.meter))
	return sqs.Typed(err)
}

func seconds(d time.Duration) int32 {
	return int32((min(max(d, 0), maxVisibility) + time.Second - 1) / time.Second)
}

// Depth is about how many messages are in the queue, in three parts: those that
// wait, those that somebody has received, and those that are not due yet.
func (s *Source) Depth(ctx context.Context) (waiting, received, delayed int, err error) {
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := s.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &s.url, AttributeNames: names}, sqs.Counted(s.meter))
	if err != nil {
		return 0, 0, 0, sqs.Typed(err)
	}
	counts := make([]int, len(names))
	for i, name := range names {
		if counts[i], err = strconv.Atoi(out.Attributes[string(name)]); err != nil {
			return 0, 0, 0, workflow.Errorf(workflow.CodeInternal, "the queue says nothing of its depth: %w", err)
		}
	}
	return counts[0], counts[1], counts[2], nil
}
