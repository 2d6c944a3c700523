package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func TestSQS_SupportsUsedFeatures(t *testing.T) {
	setNamePrefix()
	runAll(t, []feature{
		{"a message with attributes is sent, received, deleted and counted", roundTrip},
		{"errors have their types", typedErrors},
		{"a batch has up to 10 entries", queueBatches},
		{"a long poll waits and wakes on a send", longPoll},
		{"a delayed message becomes visible after its delay", delayedMessage},
		{"a message becomes visible again after its visibility timeout", visibilityTimeout},
		{"visibility changes, alone and in batches", changeVisibility},
		{"a message goes to the dead-letter queue after its last receive", deadLetter},
		{"60 concurrent receivers get 300 messages, none twice", manyReceivers},
		{"attributes are set, and queues deleted", administration},
	})
}

// newQueue creates a queue for the test; attributes are name, value pairs.
func newQueue(t *testing.T, name string, attributes ...string) *string {
	t.Helper()
	set := map[string]string{}
	for i := 0; i < len(attributes); i += 2 {
		set[attributes[i]] = attributes[i+1]
	}
	out := must[*sqs.CreateQueueOutput](t)(sqsClient.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(namePrefix + "-" + name), Attributes: set}))
	return out.QueueUrl
}

func sendMessage(t *testing.T, url *string, body string, change ...func(*sqs.SendMessageInput)) (*sqs.SendMessageOutput, error) {
	in := &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}
	for _, c := range change {
		c(in)
	}
	return sqsClient.SendMessage(t.Context(), in)
}

func mustSend(t *testing.T, url *string, body string, change ...func(*sqs.SendMessageInput)) *sqs.SendMessageOutput {
	t.Helper()
	return must[*sqs.SendMessageOutput](t)(sendMessage(t, url, body, change...))
}

func receiveMessages(t *testing.T, url *string, most, wait int32) ([]types.Message, error) {
	out, err := sqsClient.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: most, WaitTimeSeconds: wait, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func mustReceive(t *testing.T, url *string, most, wait int32) []types.Message {
	t.Helper()
	return must[[]types.Message](t)(receiveMessages(t, url, most, wait))
}

// receiveOne receives exactly one message.
func receiveOne(t *testing.T, what string, url *string, wait int32) types.Message {
	t.Helper()
	got := mustReceive(t, url, 10, wait)
	if len(got) != 1 {
		t.Fatalf("%s: %d messages, want 1", what, len(got))
	}
	return got[0]
}

func receiveNone(t *testing.T, what string, url *string) {
	t.Helper()
	if got := mustReceive(t, url, 10, 0); len(got) != 0 {
		t.Fatalf("%s: %d messages, want none", what, len(got))
	}
}

func deleteMessage(t *testing.T, url *string, m types.Message) {
	t.Helper()
	must[*sqs.DeleteMessageOutput](t)(sqsClient.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
}

func queueAttribute(t *testing.T, url *string, name string) string {
	t.Helper()
	return must[*sqs.GetQueueAttributesOutput](t)(sqsClient.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes[name]
}

func sendBatch(t *testing.T, url *string, first, n int) (*sqs.SendMessageBatchOutput, error) {
	var entries []types.SendMessageBatchRequestEntry
	for i := first; i < first+n; i++ {
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("n", i)), MessageBody: aws.String(fmt.Sprint(i))})
	}
	return sqsClient.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
}

func roundTrip(t *testing.T) {
	u := newQueue(t, "round")
	sent := mustSend(t, u, "Grüße, 世界", func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{
			"text":   {DataType: aws.String("String"), StringValue: aws.String("ü")},
			"number": {DataType: aws.String("Number.int"), StringValue: aws.String("-7")},
			"bytes":  {DataType: aws.String("Binary"), BinaryValue: []byte{255, 0}},
		}
	})
	wantEqual(t, "visible", queueAttribute(t, u, "ApproximateNumberOfMessages"), "1")
	m := receiveOne(t, "first receive", u, 1)
	wantEqual(t, "in flight", queueAttribute(t, u, "ApproximateNumberOfMessagesNotVisible"), "1")
	wantEqual(t, "body", aws.ToString(m.Body), "Grüße, 世界")
	wantEqual(t, "id", aws.ToString(m.MessageId), aws.ToString(sent.MessageId))
	wantEqual(t, "MD5 of the attributes", aws.ToString(m.MD5OfMessageAttributes), aws.ToString(sent.MD5OfMessageAttributes))
	wantEqual(t, "attributes", len(m.MessageAttributes), 3)
	wantEqual(t, "bytes", string(m.MessageAttributes["bytes"].BinaryValue), "\xff\x00")
	wantEqual(t, "number", aws.ToString(m.MessageAttributes["number"].StringValue), "-7")
	wantEqual(t, "receives", m.Attributes["ApproximateReceiveCount"], "1")
	wantEqual(t, "has SentTimestamp", m.Attributes["SentTimestamp"] != "", true)
	deleteMessage(t, u, m)
	wantEqual(t, "in flight after the delete", queueAttribute(t, u, "ApproximateNumberOfMessagesNotVisible"), "0")
	wantEqual(t, "visible after the delete", queueAttribute(t, u, "ApproximateNumberOfMessages"), "0")
}

func typedErrors(t *testing.T) {
	_, err := sqsClient.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(namePrefix + "-none")})
	var missing *types.QueueDoesNotExist
	if !errors.As(err, &missing) {
		t.Fatalf("URL of a missing queue: %v", err)
	}
	u := newQueue(t, "errors")
	_, err = sendMessage(t, aws.String(*u+"-none"), "x")
	wantEqual(t, "QueueDoesNotExist for a send to a missing queue", errors.As(err, &missing), true)
	_, err = sendMessage(t, u, strings.Repeat("x", 1<<20+1))
	wantEqual(t, "a message of 1 MiB and one byte is rejected", err != nil, true)
	mustSend(t, u, strings.Repeat("x", 1<<20))
	_, err = sqsClient.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: u, ReceiptHandle: aws.String("no handle")})
	var bad *types.ReceiptHandleIsInvalid
	wantEqual(t, "ReceiptHandleIsInvalid for a bad receipt handle", errors.As(err, &bad), true)
}

func queueBatches(t *testing.T) {
	u := newQueue(t, "batch")
	wantEqual(t, "sent", len(must[*sqs.SendMessageBatchOutput](t)(sendBatch(t, u, 0, 10)).Successful), 10)
	var entries []types.DeleteMessageBatchRequestEntry
	for range 10 { // a receive may return fewer messages than there are
		for _, m := range mustReceive(t, u, 10, 0) {
			entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(len(entries))), ReceiptHandle: m.ReceiptHandle})
		}
	}
	wantEqual(t, "received", len(entries), 10)
	deleted := must[*sqs.DeleteMessageBatchOutput](t)(sqsClient.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: u, Entries: entries}))
	wantEqual(t, "deleted", len(deleted.Successful), 10)
	_, err := sendBatch(t, u, 0, 11)
	var tooMany *types.TooManyEntriesInBatchRequest
	wantEqual(t, "TooManyEntriesInBatchRequest for 11 entries", errors.As(err, &tooMany), true)
}

func longPoll(t *testing.T) {
	u := newQueue(t, "poll")
	start := time.Now()
	wantEqual(t, "messages in an empty queue", len(mustReceive(t, u, 1, 1)), 0)
	if waited := time.Since(start); waited < 900*time.Millisecond {
		t.Fatalf("a poll of 1 s ended after %v", waited)
	}
	result := make(chan error, 1)
	go func() {
		got, err := receiveMessages(t, u, 1, 20)
		if err == nil && len(got) != 1 {
			err = fmt.Errorf("%d messages", len(got))
		}
		result <- err
	}()
	time.Sleep(100 * time.Millisecond) // the poll has most likely begun; if not, it must end too
	mustSend(t, u, "x")
	select {
	case err := <-result:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a poll of 20 s did not wake within 10 s of a send")
	}
}

func delayedMessage(t *testing.T) {
	u := newQueue(t, "delay")
	start := time.Now()
	mustSend(t, u, "x", func(in *sqs.SendMessageInput) { in.DelaySeconds = 1 })
	wantEqual(t, "delayed", queueAttribute(t, u, "ApproximateNumberOfMessagesDelayed"), "1")
	receiveOne(t, "after the delay", u, 10)
	if waited := time.Since(start); waited < 900*time.Millisecond {
		t.Fatalf("a message delayed by 1 s was received after %v", waited)
	}
}

func manyReceivers(t *testing.T) {
	u := newQueue(t, "many", "VisibilityTimeout", "120")
	for first := 0; first < 300; first += 10 {
		must[*sqs.SendMessageBatchOutput](t)(sendBatch(t, u, first, 10))
	}
	var mu sync.Mutex
	seen, deliveries := map[string]bool{}, 0
	runConcurrently(t, 60, func(int) error {
		for {
			got, err := receiveMessages(t, u, 10, 0)
			if err != nil || len(got) == 0 {
				return err
			}
			mu.Lock()
			deliveries += len(got)
			for _, m := range got {
				seen[aws.ToString(m.MessageId)] = true
			}
			mu.Unlock()
		}
	})
	wantEqual(t, "messages", len(seen), 300)
	wantEqual(t, "deliveries", deliveries, 300)
}

func administration(t *testing.T) {
	u := newQueue(t, "admin")
	must[*sqs.SetQueueAttributesOutput](t)(sqsClient.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: u, Attributes: map[string]string{"VisibilityTimeout": "23"}}))
	wantEqual(t, "new visibility timeout", queueAttribute(t, u, "VisibilityTimeout"), "23")
	must[*sqs.DeleteQueueOutput](t)(sqsClient.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: u}))
}
