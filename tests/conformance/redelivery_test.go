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
	start := time.Now()
	receiveNone(t, "while in flight", u)
	second := receiveOne(t, "after the timeout", u, 10)
	if waited := time.Since(start); waited < 800*time.Millisecond {
		t.Fatalf("a message hidden for 1 s was visible after %v", waited)
	}
	wantEqual(t, "receives", second.Attributes["ApproximateReceiveCount"], "2")
	wantEqual(t, "receipt handles differ", aws.ToString(first.ReceiptHandle) != aws.ToString(second.ReceiptHandle), true)
}

// makeVisible ends a message's visibility timeout.
func makeVisible(t *testing.T, u *string, m types.Message) {
	t.Helper()
	must[*sqs.ChangeMessageVisibilityOutput](t)(sqsClient.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: u, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0}))
}

func changeVisibility(t *testing.T) {
	u := newQueue(t, "change", "VisibilityTimeout", "1")
	mustSend(t, u, "x")
	makeVisible(t, u, receiveOne(t, "first receive", u, 1))
	m := receiveOne(t, "after a timeout of 0", u, 0)
	out := must[*sqs.ChangeMessageVisibilityBatchOutput](t)(sqsClient.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: u, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{{Id: aws.String("x"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 60}},
	}))
	wantEqual(t, "extended", len(out.Successful), 1)
	if got := mustReceive(t, u, 1, 2); len(got) != 0 {
		t.Fatal("the message was visible after its old timeout")
	}
}

func deadLetter(t *testing.T) {
	dlq := newQueue(t, "dead-dlq")
	source := newQueue(t, "dead", "VisibilityTimeout", "1", "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, queueAttribute(t, dlq, "QueueArn")))
	mustSend(t, source, "poison")
	for n := range 2 {
		wantEqual(t, "body", aws.ToString(receiveOne(t, fmt.Sprint("receive ", n+1), source, 10).Body), "poison")
	}
	// Some implementations move the message only at a third receive.
	if got := mustReceive(t, source, 1, 2); len(got) != 0 {
		t.Fatal("received a third time")
	}
	receiveOne(t, "dead letter", dlq, 10)
}
