package ports_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/sqs"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// intercept wraps each call of the client to SQS.
func (q *queueFixture) intercept(call func(operation string, send func() (any, error)) (any, error)) {
	options := q.client.Options()
	options.APIOptions = append(options.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Intercept", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, md middleware.Metadata, err error) {
			out.Result, err = call(awsmiddleware.GetOperationName(ctx), func() (any, error) {
				out, md, err = next.HandleDeserialize(ctx, in)
				return out.Result, err
			})
			return out, md, err
		}), middleware.Before)
	})
	q.client = awssqs.New(options)
}

func packsFor(pool string, n, size int) (packs []*workflow.PackMessage) {
	for i := range n {
		packs = append(packs, &workflow.PackMessage{
			Key:      workflow.PackKey{Tenant: "acme", Execution: "x", StepRunOrdinal: 1, StepRunSeq: 1, Lane: i, Attempt: 1},
			Work:     workflow.Work{Kind: workflow.JobExecute, Block: "a/b:1.0.0", Pool: pool},
			Jobs:     []workflow.JobInput{{Index: i, Parameters: json.RawMessage(`"` + strings.Repeat(" ", size) + `"`)}},
			NotAfter: time.Now().Add(time.Hour).UTC(),
		})
	}
	return packs
}

func TestSQS_RetriesFailedBatchEntries(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.createQueue("jobs-p")
	calls := 0
	// Every other entry fails through the service; in the first call one fails through
	// the sender.
	q.intercept(func(operation string, send func() (any, error)) (any, error) {
		result, err := send()
		if r, ok := result.(*awssqs.SendMessageBatchOutput); ok {
			calls++
			for i, s := range r.Successful {
				if i%2 == 1 {
					r.Failed = append(r.Failed, types.BatchResultErrorEntry{Id: s.Id, Code: aws.String("InternalError"), SenderFault: calls == 1 && i == 3})
				}
			}
		}
		return result, err
	})
	failed, err := q.newSender(false).WithMeter(nil).SendPacks(context.Background(), time.Now(), packsFor("p", 10, 10))
	// Of 10 entries five fail, one of them permanently; of the other four two fail; of
	// two one fails; the last one succeeds.
	if calls != 4 || len(failed) != 1 || failed[0].Lane != 3 {
		t.Errorf("%d calls, failed %v", calls, failed)
	}
	if !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestSQS_FailedBatchLeavesOthers(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.createQueue("jobs-p")
	var sends atomic.Int32 // batches are sent in parallel
	q.intercept(func(operation string, send func() (any, error)) (any, error) {
		if operation == "SendMessageBatch" && sends.Add(1) == 2 {
			return nil, &types.UnsupportedOperation{}
		}
		return send()
	})
	failed, err := q.newSender(false).WithMeter(nil).SendPacks(context.Background(), time.Now(), packsFor("p", 30, 10))
	if !workflow.Is(err, workflow.CodeUnavailable) || len(failed) != 10 || failed[0].Lane%10 != 0 || failed[9].Lane != failed[0].Lane+9 {
		t.Errorf("failed %v: %v", failed, err)
	}
	if n := len(q.drain("jobs-p")); n != 20 {
		t.Errorf("%d packs arrived, want 20", n)
	}
	sends.Store(1)
	if err := q.newSender(false).WithMeter(nil).SendWakeups(context.Background(), 0, workflow.Wakeup{Tenant: "a", Execution: "x"}); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("send wake-up: %v", err)
	}
}

func TestSQS_CachesMissingQueue(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	lookups := 0
	q.intercept(func(operation string, send func() (any, error)) (any, error) {
		if operation == "GetQueueUrl" {
			lookups++
		}
		return send()
	})
	client := q.newSender(false)
	sendPack := func(at time.Time, wantFailed, wantLookups int) {
		t.Helper()
		// The client caches queues across its senders.
		failed, err := client.WithMeter(nil).SendPacks(context.Background(), at, packsFor("p", 1, 10))
		if err != nil || len(failed) != wantFailed || lookups != wantLookups {
			t.Errorf("%d failed (%v) after %d lookups; want %d and %d", len(failed), err, lookups, wantFailed, wantLookups)
		}
	}
	now := time.Now()
	sendPack(now, 1, 1)
	sendPack(now.Add(time.Second), 1, 1)
	q.createQueue("jobs-p")
	sendPack(now.Add(2*time.Second), 1, 1)
	sendPack(now.Add(6*time.Second), 0, 2)
	sendPack(now.Add(7*time.Second), 0, 2)
	// The queue is deleted while its URL is cached.
	url := q.urls["jobs-p"]
	if _, err := q.client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	sendPack(now.Add(8*time.Second), 1, 2)
	sendPack(now.Add(20*time.Second), 1, 3)
}

func TestSQS_UsesConfiguredPoolURL(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.createQueue("elsewhere")
	b := sqs.Open(q.client, sqs.Queues{Pools: map[string]string{"p": q.urls["elsewhere"]}})
	if failed, err := b.WithMeter(nil).SendPacks(context.Background(), time.Now(), packsFor("p", 1, 10)); err != nil || len(failed) != 0 {
		t.Errorf("failed %v: %v", failed, err)
	}
	if n := len(q.drain("elsewhere")); n != 1 {
		t.Errorf("%d packs arrived, want 1", n)
	}
}

func TestSQS_MeterCountsByPayloadSize(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.createQueue("jobs-p")
	m := new(cost.Meter)
	sender := q.newSender(false).WithMeter(m)
	sendPacks := func(n, size int, want float64) {
		t.Helper()
		if failed, err := sender.SendPacks(context.Background(), time.Now(), packsFor("p", n, size)); err != nil || len(failed) != 0 {
			t.Fatalf("failed %v: %v", failed, err)
		}
		if got := m.Take().QueueRequests; got != want {
			t.Errorf("%d packs of %d bytes: %v requests, want %v", n, size, got, want)
		}
	}
	sendPacks(1, 10, 1) // to find the queue is a request of the process
	sendPacks(10, 10, 1)
	sendPacks(21, 10, 3)
	sendPacks(10, 60_000, 10) // 600,000 bytes and their envelopes in one call
	if err := sender.SendWakeups(context.Background(), 0, workflow.Wakeup{Tenant: "a", Execution: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := m.Take().QueueRequests; got != 1 {
		t.Errorf("a wake-up costs %v requests, want 1", got)
	}
}

func TestSQSSource_ReceivesDefersAndDeletes(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.createQueue("jobs-p")
	ctx := contextWithTimeout(t, time.Minute)
	s := sqs.NewReceiver(q.client, q.urls["jobs-p"], time.Minute)
	if failed, err := q.newSender(false).WithMeter(nil).SendPacks(ctx, time.Now(), packsFor("p", 12, 10)); err != nil || len(failed) != 0 {
		t.Fatalf("failed %v: %v", failed, err)
	}
	seen := map[int]int{}
	for len(seen) < 12 {
		got, err := s.Receive(ctx, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range got {
			p, err := sqs.DecodePack(d.Body)
			if err != nil {
				t.Fatal(err)
			}
			seen[p.Key.Lane] = d.ReceiveCount
			if p.Key.Lane == 7 && d.ReceiveCount == 1 {
				delete(seen, 7) // visible again at once
				err = s.Defer(ctx, d, 0)
			} else {
				err = s.Delete(ctx, d)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if fmt.Sprint(seen[7], seen[0]) != "2 1" {
		t.Errorf("receives of the deferred pack and of another: %d, %d", seen[7], seen[0])
	}
	missing := sqs.NewReceiver(q.client, q.urls["jobs-p"]+"x", time.Minute)
	if _, err := missing.Receive(ctx, 1); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("missing queue: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := s.Receive(ended, 1); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("cancelled context: %v", err)
	}
}
