package ports_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	localsqs "github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/conformance/ports"
)

var (
	_ port.Sender   = (*sqs.Sender)(nil)
	_ worker.Sender = (*sqs.Sender)(nil)
	_ worker.Source = (*sqs.Receiver)(nil)
)

// queueFixture is a local SQS with a lifecycle queue.
type queueFixture struct {
	*testing.T
	client *awssqs.Client
	server *localsqs.Server
	urls   map[string]string
}

func newQueueFixture(t *testing.T) *queueFixture {
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
	q := &queueFixture{t, awssqs.NewFromConfig(awsConfig(web.URL)), server, map[string]string{}}
	q.createQueue(topology.QueueLifecycle)
	return q
}

func (q *queueFixture) createQueue(name string) {
	q.Helper()
	out, err := q.client.CreateQueue(context.Background(), &awssqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		q.Fatal(err)
	}
	q.urls[name] = aws.ToString(out.QueueUrl)
}

// drain receives and deletes all visible messages.
func (q *queueFixture) drain(name string) (bodies []string) {
	q.Helper()
	url := q.urls[name]
	for {
		out, err := q.client.ReceiveMessage(context.Background(), &awssqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
		if err != nil {
			q.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return bodies
		}
		for _, m := range out.Messages {
			bodies = append(bodies, aws.ToString(m.Body))
			if _, err := q.client.DeleteMessage(context.Background(), &awssqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				q.Fatal(err)
			}
		}
	}
}

func (q *queueFixture) newSender(fair bool) *sqs.Client {
	return sqs.Open(q.client, sqs.Queues{Lifecycle: q.urls[topology.QueueLifecycle], Prefix: topology.QueueJobsPrefix, Fair: fair})
}

func TestSQS_Sender(t *testing.T) {
	t.Parallel()
	for name, fair := range map[string]bool{"plain": false, "fair": true} {
		t.Run(name, func(t *testing.T) {
			ports.Sender(t, func(t *testing.T) ports.SenderImplementation {
				q := newQueueFixture(t)
				return ports.SenderImplementation{
					Sender: q.newSender(fair).WithMeter(nil),
					Wakeups: func() (wakeups []workflow.Wakeup) {
						for _, body := range q.drain(topology.QueueLifecycle) {
							l, err := sqs.DecodeWakeup(body)
							if err != nil {
								t.Error(err)
							}
							wakeups = append(wakeups, l)
						}
						return wakeups
					},
					Packs: func(pool string) (packs []*workflow.PackMessage) {
						for _, body := range q.drain(topology.JobsQueue(pool)) {
							m, err := sqs.DecodePack(body)
							if err != nil {
								t.Error(err)
							}
							packs = append(packs, m)
						}
						return packs
					},
					MakePool: func(pool string) { q.createQueue(topology.JobsQueue(pool)) },
					Elapse:   time.Sleep,
				}
			})
		})
	}
}
