package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func visibilityTimeout(t *testing.T) {
	u := newQueue(t, "visibility", "VisibilityTimeout", "1")
	mustSend(t, u, "x")
	first := receiveOne(t, "first receive", u, 1)
	begin := time.Now()
	receiveNone(t, "while in flight", u)
	second := receiveOne(t, "after the time-out", u, 10)
	if waited := time.Since(begin); waited < 800*time.Millisecond {
		t.Fatalf("a message invisible for 1 s came back after %v", waited)
	}
	wantEqual(t, "receives", second.Attributes["ApproximateReceiveCount"], "2")
	wantEqual(t, "the receipt handles differ", aws.ToString(first.ReceiptHandle) != aws.ToString(second.ReceiptHandle), true)
}

// makeVisible makes a message visible at once.
func makeVisible(t *testing.T, u *string, m types.Message) {
	t.Helper()
	must[*sqs.ChangeMessageVisibilityOutput](t)(sqsClient.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: u, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0}))
}

func changeVisibility(t *testing.T) {
	u := newQueue(t, "change", "VisibilityTimeout", "1")
	mustSend(t, u, "x")
	makeVisible(t, u, receiveOne(t, "first receive", u, 1))
	m := receiveOne(t, "let go", u, 0)
	out := must[*sqs.ChangeMessageVisibilityBatchOutput](t)(sqsClient.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: u, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{{Id: aws.String("x"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 60}},
	}))
	wantEqual(t, "extended", len(out.Successful), 1)
	if got := mustReceive(t, u, 1, 2); len(got) != 0 {
		t.Fatal("the message came back after its old time-out")
	}
}

// deadLetter sends a message through a queue that gives it up after two
// receives, and returns both queues and the dead letter.
func deadLetter(t *testing.T) (source, dead *string, m types.Message) {
	t.Helper()
	name := fmt.Sprint("dead", time.Now().UnixNano())
	dead = newQueue(t, name+"-dlq")
	source = newQueue(t, name, "VisibilityTimeout", "1", "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, queueAttribute(t, dead, "QueueArn")))
	mustSend(t, source, "poison")
	for n := range 2 {
		wantEqual(t, "body", aws.ToString(receiveOne(t, fmt.Sprint("receive ", n+1), source, 10).Body), "poison")
	}
	// Elsewhere a message moves when it is received once too often.
	if got := mustReceive(t, source, 1, 2); len(got) != 0 {
		t.Fatal("received a third time")
	}
	return source, dead, receiveOne(t, "dead letter", dead, 10)
}

func redrive(t *testing.T) {
	source, dead, m := deadLetter(t)
	makeVisible(t, dead, m)
	must[*sqs.StartMessageMoveTaskOutput](t)(sqsClient.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(queueAttribute(t, dead, "QueueArn"))}))
	wantEqual(t, "body", aws.ToString(receiveOne(t, "moved back", source, 10).Body), "poison")
}
