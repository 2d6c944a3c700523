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

// fixture is a local SQS with a queue and where its messages die.
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
	p := &fixture{T: t, client: awssqs.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &httpServer.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})}
	p.dlqURL = p.createQueue("jobs-dead", nil)
	out, err := p.client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &p.dlqURL, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	p.queueURL = p.createQueue("jobs", map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":3}`, out.Attributes["QueueArn"]),
	})
	if p.queue, err = sqs.OpenDeadLetterQueue(t.Context(), p.client, p.queueURL); err != nil || p.queue == nil {
		t.Fatal(p.queue, err)
	}
	return p
}

func (p *fixture) createQueue(name string, attributes map[string]string) string {
	p.Helper()
	out, err := p.client.CreateQueue(p.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		p.Fatal(err)
	}
	return *out.QueueUrl
}

// addDeadLetter puts a message among the dead letters.
func (p *fixture) addDeadLetter(body, group string) {
	p.Helper()
	in := &awssqs.SendMessageInput{QueueUrl: &p.dlqURL, MessageBody: &body}
	if group != "" {
		in.MessageGroupId = &group
	}
	if _, err := p.client.SendMessage(p.Context(), in); err != nil {
		p.Fatal(err)
	}
}

func (p *fixture) receive(n int) []deadletter.Message {
	p.Helper()
	letters, err := p.queue.Receive(p.Context(), n, time.Minute)
	if err != nil {
		p.Fatal(err)
	}
	return letters
}

// queued are the bodies in the queue itself, with their groups.
func (p *fixture) queued() (all []string) {
	p.Helper()
	out, err := p.client.ReceiveMessage(p.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: &p.queueURL, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
	})
	if err != nil {
		p.Fatal(err)
	}
	for _, m := range out.Messages {
		all = append(all, *m.Body+"/"+m.Attributes["MessageGroupId"])
	}
	slices.Sort(all)
	return all
}

// A queue that keeps no dead letters has none to show, and one that does not exist
// is an error.
func TestOpenDeadLetterQueue_WithoutDeadLetters(t *testing.T) {
	p := newFixture(t)
	if q, err := sqs.OpenDeadLetterQueue(t.Context(), p.client, p.dlqURL); q != nil || err != nil {
		t.Errorf("a queue without dead letters is %v, %v", q, err)
	}
	if q, err := sqs.OpenDeadLetterQueue(t.Context(), p.client, p.queueURL+"-none"); q != nil || err == nil {
		t.Errorf("no queue is %v, %v", q, err)
	}
}

// What is taken says what it is, and is kept from others until it is given back.
func TestDeadLetterQueue_ReceivesAndReleases(t *testing.T) {
	p := newFixture(t)
	before := time.Now().Add(-time.Second)
	for i := range 13 {
		p.addDeadLetter(fmt.Sprint("m", i), "acme")
	}
	first := p.receive(100) // SQS gives ten at a time
	second := p.receive(0)  // and at least one
	if len(first) != 10 || len(second) != 1 {
		t.Fatalf("%d and %d letters", len(first), len(second))
	}
	l := first[0]
	if l.ID == "" || l.Handle == "" || l.Body != "m0" || l.Group != "acme" || l.Receives != 1 || l.SentAt.Before(before) || l.SentAt.Location() != time.UTC {
		t.Errorf("%+v", l)
	}
	all := append(append(first, second...), p.receive(10)...)
	if len(all) != 13 || len(p.receive(10)) != 0 {
		t.Fatalf("%d letters are taken, and there are more", len(all))
	}
	if err := p.queue.Release(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	redelivered := append(p.receive(10), p.receive(10)...)
	if len(redelivered) != 13 || redelivered[0].Receives != 2 {
		t.Errorf("%d of 13 came back: %+v", len(redelivered), redelivered)
	}
	if err := p.queue.Release(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// What is put back is in its queue once more, for its tenant, and gone here; what
// cannot be put back stays.
func TestDeadLetterQueue_SendsBack(t *testing.T) {
	p := newFixture(t)
	p.addDeadLetter("one", "acme")
	p.addDeadLetter("two", "")
	for _, l := range p.receive(10) {
		if err := p.queue.Redrive(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.queued(); !slices.Equal(got, []string{"one/acme", "two/"}) {
		t.Errorf("in the queue are %v", got)
	}
	p.addDeadLetter("three", "")
	l := p.receive(10)
	if len(l) != 1 || l[0].Body != "three" {
		t.Fatalf("dead are %+v", l)
	}
	if _, err := p.client.DeleteQueue(t.Context(), &awssqs.DeleteQueueInput{QueueUrl: &p.queueURL}); err != nil {
		t.Fatal(err)
	}
	if err := p.queue.Redrive(t.Context(), l[0]); err == nil {
		t.Error("it is put back into no queue")
	}
	if err := p.queue.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if left := p.receive(10); len(left) != 1 || left[0].Body != "three" {
		t.Errorf("what could not be put back is lost: %+v", left)
	}
}

// Those that somebody looks at are counted, those that are back in their queue not.
func TestDeadLetterQueue_CountsInFlight(t *testing.T) {
	p := newFixture(t)
	for i := range 3 {
		p.addDeadLetter(fmt.Sprint("m", i), "")
	}
	held := p.receive(2)
	if err := p.queue.Redrive(t.Context(), held[0]); err != nil {
		t.Fatal(err)
	}
	if n, err := p.queue.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
