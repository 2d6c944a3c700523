package eventsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/eventsource"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

const queueURL = "http://127.0.0.1:9324/123456789012/lifecycle"

// fakeQueue is a queue whose seconds last 10 ms and which delivers each message once.
type fakeQueue struct {
	mu            sync.Mutex
	messages      []types.Message
	arrived       chan struct{} // closed and replaced at each send
	receivedCount int
	pollers       int
	requests      []sqs.ReceiveMessageInput
	deleted       []string
	receiveErr    error // returned by receives
	deletesFail   bool
}

func newFakeQueue() *fakeQueue { return &fakeQueue{arrived: make(chan struct{})} }

func (q *fakeQueue) send(bodies ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range bodies {
		id, body := fmt.Sprintf("m%d", q.receivedCount+len(q.messages)), b
		q.messages = append(q.messages, types.Message{MessageId: &id, ReceiptHandle: &id, Body: &body})
	}
	close(q.arrived)
	q.arrived = make(chan struct{})
}

func (q *fakeQueue) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	over := time.After(time.Duration(in.WaitTimeSeconds) * 10 * time.Millisecond)
	q.mu.Lock()
	q.requests = append(q.requests, *in)
	q.pollers++
	defer func() { q.pollers--; q.mu.Unlock() }()
	for {
		if q.receiveErr != nil {
			return nil, q.receiveErr
		}
		if n := min(len(q.messages), int(in.MaxNumberOfMessages)); n > 0 {
			batch := q.messages[:n:n]
			q.messages = q.messages[n:]
			q.receivedCount += n
			return &sqs.ReceiveMessageOutput{Messages: batch}, nil
		}
		arrived := q.arrived
		q.mu.Unlock()
		ended := false
		select {
		case <-arrived:
		case <-over:
			ended = true
		case <-ctx.Done():
			q.mu.Lock()
			return nil, ctx.Err()
		}
		q.mu.Lock()
		if ended {
			return &sqs.ReceiveMessageOutput{}, nil
		}
	}
}

func (q *fakeQueue) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(in.Entries) == 0 || len(in.Entries) > 10 {
		return nil, errors.New("a batch has 1 to 10 entries")
	}
	out := &sqs.DeleteMessageBatchOutput{}
	for _, e := range in.Entries {
		if q.deletesFail {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id})
			continue
		}
		q.deleted = append(q.deleted, *e.ReceiptHandle)
	}
	return out, nil
}

// locked reads the queue under its lock.
func locked[T any](q *fakeQueue, read func() T) T {
	q.mu.Lock()
	defer q.mu.Unlock()
	return read()
}

type fakeFunction struct {
	maxConcurrency int
	handle         func(payload []byte) ([]byte, error)
}

func (f *fakeFunction) Name() string        { return "fn" }
func (f *fakeFunction) MaxConcurrency() int { return f.maxConcurrency }
func (f *fakeFunction) Invoke(_ context.Context, payload []byte) ([]byte, error) {
	return f.handle(payload)
}

var errClosed = errors.New("closed")

// fakeHost is a host whose stop ends the event sources and waits for them.
type fakeHost struct {
	eventsource.Host
	stop func()
	log  testkit.Buffer
}

func newFakeHost(t *testing.T) *fakeHost {
	ctx, cancel := context.WithCancel(context.Background())
	var sources sync.WaitGroup
	g := &fakeHost{}
	g.stop = func() { cancel(); sources.Wait() }
	g.Host = eventsource.Host{
		Region: "us-east-2", Account: "123456789012", Backoff: time.Millisecond, ErrClosed: errClosed,
		NewID: func() string { return "cdc73f9d-aea9-11e3-9d5a-835b769c0d9c" },
		Start: func(f func(context.Context)) error {
			if ctx.Err() != nil {
				return errClosed
			}
			sources.Go(func() { f(ctx) })
			return nil
		},
		Logf: func(function, format string, args ...any) {
			fmt.Fprintf(&g.log, function+": "+format+"\n", args...)
		},
	}
	t.Cleanup(g.stop)
	return g
}

func (g *fakeHost) logged(what string) bool { return strings.Contains(g.log.String(), what) }

// sameJSON compares a document with a file in testdata, ignoring the order of keys.
func sameJSON(t *testing.T, got []byte, file string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := errors.Join(json.Unmarshal(got, &g), json.Unmarshal(want, &w)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		var b bytes.Buffer
		json.Indent(&b, got, "", "  ")
		t.Errorf("got\n%s\nwant %s", b.String(), file)
	}
}
