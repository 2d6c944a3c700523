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

// DeadLetterQueue is a queue beside its dead letters.
type DeadLetterQueue struct {
	client      *awssqs.Client
	url, dlqURL string
}

// OpenDeadLetterQueue finds the dead letters of the queue with the URL: the queue itself says
// where they go. nil is a queue that keeps none.
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
	// SQS has them in the same account and region, so their URLs differ in the name.
	return &DeadLetterQueue{client, url, url[:strings.LastIndex(url, "/")+1] + policy.Target[strings.LastIndex(policy.Target, ":")+1:]}, nil
}

// SQS gives or takes so many messages at a time. Its short polls ask only some of
// its servers, so that an empty answer would mean nothing: deadLetterPollWait is a long one.
const (
	deadLetterBatch    = 10
	deadLetterPollWait = 1
)

// Receive receives up to n messages, at most 10, and keeps them from others for hold.
func (q *DeadLetterQueue) Receive(ctx context.Context, n int, visibility time.Duration) ([]deadletter.Message, error) {
	out, err := q.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl: &q.dlqURL, MaxNumberOfMessages: int32(min(max(n, 1), deadLetterBatch)), WaitTimeSeconds: deadLetterPollWait, VisibilityTimeout: int32(visibility / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameMessageGroupId,
		},
	})
	if err != nil {
		return nil, wrapError(err)
	}
	letters := make([]deadletter.Message, len(out.Messages))
	for i, m := range out.Messages {
		// What SQS does not say is shown as nothing.
		receives, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		sent, _ := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
		letters[i] = deadletter.Message{
			ID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body),
			Group: m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)], Receives: receives, SentAt: time.UnixMilli(sent).UTC(),
		}
	}
	return letters, nil
}

// Count is about how many there are; what was just deleted may still be counted.
func (q *DeadLetterQueue) Count(ctx context.Context) (n int, err error) {
	names := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	out, err := q.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &q.dlqURL, AttributeNames: names})
	if err != nil {
		return 0, wrapError(err)
	}
	for _, name := range names {
		count, err := strconv.Atoi(out.Attributes[string(name)])
		if err != nil {
			return 0, workflow.Errorf(workflow.CodeInternal, "the number of dead letters cannot be read: %w", err)
		}
		n += count
	}
	return n, nil
}

// Release lets others have messages again at once.
func (q *DeadLetterQueue) Release(ctx context.Context, letters []deadletter.Message) error {
	var errs error
	for len(letters) > 0 {
		n := min(deadLetterBatch, len(letters))
		in := &awssqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.dlqURL}
		for i := range letters[:n] {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &letters[i].Handle, VisibilityTimeout: 0,
			})
		}
		// One that is not given back is there again when its time is over.
		_, err := q.client.ChangeMessageVisibilityBatch(ctx, in)
		errs, letters = errors.Join(errs, err), letters[n:]
	}
	return wrapError(errs)
}

// Redrive puts a message back into its queue and then deletes it here: whoever dies
// in between leaves it in both, which does no harm.
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
