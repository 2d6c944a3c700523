package sqs_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	localsqs "github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/sqs"
)

var _ deadletter.Queue = (*sqs.DeadLetterQueue)(nil)

// fixture is a local SQS with a queue and its dead-letter queue.
type fixture struct {
	*testing.T
	client           *awssqs.Client
	queueURL, dlqURL string
	queue            *sqs.DeadLetterQueue
}

func newFixture(t *testing.T) *fixture {
	server, err := localsqs.New(localsqs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	httpServer := httptest.NewServer(server)
	t.Cleanup(func() {
		httpServer.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{T: t, client: awssqs.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &httpServer.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})}
	f.dlqURL = f.createQueue("jobs-dead", nil)
	out, err := f.client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &f.dlqURL, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	f.queueURL = f.createQueue("jobs", map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":3}`, out.Attributes["QueueArn"]),
	})
	if f.queue, err = sqs.OpenDeadLetterQueue(t.Context(), f.client, f.queueURL); err != nil || f.queue == nil {
		t.Fatal(f.queue, err)
	}
	return f
}

func (f *fixture) createQueue(name string, attributes map[string]string) string {
	f.Helper()
	out, err := f.client.CreateQueue(f.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		f.Fatal(err)
	}
	return *out.QueueUrl
}

// addDeadLetter sends a message to the dead-letter queue.
func (f *fixture) addDeadLetter(body, group string) {
	f.Helper()
	in := &awssqs.SendMessageInput{QueueUrl: &f.dlqURL, MessageBody: &body}
	if group != "" {
		in.MessageGroupId = &group
	}
	if _, err := f.client.SendMessage(f.Context(), in); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) receive(n int) []deadletter.Message {
	f.Helper()
	letters, err := f.queue.Receive(f.Context(), n, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	return letters
}

// queued returns the bodies in the queue itself, with their groups.
func (f *fixture) queued() (all []string) {
	f.Helper()
	out, err := f.client.ReceiveMessage(f.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: &f.queueURL, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range out.Messages {
		all = append(all, *m.Body+"/"+m.Attributes["MessageGroupId"])
	}
	slices.Sort(all)
	return all
}

// A queue without a dead-letter queue gives nil; a missing queue is an error.
func TestOpenDeadLetterQueue_WithoutDeadLetters(t *testing.T) {
	f := newFixture(t)
	if q, err := sqs.OpenDeadLetterQueue(t.Context(), f.client, f.dlqURL); q != nil || err != nil {
		t.Errorf("a queue without a redrive policy: %v, %v", q, err)
	}
	if q, err := sqs.OpenDeadLetterQueue(t.Context(), f.client, f.queueURL+"-none"); q != nil || err == nil {
		t.Errorf("a missing queue: %v, %v", q, err)
	}
}

// A received message has all its attributes and is hidden until it is released.
func TestDeadLetterQueue_ReceivesAndReleases(t *testing.T) {
	f := newFixture(t)
	before := time.Now().Add(-time.Second)
	for i := range 13 {
		f.addDeadLetter(fmt.Sprint("m", i), "acme")
	}
	first := f.receive(100) // SQS returns ten at a time
	second := f.receive(0)  // and is asked for at least one
	if len(first) != 10 || len(second) != 1 {
		t.Fatalf("%d and %d letters", len(first), len(second))
	}
	l := first[0]
	if l.ID == "" || l.Handle == "" || l.Body != "m0" || l.Group != "acme" || l.Receives != 1 || l.SentAt.Before(before) || l.SentAt.Location() != time.UTC {
		t.Errorf("%+v", l)
	}
	all := append(append(first, second...), f.receive(10)...)
	if len(all) != 13 || len(f.receive(10)) != 0 {
		t.Fatalf("received %d of 13 letters, or some twice", len(all))
	}
	if err := f.queue.Release(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	redelivered := append(f.receive(10), f.receive(10)...)
	if len(redelivered) != 13 || redelivered[0].Receives != 2 {
		t.Errorf("%d of 13 were received again: %+v", len(redelivered), redelivered)
	}
	if err := f.queue.Release(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// A redriven message is in its queue again, in the group of its tenant, and deleted
// here. One that cannot be redriven stays.
func TestDeadLetterQueue_SendsBack(t *testing.T) {
	f := newFixture(t)
	f.addDeadLetter("one", "acme")
	f.addDeadLetter("two", "")
	for _, l := range f.receive(10) {
		if err := f.queue.Redrive(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.queued(); !slices.Equal(got, []string{"one/acme", "two/"}) {
		t.Errorf("the queue holds %v", got)
	}
	f.addDeadLetter("three", "")
	l := f.receive(10)
	if len(l) != 1 || l[0].Body != "three" {
		t.Fatalf("dead letters: %+v", l)
	}
	if _, err := f.client.DeleteQueue(t.Context(), &awssqs.DeleteQueueInput{QueueUrl: &f.queueURL}); err != nil {
		t.Fatal(err)
	}
	if err := f.queue.Redrive(t.Context(), l[0]); err == nil {
		t.Error("a letter was redriven to a deleted queue")
	}
	if err := f.queue.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if left := f.receive(10); len(left) != 1 || left[0].Body != "three" {
		t.Errorf("the letter that could not be redriven is lost: %+v", left)
	}
}

// Received letters are counted, redriven ones are not.
func TestDeadLetterQueue_CountsInFlight(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.addDeadLetter(fmt.Sprint("m", i), "")
	}
	held := f.receive(2)
	if err := f.queue.Redrive(t.Context(), held[0]); err != nil {
		t.Fatal(err)
	}
	if n, err := f.queue.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("count %d, %v", n, err)
	}
}
