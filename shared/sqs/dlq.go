package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// DeadLetterQueue is a queue's dead-letter queue.
type DeadLetterQueue struct {
	client      *awssqs.Client
	url, dlqURL string
}

// OpenDeadLetterQueue finds the dead-letter queue of the queue with the URL by its redrive policy.
// It returns nil if the queue has none.
func OpenDeadLetterQueue(ctx context.Context, client *awssqs.Client, url string) (*DeadLetterQueue, error) {
	name := types.QueueAttributeNameRedrivePolicy
	out, err := client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{name}})
	if err != nil {
		return nil, wrapError(err)
	}
	var policy struct {
		Target string `json:"deadLetterTargetArn"`
	}
	if text := out.Attributes[string(name)]; text == "" {
		return nil, nil
	} else if err := json.Unmarshal([]byte(text), &policy); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the queue's redrive policy cannot be read: %w", err)
	}
	// SQS requires the same account and region, so the URLs differ only in the name.
	return &DeadLetterQueue{client, url, url[:strings.LastIndex(url, "/")+1] + policy.Target[strings.LastIndex(policy.Target, ":")+1:]}, nil
}

// dlqPollWait makes polls long polls, in seconds. A short poll asks only some of SQS's servers, so
// that an empty response would mean nothing.
const dlqPollWait = 1

// Receive receives up to n messages, at most 10, and hides them from other receivers
// for visibility.
func (q *DeadLetterQueue) Receive(ctx context.Context, n int, visibility time.Duration) ([]deadletter.Message, error) {
	out, err := q.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl: &q.dlqURL, MaxNumberOfMessages: int32(min(max(n, 1), maxReceive)), WaitTimeSeconds: dlqPollWait, VisibilityTimeout: int32(visibility / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameMessageGroupId,
		},
	})
	if err != nil {
		return nil, wrapError(err)
	}
	letters := make([]deadletter.Message, len(out.Messages))
	for i, m := range out.Messages {
		sent, _ := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64) // 0 if SQS does not say
		letters[i] = deadletter.Message{
			ID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body),
			Group: m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)], Receives: receiveCount(m), SentAt: time.UnixMilli(sent).UTC(),
		}
	}
	return letters, nil
}

// Count returns the approximate number of messages, including received ones. A message that was
// just deleted may still be counted.
func (q *DeadLetterQueue) Count(ctx context.Context) (int, error) {
	counts, err := queueCounts(ctx, q.client, q.dlqURL, nil,
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)
	if err != nil {
		return 0, err
	}
	return counts[0] + counts[1], nil
}

// Release makes messages visible to other receivers at once.
func (q *DeadLetterQueue) Release(ctx context.Context, letters []deadletter.Message) error {
	var errs error
	for len(letters) > 0 {
		n := min(maxBatchEntries, len(letters))
		in := &awssqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.dlqURL}
		for i := range letters[:n] {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &letters[i].Handle, VisibilityTimeout: 0,
			})
		}
		// A message that is not released becomes visible when its timeout ends.
		_, err := q.client.ChangeMessageVisibilityBatch(ctx, in)
		errs, letters = errors.Join(errs, err), letters[n:]
	}
	return wrapError(errs)
}

// Redrive sends a message to its queue again and then deletes it here. A crash in
// between leaves it in both queues, which is harmless.
func (q *DeadLetterQueue) Redrive(ctx context.Context, l deadletter.Message) error {
	in := &awssqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &l.Body}
	if l.Group != "" {
		in.MessageGroupId = &l.Group
	}
	if _, err := q.client.SendMessage(ctx, in); err != nil {
		return wrapError(err)
	}
	_, err := q.client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &q.dlqURL, ReceiptHandle: &l.Handle})
	return wrapError(err)
}
