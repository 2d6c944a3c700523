package sqs

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Receiver receives from one pool's queue, for a polling worker. Its requests are
// not metered: a worker charges each pack what receiving a message costs.
type Receiver struct {
	client     *awssqs.Client
	url        string
	visibility time.Duration
}

// NewReceiver makes a Receiver. visibility is how long a received message is hidden
// from other receivers unless it is deleted or deferred.
func NewReceiver(client *awssqs.Client, url string, visibility time.Duration) *Receiver {
	return &Receiver{client, url, visibility}
}

// The limits of SQS.
const (
	maxReceive     = 10               // messages at a time
	maxReceiveWait = 20 * time.Second // the longest poll
	maxVisibility  = 12 * time.Hour   // the longest time that a message is hidden
)

// Receive waits up to 20 s for messages and returns at most n, and at most 10.
func (r *Receiver) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return r.ReceiveWithin(ctx, n, maxReceiveWait)
}

// ReceiveWithin works like Receive, with a shorter wait, rounded down to whole seconds.
func (r *Receiver) ReceiveWithin(ctx context.Context, n int, wait time.Duration) ([]worker.Delivery, error) {
	out, err := r.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl:                    &r.url,
		MaxNumberOfMessages:         int32(min(max(n, 1), maxReceive)),
		WaitTimeSeconds:             int32(min(max(wait, 0), maxReceiveWait) / time.Second),
		VisibilityTimeout:           wholeSeconds(r.visibility, maxVisibility),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil {
		return nil, wrapError(err)
	}
	deliveries := make([]worker.Delivery, len(out.Messages))
	for i, m := range out.Messages {
		deliveries[i] = worker.Delivery{
			ID: aws.ToString(m.MessageId), ReceiptHandle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body), ReceiveCount: max(receiveCount(m), 1),
		}
	}
	return deliveries, nil
}

// receiveCount returns how often a message has been received; 0 if SQS does not say.
func receiveCount(m types.Message) int {
	n, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	return n
}

// Delete deletes a message.
func (r *Receiver) Delete(ctx context.Context, d worker.Delivery) error {
	_, err := r.client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &r.url, ReceiptHandle: &d.ReceiptHandle})
	return wrapError(err)
}

// Defer makes a message visible again after a time, rounded up to whole seconds.
func (r *Receiver) Defer(ctx context.Context, d worker.Delivery, after time.Duration) error {
	_, err := r.client.ChangeMessageVisibility(ctx, &awssqs.ChangeMessageVisibilityInput{
		QueueUrl: &r.url, ReceiptHandle: &d.ReceiptHandle, VisibilityTimeout: wholeSeconds(after, maxVisibility),
	})
	return wrapError(err)
}

// Depth returns the approximate number of messages in the queue: waiting, received and not deleted,
// and delayed.
func (r *Receiver) Depth(ctx context.Context) (waiting, received, delayed int, err error) {
	counts, err := queueCounts(ctx, r.client, r.url, nil,
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	if err != nil {
		return 0, 0, 0, err
	}
	return counts[0], counts[1], counts[2], nil
}

// queueCounts reads numeric attributes of a queue.
func queueCounts(ctx context.Context, client *awssqs.Client, url string, options []func(*awssqs.Options), names ...types.QueueAttributeName) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
	out, err := client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names}, options...)
	if err != nil {
		return nil, wrapError(err)
	}
	counts := make([]int, len(names))
	for i, name := range names {
		if counts[i], err = strconv.Atoi(out.Attributes[string(name)]); err != nil {
			return nil, workflow.Errorf(workflow.CodeInternal, "the queue's attribute %s cannot be read: %w", name, err)
		}
	}
	return counts, nil
}
