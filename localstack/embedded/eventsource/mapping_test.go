package eventsource_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/eventsource"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

func ptr[T any](v T) *T { return &v }

func TestStartMapping_EventMatchesAWS(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	got := make(chan []byte, 1)
	fn := &fakeFunction{maxConcurrency: 1, handle: func(p []byte) ([]byte, error) { got <- p; return []byte("null"), nil }}
	q.messages = []types.Message{{
		MessageId: ptr("059f36b4-87a3-44ab-83d2-661975830a7d"), ReceiptHandle: ptr("AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a"),
		Body: ptr(`{"execution":"x-1"}`), MD5OfBody: ptr("e4e68fb7bd0e697a0ae8f1bb342846b3"),
		MD5OfMessageAttributes: ptr("c0ffee00c0ffee00c0ffee00c0ffee00"),
		Attributes: map[string]string{
			"ApproximateReceiveCount": "1", "SentTimestamp": "1545082649183", "SenderId": "AIDAIENQZJOLO23YVJ4VO",
			"ApproximateFirstReceiveTimestamp": "1545082649185", "MessageGroupId": "tenant-1",
		},
		MessageAttributes: map[string]types.MessageAttributeValue{
			"hops": {DataType: ptr("Number"), StringValue: ptr("3")},
			"sum":  {DataType: ptr("Binary"), BinaryValue: []byte{1, 2, 3}},
		},
	}, {
		MessageId: ptr("2e1424d4-f796-459a-8184-9c92662be6da"), ReceiptHandle: ptr("AQEBzWwaftRI0KuVm4tP"), Body: ptr("plain"),
	}}
	if err := eventsource.StartMapping(host.Host, eventsource.Mapping{QueueURL: queueURL, Client: q, Function: fn}); err != nil {
		t.Fatal(err)
	}
	payload := <-got
	sameJSON(t, payload, "sqs_event.json")
	var decoded events.SQSEvent
	if err := json.Unmarshal(payload, &decoded); err != nil || *decoded.Records[0].MessageAttributes["hops"].StringValue != "3" {
		t.Errorf("decoded %+v, %v", decoded, err)
	}
	asksForAll := locked(q, func() bool {
		in := q.requests[0]
		return in.MaxNumberOfMessages == 10 && in.WaitTimeSeconds == 20 &&
			slices.Contains(in.MessageSystemAttributeNames, types.MessageSystemAttributeNameAll) &&
			slices.Contains(in.MessageAttributeNames, "All")
	})
	if !asksForAll {
		t.Error("the receive does not ask for all attributes")
	}
}

// The rules of AWS for the reply to a batch.
func TestStartMapping_DeletesBySuccessInReply(t *testing.T) {
	allDeleted, noneDeleted := []string{"m0", "m1", "m2"}, []string(nil)
	for name, c := range map[string]struct {
		reply   string
		partial bool
		err     error
		deleted []string
		logged  string
	}{
		"empty list":           {`{"batchItemFailures":[]}`, true, nil, allDeleted, ""},
		"null list":            {`{"batchItemFailures":null}`, true, nil, allDeleted, ""},
		"empty object":         {`{}`, true, nil, allDeleted, ""},
		"null":                 {`null`, true, nil, allDeleted, ""},
		"empty reply":          {``, true, nil, allDeleted, ""},
		"one failure":          {`{"batchItemFailures":[{"itemIdentifier":"m1"}]}`, true, nil, []string{"m0", "m2"}, ""},
		"one failure twice":    {`{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m1"}]}`, true, nil, []string{"m0", "m2"}, ""},
		"all failed":           {`{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m0"},{"itemIdentifier":"m2"}]}`, true, nil, noneDeleted, ""},
		"unknown identifier":   {`{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"other"}]}`, true, nil, noneDeleted, `"other" is not in the batch`},
		"empty identifier":     {`{"batchItemFailures":[{"itemIdentifier":""}]}`, true, nil, noneDeleted, "has no itemIdentifier"},
		"null identifier":      {`{"batchItemFailures":[{"itemIdentifier":null}]}`, true, nil, noneDeleted, "has no itemIdentifier"},
		"wrong key":            {`{"batchItemFailures":[{"id":"m1"}]}`, true, nil, noneDeleted, "has no itemIdentifier"},
		"not JSON":             {`oops`, true, nil, noneDeleted, "not a batch response"},
		"number":               {`7`, true, nil, noneDeleted, "not a batch response"},
		"error":                {``, true, errors.New("bad"), noneDeleted, "batch of 3 from arn:aws:sqs:us-east-2:123456789012:lifecycle failed and will be received again: bad"},
		"host closed":          {``, true, errClosed, noneDeleted, ""},
		"reports disabled":     {`{"batchItemFailures":[{"itemIdentifier":"m1"}]}`, false, nil, allDeleted, ""},
		"error without report": {``, false, errors.New("bad"), noneDeleted, "will be received again"},
	} {
		t.Run(name, func(t *testing.T) {
			host, q := newFakeHost(t), newFakeQueue()
			q.send("a", "b", "c")
			var calls int
			fn := &fakeFunction{maxConcurrency: 1, handle: func([]byte) ([]byte, error) { calls++; return []byte(c.reply), c.err }}
			m := eventsource.Mapping{QueueURL: queueURL, Client: q, Function: fn, ReportBatchItemFailures: c.partial}
			if err := eventsource.StartMapping(host.Host, m); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the batch is handled", func() bool {
				return locked(q, func() bool { return q.receivedCount == 3 && q.pollers > 0 })
			})
			host.stop()
			slices.Sort(q.deleted)
			if !slices.Equal(q.deleted, c.deleted) || calls != 1 {
				t.Errorf("deleted %v after %d calls, want %v", q.deleted, calls, c.deleted)
			}
			if c.logged == "" && host.log.String() != "" || !strings.Contains(host.log.String(), c.logged) {
				t.Errorf("log %q, want %q", host.log.String(), c.logged)
			}
		})
	}
}

// blockingHandler counts running invocations and blocks them until release is closed.
type blockingHandler struct {
	mu      sync.Mutex
	active  int
	peak    int
	release chan struct{}
}

func (h *blockingHandler) handle([]byte) ([]byte, error) {
	h.mu.Lock()
	h.active++
	h.peak = max(h.peak, h.active)
	h.mu.Unlock()
	<-h.release
	h.mu.Lock()
	h.active--
	h.mu.Unlock()
	return nil, nil
}

func (h *blockingHandler) activeCount() int { h.mu.Lock(); defer h.mu.Unlock(); return h.active }

func TestStartMapping_ScalesPollersWithBacklog(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	blocking := &blockingHandler{release: make(chan struct{})}
	m := eventsource.Mapping{
		QueueURL: queueURL, Client: q, Function: &fakeFunction{maxConcurrency: 50, handle: blocking.handle},
		BatchSize: 2, MaxConcurrency: 7, LongPoll: time.Second,
	}
	if err := eventsource.StartMapping(host.Host, m); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "five pollers receive", func() bool { return locked(q, func() bool { return q.pollers == 5 }) })
	q.send(strings.Split(strings.Repeat("x ", 19)+"x", " ")...)
	testkit.Eventually(t, "seven batches are running", func() bool { return blocking.activeCount() == 7 })
	if n := locked(q, func() int { return q.pollers }); n != 0 {
		t.Errorf("%d pollers receive at the maximum concurrency", n)
	}
	close(blocking.release)
	testkit.Eventually(t, "all messages are deleted", func() bool { return locked(q, func() bool { return len(q.deleted) == 20 }) })
	testkit.Eventually(t, "five pollers receive again", func() bool { return locked(q, func() bool { return q.pollers == 5 }) })
	if blocking.peak != 7 {
		t.Errorf("up to %d concurrent batches, want 7", blocking.peak)
	}
}

func TestStartMapping_KeepsOnePollerListening(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	blocking := &blockingHandler{release: make(chan struct{})}
	m := eventsource.Mapping{QueueURL: queueURL, Client: q, Function: &fakeFunction{maxConcurrency: 9, handle: blocking.handle}, LongPoll: time.Second}
	if err := eventsource.StartMapping(host.Host, m); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		q.send("slow")
		testkit.Eventually(t, "the message is received", func() bool { return blocking.activeCount() == i+1 })
	}
	// The idle poller receives nothing several times and must stay.
	first := locked(q, func() int { return len(q.requests) })
	testkit.Eventually(t, "several receives", func() bool { return locked(q, func() bool { return len(q.requests) > first+3 }) })
	q.send("late")
	testkit.Eventually(t, "the late message is received", func() bool { return blocking.activeCount() == 6 })
	close(blocking.release)
	testkit.Eventually(t, "all messages are deleted", func() bool { return locked(q, func() bool { return len(q.deleted) == 6 }) })
}

func TestStartMapping_WindowCollectsLargeBatches(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	var mu sync.Mutex
	var sizes []int
	fn := &fakeFunction{maxConcurrency: 1, handle: func(p []byte) ([]byte, error) {
		var e events.SQSEvent
		json.Unmarshal(p, &e)
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, len(e.Records))
		return nil, nil
	}}
	q.send(strings.Split(strings.Repeat("x ", 29)+"x", " ")...) // 30
	m := eventsource.Mapping{QueueURL: queueURL, Client: q, Function: fn, BatchSize: 25, Window: time.Second}
	if err := eventsource.StartMapping(host.Host, m); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all messages are deleted", func() bool { return locked(q, func() bool { return len(q.deleted) == 30 }) })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(sizes, []int{25, 5}) {
		t.Errorf("batches of %v, want 25 and 5", sizes)
	}
}

func TestStartMapping_BacksOffReceiveErrors(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	q.receiveErr = errors.New("no such queue")
	fn := &fakeFunction{maxConcurrency: 1, handle: func([]byte) ([]byte, error) { return nil, nil }}
	if err := eventsource.StartMapping(host.Host, eventsource.Mapping{QueueURL: queueURL, Client: q, Function: fn}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "several receives", func() bool { return locked(q, func() bool { return len(q.requests) > 3 }) })
	if n := strings.Count(host.log.String(), "no such queue"); n != 1 {
		t.Errorf("the error was logged %d times, want once", n)
	}
	locked(q, func() any { q.receiveErr = nil; return nil })
	q.send("x")
	testkit.Eventually(t, "the message is deleted", func() bool { return locked(q, func() bool { return len(q.deleted) == 1 }) })
}

func TestStartMapping_LogsFailedDelete(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	q.deletesFail = true
	q.send("x")
	fn := &fakeFunction{maxConcurrency: 1, handle: func([]byte) ([]byte, error) { return nil, nil }}
	if err := eventsource.StartMapping(host.Host, eventsource.Mapping{QueueURL: queueURL, Client: q, Function: fn}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the failure is logged", func() bool { return host.logged("1 of 1 failed") })
}

func TestStartMapping_StopFinishesReceivedBatches(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	blocking := &blockingHandler{release: make(chan struct{})}
	if err := eventsource.StartMapping(host.Host, eventsource.Mapping{QueueURL: queueURL, Client: q, Function: &fakeFunction{maxConcurrency: 1, handle: blocking.handle}}); err != nil {
		t.Fatal(err)
	}
	q.send("x")
	testkit.Eventually(t, "the message is received", func() bool { return blocking.activeCount() == 1 })
	stopped := make(chan struct{})
	go func() { host.stop(); close(stopped) }()
	close(blocking.release)
	<-stopped
	if len(q.deleted) != 1 {
		t.Error("a batch that was running at shutdown has not been deleted")
	}
	if err := eventsource.StartMapping(host.Host, eventsource.Mapping{QueueURL: queueURL, Client: q, Function: &fakeFunction{maxConcurrency: 1}}); !errors.Is(err, errClosed) {
		t.Errorf("mapping after shutdown: %v", err)
	}
}

func TestStartMapping_RejectsInvalidMappings(t *testing.T) {
	host, q := newFakeHost(t), newFakeQueue()
	fn := &fakeFunction{maxConcurrency: 1}
	for i, m := range []eventsource.Mapping{
		{},
		{QueueURL: queueURL, Client: q},
		{QueueURL: queueURL, Client: q, Function: fn, BatchSize: 11},
		{QueueURL: queueURL, Client: q, Function: fn, BatchSize: 10_001, Window: time.Second},
		{QueueURL: queueURL, Client: q, Function: fn, BatchSize: -1},
		{QueueURL: queueURL, Client: q, Function: fn, Window: 1500 * time.Millisecond},
		{QueueURL: queueURL, Client: q, Function: fn, LongPoll: 21 * time.Second},
		{QueueURL: queueURL, Client: q, Function: fn, MaxConcurrency: -1},
	} {
		if err := eventsource.StartMapping(host.Host, m); err == nil {
			t.Errorf("mapping %d was accepted", i)
		}
	}
}
