package lambdahost_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// fakeQueue delivers one batch per receive and records deleted messages.
type fakeQueue struct {
	batches chan []string
	mu      sync.Mutex
	deleted []string
}

func (q *fakeQueue) ReceiveMessage(ctx context.Context, _ *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	select {
	case bodies := <-q.batches:
		out := &sqs.ReceiveMessageOutput{}
		for i, b := range bodies {
			id := fmt.Sprint("m", i)
			out.Messages = append(out.Messages, types.Message{MessageId: &id, ReceiptHandle: &id, Body: &b})
		}
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q *fakeQueue) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		q.deleted = append(q.deleted, *e.ReceiptHandle)
	}
	return &sqs.DeleteMessageBatchOutput{}, nil
}

// The function is a real one in Go, whose empty list of failures is null in JSON.
func TestHost_MappingInvokesFunction(t *testing.T) {
	h, log := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{MaxConcurrency: 1})
	q := &fakeQueue{batches: make(chan []string)}
	err := h.AddMapping(lambdahost.Mapping{
		QueueURL: "http://127.0.0.1/000000000000/jobs-default", Client: q, Function: fn, ReportBatchItemFailures: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		bodies  []string
		deleted []string
		logged  string
	}{
		{"null list", []string{"a", "b"}, []string{"m0", "m1"}, ""},
		{"one failure", []string{"a", "fail", "c"}, []string{"m0", "m2"}, ""},
		{"unknown identifier", []string{"a", `reply {"batchItemFailures":[{"itemIdentifier":"zz"}]}`}, nil, `"zz" is not in the batch`},
		{"function error", []string{"a", "error"}, nil, "errorString: bad batch"},
		{"no failure", []string{"a"}, []string{"m0"}, ""},
	} {
		done := fn.Counts().Invocations + 1
		q.batches <- c.bodies
		// With one environment, the next invocation begins after the batch.
		testkit.Eventually(t, c.name, func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return fn.Counts().Invocations >= done && len(q.deleted) == len(c.deleted) && strings.Contains(log.String(), c.logged)
		})
		q.mu.Lock()
		slices.Sort(q.deleted)
		if !slices.Equal(q.deleted, c.deleted) {
			t.Errorf("%s: deleted %v, want %v", c.name, q.deleted, c.deleted)
		}
		q.deleted = nil
		q.mu.Unlock()
	}
}

func TestHost_ScheduleInvokesFunction(t *testing.T) {
	h, _ := newHost(t, lambdahost.Options{})
	fn := deploy(t, h, lambdahost.Function{Name: "sweeper", MaxConcurrency: 1})
	if err := h.AddSchedule(10*time.Millisecond, fn, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "three invocations", func() bool { return fn.Counts().Invocations >= 3 })
	if c := fn.Counts(); c.Errors != 0 {
		t.Errorf("counts %+v", c)
	}
	if err := h.AddSchedule(time.Second, nil, nil); err == nil {
		t.Error("a schedule without a function was accepted")
	}
}
