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

func TestSQS(t *testing.T) {
	begin()
	runAll(t, []feature{
		{"a message with attributes is sent, received, deleted and counted", roundTrip},
		{"errors have types", typedErrors},
		{"batches of 10, not of 11", queueBatches},
		{"a long poll waits, and wakes with a message", longPoll},
		{"a delay holds a message back", delay},
		{"a visibility time-out brings a message back", visibility},
		{"visibility is changed, alone and in batches", changeVisibility},
		{"too many receives lead to the dead-letter queue", func(t *testing.T) { deadLetter(t) }},
		{"messages move back from the dead-letter queue", moveBack},
		{"FIFO keeps order and locks groups", fifoOrder},
		{"FIFO drops repetitions, by id and by content", fifoRepetitions},
		{"60 receivers at once get 300 messages, none twice", manyReceivers},
		{"queues are purged, set, listed and tagged", administration},
	})
}

// newQueue makes a queue of the test's own; attributes are name, value pairs.
func newQueue(t *testing.T, name string, attributes ...string) *string {
	t.Helper()
	set := map[string]string{}
	for i := 0; i < len(attributes); i += 2 {
		set[attributes[i]] = attributes[i+1]
	}
	out := ok[*sqs.CreateQueueOutput](t)(queue.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(run + "-" + name), Attributes: set}))
	return out.QueueUrl
}

func enqueue(t *testing.T, url *string, body string, change ...func(*sqs.SendMessageInput)) (*sqs.SendMessageOutput, error) {
	in := &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}
	for _, c := range change {
		c(in)
	}
	return queue.SendMessage(t.Context(), in)
}

func mustEnqueue(t *testing.T, url *string, body string, change ...func(*sqs.SendMessageInput)) *sqs.SendMessageOutput {
	t.Helper()
	return ok[*sqs.SendMessageOutput](t)(enqueue(t, url, body, change...))
}

func fetch(t *testing.T, url *string, most, wait int32) ([]types.Message, error) {
	out, err := queue.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: most, WaitTimeSeconds: wait, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func mustFetch(t *testing.T, url *string, most, wait int32) []types.Message {
	t.Helper()
	return ok[[]types.Message](t)(fetch(t, url, most, wait))
}

// one wants exactly one message.
func one(t *testing.T, what string, url *string, wait int32) types.Message {
	t.Helper()
	got := mustFetch(t, url, 10, wait)
	if len(got) != 1 {
		t.Fatalf("%s: %d messages, want 1", what, len(got))
	}
	return got[0]
}

func none(t *testing.T, what string, url *string) {
	t.Helper()
	if got := mustFetch(t, url, 10, 0); len(got) != 0 {
		t.Fatalf("%s: %d messages, want none", what, len(got))
	}
}

func done(t *testing.T, url *string, m types.Message) {
	t.Helper()
	ok[*sqs.DeleteMessageOutput](t)(queue.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
}

func property(t *testing.T, url *string, name string) string {
	t.Helper()
	return ok[*sqs.GetQueueAttributesOutput](t)(queue.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes[name]
}

func enqueueMany(t *testing.T, url *string, first, n int) (*sqs.SendMessageBatchOutput, error) {
	var entries []types.SendMessageBatchRequestEntry
	for i := first; i < first+n; i++ {
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("n", i)), MessageBody: aws.String(fmt.Sprint(i))})
	}
	return queue.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
}

func roundTrip(t *testing.T) {
	u := newQueue(t, "round")
	sent := mustEnqueue(t, u, "Grüße, 世界", func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{
			"text":   {DataType: aws.String("String"), StringValue: aws.String("ü")},
			"number": {DataType: aws.String("Number.int"), StringValue: aws.String("-7")},
			"bytes":  {DataType: aws.String("Binary"), BinaryValue: []byte{255, 0}},
		}
	})
	same(t, "visible", property(t, u, "ApproximateNumberOfMessages"), "1")
	m := one(t, "first receive", u, 1)
	same(t, "in flight", property(t, u, "ApproximateNumberOfMessagesNotVisible"), "1")
	same(t, "body", aws.ToString(m.Body), "Grüße, 世界")
	same(t, "id", aws.ToString(m.MessageId), aws.ToString(sent.MessageId))
	same(t, "sum of the attributes", aws.ToString(m.MD5OfMessageAttributes), aws.ToString(sent.MD5OfMessageAttributes))
	same(t, "attributes", len(m.MessageAttributes), 3)
	same(t, "bytes", string(m.MessageAttributes["bytes"].BinaryValue), "\xff\x00")
	same(t, "number", aws.ToString(m.MessageAttributes["number"].StringValue), "-7")
	same(t, "receives", m.Attributes["ApproximateReceiveCount"], "1")
	same(t, "has a time", m.Attributes["SentTimestamp"] != "", true)
	done(t, u, m)
	same(t, "in flight after the delete", property(t, u, "ApproximateNumberOfMessagesNotVisible"), "0")
	same(t, "visible after the delete", property(t, u, "ApproximateNumberOfMessages"), "0")
}

func typedErrors(t *testing.T) {
	_, err := queue.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(run + "-none")})
	var missing *types.QueueDoesNotExist
	if !errors.As(err, &missing) {
		t.Fatalf("the URL of no queue: %v", err)
	}
	u := newQueue(t, "errors")
	_, err = enqueue(t, aws.String(*u+"-none"), "x")
	same(t, "a send to no queue", errors.As(err, &missing), true)
	_, err = enqueue(t, u, strings.Repeat("x", 1<<20+1))
	same(t, "1 MiB and a byte is refused", err != nil, true)
	mustEnqueue(t, u, strings.Repeat("x", 1<<20))
	_, err = queue.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: u, ReceiptHandle: aws.String("no handle")})
	var bad *types.ReceiptHandleIsInvalid
	same(t, "a bad receipt handle", errors.As(err, &bad), true)
}

func queueBatches(t *testing.T) {
	u := newQueue(t, "batch")
	same(t, "sent", len(ok[*sqs.SendMessageBatchOutput](t)(enqueueMany(t, u, 0, 10)).Successful), 10)
	var entries []types.DeleteMessageBatchRequestEntry
	for range 10 { // the service may give less than there is
		for _, m := range mustFetch(t, u, 10, 0) {
			entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(len(entries))), ReceiptHandle: m.ReceiptHandle})
		}
	}
	same(t, "received", len(entries), 10)
	deleted := ok[*sqs.DeleteMessageBatchOutput](t)(queue.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: u, Entries: entries}))
	same(t, "deleted", len(deleted.Successful), 10)
	_, err := enqueueMany(t, u, 0, 11)
	refused(t, "eleven", err, "TooManyEntriesInBatchRequest")
}

func longPoll(t *testing.T) {
	u := newQueue(t, "poll")
	begin := time.Now()
	same(t, "messages in an empty queue", len(mustFetch(t, u, 1, 1)), 0)
	if waited := time.Since(begin); waited < 900*time.Millisecond {
		t.Fatalf("a poll of 1 s ended after %v", waited)
	}
	result := make(chan error, 1)
	go func() {
		got, err := fetch(t, u, 1, 20)
		if err == nil && len(got) != 1 {
			err = fmt.Errorf("%d messages", len(got))
		}
		result <- err
	}()
	time.Sleep(100 * time.Millisecond) // most likely the poll has begun; if not, it must end all the same
	mustEnqueue(t, u, "x")
	select {
	case err := <-result:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a poll of 20 s did not wake within 10 s of a send")
	}
}

func delay(t *testing.T) {
	u := newQueue(t, "delay")
	begin := time.Now()
	mustEnqueue(t, u, "x", func(in *sqs.SendMessageInput) { in.DelaySeconds = 1 })
	same(t, "delayed", property(t, u, "ApproximateNumberOfMessagesDelayed"), "1")
	one(t, "after the delay", u, 10)
	if waited := time.Since(begin); waited < 900*time.Millisecond {
		t.Fatalf("a message delayed by 1 s came after %v", waited)
	}
}

func manyReceivers(t *testing.T) {
	u := newQueue(t, "many", "VisibilityTimeout", "120")
	for first := 0; first < 300; first += 10 {
		ok[*sqs.SendMessageBatchOutput](t)(enqueueMany(t, u, first, 10))
	}
	var mu sync.Mutex
	seen, deliveries := map[string]bool{}, 0
	atOnce(t, 60, func(int) error {
		for {
			got, err := fetch(t, u, 10, 0)
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
	same(t, "messages", len(seen), 300)
	same(t, "deliveries", deliveries, 300)
}

func administration(t *testing.T) {
	u := newQueue(t, "admin")
	mustEnqueue(t, u, "x")
	ok[*sqs.PurgeQueueOutput](t)(queue.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: u}))
	none(t, "after the purge", u)
	ok[*sqs.SetQueueAttributesOutput](t)(queue.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: u, Attributes: map[string]string{"VisibilityTimeout": "23"}}))
	same(t, "the new time-out", property(t, u, "VisibilityTimeout"), "23")
	listed := ok[*sqs.ListQueuesOutput](t)(queue.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String(run + "-adm")}))
	if len(listed.QueueUrls) != 1 || listed.QueueUrls[0] != *u {
		t.Fatalf("listed %v, want %s", listed.QueueUrls, *u)
	}
	ok[*sqs.TagQueueOutput](t)(queue.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: u, Tags: map[string]string{"stage": "test"}}))
	tags := ok[*sqs.ListQueueTagsOutput](t)(queue.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: u})).Tags
	same(t, "tag", tags["stage"], "test")
}
