package dead

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
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Queue is a queue beside its dead letters.
type Queue struct {
	client    *awssqs.Client
	url, dead string
}

// Open finds the dead letters of the queue with the URL: the queue itself says
// where they go. nil is a queue that keeps none.
func Open(ctx context.Context, client *awssqs.Client, url string) (*Queue, error) {
	name := types.QueueAttributeNameRedrivePolicy
	out, err := client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{name}})
	if err != nil {
		return nil, sqs.Typed(err)
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
	return &Queue{client, url, url[:strings.LastIndex(url, "/")+1] + policy.Target[strings.LastIndex(policy.Target, ":")+1:]}, nil
}

// SQS gives or takes so many messages at a time. Its short polls ask only some of
// its servers, so that an empty answer would mean nothing: pollWait is a long one.
const (
	batch    = 10
	pollWait = 1
)

// Take receives up to n messages, at most 10, and keeps them from others for hold.
func (q *Queue) Take(ctx context.Context, n int, hold time.Duration) ([]deadletter.Letter, error) {
	out, err := q.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl: &q.dead, MaxNumberOfMessages: int32(min(max(n, 1), batch)), WaitTimeSeconds: pollWait, VisibilityTimeout: int32(hold / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameMessageGroupId,
		},
	})
	if err != nil {
		return nil, sqs.Typed(err)
	}
	letters := make([]deadletter.Letter, len(out.Messages))
	for i, m := range out.Messages {
		// What SQS does not say is shown as nothing.
		receives, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		sent, _ := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
		letters[i] = deadletter.Letter{
			ID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body),
			Group: m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)], Receives: receives, SentAt: time.UnixMilli(sent).UTC(),
		}
	}
	return letters, nil
}

// Count is about how many there are; what was just deleted may still be counted.
func (q *Queue) Count(ctx context.Context) (n int, err error) {
	names := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	out, err := q.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &q.dead, AttributeNames: names})
	if err != nil {
		return 0, sqs.Typed(err)
	}
	for _, name := range names {
		some, err := strconv.Atoi(out.Attributes[string(name)])
		if err != nil {
			return 0, workflow.Errorf(workflow.CodeInternal, "the number of dead letters cannot be read: %w", err)
		}
		n += some
	}
	return n, nil
}

// GiveBack lets others have messages again at once.
func (q *Queue) GiveBack(ctx context.Context, letters []deadletter.Letter) error {
	var trouble error
	for len(letters) > 0 {
		n := min(batch, len(letters))
		in := &awssqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.dead}
		for i := range letters[:n] {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &letters[i].Handle, VisibilityTimeout: 0,
			})
		}
		// One that is not given back is there again when its time is over.
		_, err := q.client.ChangeMessageVisibilityBatch(ctx, in)
		trouble, letters = errors.Join(trouble, err), letters[n:]
	}
	return sqs.Typed(trouble)
}

// Return puts a message back into its queue and then deletes it here: whoever dies
// in between leaves it in both, which does no harm.
func (q *Queue) Return(ctx context.Context, l deadletter.Letter) error {
	in := &awssqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &l.Body}
	if l.Group != "" {
		in.MessageGroupId = &l.Group
	}
	if _, err := q.client.SendMessage(ctx, in); err != nil {
		return sqs.Typed(err)
	}
	_, err := q.client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &q.dead, ReceiptHandle: &l.Handle})
	return sqs.Typed(err)
}
