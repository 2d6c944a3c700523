package dead_test

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

	localsqs "github.com/lockstep-run/lockstep/localstack/sqs"
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/sqs/dead"
)

var _ deadletter.Queue = (*dead.Queue)(nil)

// post is a local SQS with a queue and where its messages die.
type post struct {
	*testing.T
	client          *awssqs.Client
	source, letters string
	queue           *dead.Queue
}

func newPost(t *testing.T) *post {
	server, err := localsqs.New(localsqs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &post{T: t, client: awssqs.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &web.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})}
	p.letters = p.make("jobs-dead", nil)
	out, err := p.client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &p.letters, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	p.source = p.make("jobs", map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":3}`, out.Attributes["QueueArn"]),
	})
	if p.queue, err = dead.Open(t.Context(), p.client, p.source); err != nil || p.queue == nil {
		t.Fatal(p.queue, err)
	}
	return p
}

func (p *post) make(name string, attributes map[string]string) string {
	p.Helper()
	out, err := p.client.CreateQueue(p.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		p.Fatal(err)
	}
	return *out.QueueUrl
}

// die puts a message among the dead letters.
func (p *post) die(body, group string) {
	p.Helper()
	in := &awssqs.SendMessageInput{QueueUrl: &p.letters, MessageBody: &body}
	if group != "" {
		in.MessageGroupId = &group
	}
	if _, err := p.client.SendMessage(p.Context(), in); err != nil {
		p.Fatal(err)
	}
}

func (p *post) take(n int) []deadletter.Letter {
	p.Helper()
	letters, err := p.queue.Take(p.Context(), n, time.Minute)
	if err != nil {
		p.Fatal(err)
	}
	return letters
}

// waiting are the bodies in the queue itself, with their groups.
func (p *post) waiting() (all []string) {
	p.Helper()
	out, err := p.client.ReceiveMessage(p.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: &p.source, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
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
func TestOpen(t *testing.T) {
	p := newPost(t)
	if q, err := dead.Open(t.Context(), p.client, p.letters); q != nil || err != nil {
		t.Errorf("a queue without dead letters is %v, %v", q, err)
	}
	if q, err := dead.Open(t.Context(), p.client, p.source+"-none"); q != nil || err == nil {
		t.Errorf("no queue is %v, %v", q, err)
	}
}

// What is taken says what it is, and is kept from others until it is given back.
func TestTakeAndGiveBack(t *testing.T) {
	p := newPost(t)
	before := time.Now().Add(-time.Second)
	for i := range 13 {
		p.die(fmt.Sprint("m", i), "acme")
	}
	first := p.take(100) // SQS gives ten at a time
	rest := p.take(0)    // and at least one
	if len(first) != 10 || len(rest) != 1 {
		t.Fatalf("%d and %d letters", len(first), len(rest))
	}
	l := first[0]
	if l.ID == "" || l.Handle == "" || l.Body != "m0" || l.Group != "acme" || l.Receives != 1 || l.SentAt.Before(before) || l.SentAt.Location() != time.UTC {
		t.Errorf("%+v", l)
	}
	all := append(append(first, rest...), p.take(10)...)
	if len(all) != 13 || len(p.take(10)) != 0 {
		t.Fatalf("%d letters are taken, and there are more", len(all))
	}
	if err := p.queue.GiveBack(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	again := append(p.take(10), p.take(10)...)
	if len(again) != 13 || again[0].Receives != 2 {
		t.Errorf("%d of 13 came back: %+v", len(again), again)
	}
	if err := p.queue.GiveBack(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// What is put back is in its queue once more, for its tenant, and gone here; what
// cannot be put back stays.
func TestReturn(t *testing.T) {
	p := newPost(t)
	p.die("one", "acme")
	p.die("two", "")
	for _, l := range p.take(10) {
		if err := p.queue.Return(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.waiting(); !slices.Equal(got, []string{"one/acme", "two/"}) {
		t.Errorf("in the queue are %v", got)
	}
	p.die("three", "")
	l := p.take(10)
	if len(l) != 1 || l[0].Body != "three" {
		t.Fatalf("dead are %+v", l)
	}
	if _, err := p.client.DeleteQueue(t.Context(), &awssqs.DeleteQueueInput{QueueUrl: &p.source}); err != nil {
		t.Fatal(err)
	}
	if err := p.queue.Return(t.Context(), l[0]); err == nil {
		t.Error("it is put back into no queue")
	}
	if err := p.queue.GiveBack(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if left := p.take(10); len(left) != 1 || left[0].Body != "three" {
		t.Errorf("what could not be put back is lost: %+v", left)
	}
}

// Those that somebody looks at are counted, those that are back in their queue not.
func TestCount(t *testing.T) {
	p := newPost(t)
	for i := range 3 {
		p.die(fmt.Sprint("m", i), "")
	}
	held := p.take(2)
	if err := p.queue.Return(t.Context(), held[0]); err != nil {
		t.Fatal(err)
	}
	if n, err := p.queue.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
