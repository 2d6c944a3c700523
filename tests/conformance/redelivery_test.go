package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func visibility(t *testing.T) {
	u := newQueue(t, "visibility", "VisibilityTimeout", "1")
	mustEnqueue(t, u, "x")
	first := one(t, "first receive", u, 1)
	begin := time.Now()
	none(t, "while in flight", u)
	second := one(t, "after the time-out", u, 10)
	if waited := time.Since(begin); waited < 800*time.Millisecond {
		t.Fatalf("a message invisible for 1 s came back after %v", waited)
	}
	same(t, "receives", second.Attributes["ApproximateReceiveCount"], "2")
	same(t, "the receipt handles differ", aws.ToString(first.ReceiptHandle) != aws.ToString(second.ReceiptHandle), true)
}

// letGo makes a message visible at once.
func letGo(t *testing.T, u *string, m types.Message) {
	t.Helper()
	ok[*sqs.ChangeMessageVisibilityOutput](t)(queue.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: u, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0}))
}

func changeVisibility(t *testing.T) {
	u := newQueue(t, "change", "VisibilityTimeout", "1")
	mustEnqueue(t, u, "x")
	letGo(t, u, one(t, "first receive", u, 1))
	m := one(t, "let go", u, 0)
	out := ok[*sqs.ChangeMessageVisibilityBatchOutput](t)(queue.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: u, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{{Id: aws.String("x"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 60}},
	}))
	same(t, "extended", len(out.Successful), 1)
	if got := mustFetch(t, u, 1, 2); len(got) != 0 {
		t.Fatal("the message came back after its old time-out")
	}
}

// deadLetter sends a message through a queue that gives it up after two
// receives, and returns both queues and the dead letter.
func deadLetter(t *testing.T) (source, dead *string, m types.Message) {
	t.Helper()
	name := fmt.Sprint("dead", time.Now().UnixNano())
	dead = newQueue(t, name+"-dlq")
	source = newQueue(t, name, "VisibilityTimeout", "1", "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, property(t, dead, "QueueArn")))
	mustEnqueue(t, source, "poison")
	for n := range 2 {
		same(t, "body", aws.ToString(one(t, fmt.Sprint("receive ", n+1), source, 10).Body), "poison")
	}
	// Elsewhere a message moves when it is received once too often.
	if got := mustFetch(t, source, 1, 2); len(got) != 0 {
		t.Fatal("received a third time")
	}
	return source, dead, one(t, "dead letter", dead, 10)
}

func moveBack(t *testing.T) {
	source, dead, m := deadLetter(t)
	letGo(t, dead, m)
	ok[*sqs.StartMessageMoveTaskOutput](t)(queue.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(property(t, dead, "QueueArn"))}))
	same(t, "body", aws.ToString(one(t, "moved back", source, 10).Body), "poison")
}
