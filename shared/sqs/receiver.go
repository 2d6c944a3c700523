package sqs

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/cost"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Receiver is one pool's queue, for a polling worker.
type Receiver struct {
	client     *awssqs.Client
	url        string
	visibility time.Duration
	meter      *cost.Meter
}

// NewReceiver makes a source. visibility is how long a received message stays
// away from others unless it is deleted or deferred; a nil meter counts nothing.
func NewReceiver(client *awssqs.Client, url string, visibility time.Duration, m *cost.Meter) *Receiver {
	return &Receiver{client, url, visibility, m}
}

// maxReceive is how many messages SQS gives at a time, maxReceiveWait the longest
// poll that it offers, maxVisibility the longest time it keeps a message away.
const (
	maxReceive     = 10
	maxReceiveWait = 20
	maxVisibility  = 12 * time.Hour
)

// Receive waits up to 20 s for messages, at most n and at most 10.
func (s *Receiver) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return s.ReceiveWithin(ctx, n, maxReceiveWait*time.Second)
}

// ReceiveWithin waits for a shorter time, in whole seconds rounded down.
func (s *Receiver) ReceiveWithin(ctx context.Context, n int, wait time.Duration) ([]worker.Delivery, error) {
	out, err := s.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl:                    &s.url,
		MaxNumberOfMessages:         int32(min(max(n, 1), maxReceive)),
		WaitTimeSeconds:             int32(min(max(wait, 0), maxReceiveWait*time.Second) / time.Second),
		VisibilityTimeout:           visibilitySeconds(s.visibility),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	}, countRequests(s.meter))
	if err != nil {
		return nil, wrapError(err)
	}
	deliveries := make([]worker.Delivery, len(out.Messages))
	for i, m := range out.Messages {
		receives, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		deliveries[i] = worker.Delivery{
			ID: aws.ToString(m.MessageId), ReceiptHandle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body), ReceiveCount: max(receives, 1),
		}
	}
	return deliveries, nil
}

// Delete ends a delivery for good.
func (s *Receiver) Delete(ctx context.Context, d worker.Delivery) error {
	_, err := s.client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &s.url, ReceiptHandle: &d.ReceiptHandle}, countRequests(s.meter))
	return wrapError(err)
}

// Defer makes a delivery come back after a time, in whole seconds rounded up.
func (s *Receiver) Defer(ctx context.Context, d worker.Delivery, after time.Duration) error {
	_, err := s.client.ChangeMessageVisibility(ctx, &awssqs.ChangeMessageVisibilityInput{
		QueueUrl: &s.url, ReceiptHandle: &d.ReceiptHandle, VisibilityTimeout: visibilitySeconds(after),
	}, countRequests(s.meter))
	return wrapError(err)
}

func visibilitySeconds(d time.Duration) int32 {
	return int32((min(max(d, 0), maxVisibility) + time.Second - 1) / time.Second)
}

// Depth is about how many messages are in the queue, in three parts: those that
// wait, those that somebody has received, and those that are not due yet.
func (s *Receiver) Depth(ctx context.Context) (waiting, received, delayed int, err error) {
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := s.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &s.url, AttributeNames: names}, countRequests(s.meter))
	if err != nil {
		return 0, 0, 0, wrapError(err)
	}
	counts := make([]int, len(names))
	for i, name := range names {
		if counts[i], err = strconv.Atoi(out.Attributes[string(name)]); err != nil {
			return 0, 0, 0, workflow.Errorf(workflow.CodeInternal, "the queue says nothing of its depth: %w", err)
		}
	}
	return counts[0], counts[1], counts[2], nil
}
