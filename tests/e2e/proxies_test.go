package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// queueProxy is an embedded queue server of the test that passes every request to a
// function of the test before it performs it.
type queueProxy struct {
	server *sqs.Server
	http   *httptest.Server

	mu            sync.Mutex
	onRequestFunc func(operation, body string) <-chan struct{} // a nil channel means no hold
	visibility    time.Duration                                // of received messages; 0 means that of their queue
}

func serveQueues(t *testing.T) *queueProxy {
	t.Helper()
	requireEmbedded(t, "it intercepts requests to the queues")
	q := &queueProxy{}
	dir, err := suiteScan.newDir()
	if err != nil {
		t.Fatal(err)
	}
	q.server, err = sqs.New(sqs.Options{Dir: dir, AutoCreate: func(name string) (map[string]string, bool) {
		return map[string]string{"VisibilityTimeout": "60"}, strings.HasPrefix(name, "lockstep-")
	}})
	if err != nil {
		t.Fatal(err)
	}
	q.http = httptest.NewServer(q)
	t.Cleanup(func() {
		_ = q.server.Close()
		q.http.CloseClientConnections()
		q.http.Close()
	})
	return q
}

func (q *queueProxy) env() string { return "AWS_ENDPOINT_URL_SQS=" + q.http.URL }

// setFaults sets the faults of the queue server.
func (q *queueProxy) setFaults(t *testing.T, f sqs.Faults) {
	t.Helper()
	if err := q.server.SetFaults(f); err != nil {
		t.Fatal(err)
	}
}

// onRequest sets a function that sees every request and may hold it until a channel is
// closed.
func (q *queueProxy) onRequest(f func(operation, body string) <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.onRequestFunc = f
}

// setVisibility makes messages that are received from now on come again after d, unless they are
// deleted.
func (q *queueProxy) setVisibility(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.visibility = d
}

func (q *queueProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender has been killed
	}
	q.mu.Lock()
	hold, visibility := q.onRequestFunc, q.visibility
	q.mu.Unlock()
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	if hold != nil {
		if wait := hold(operation, string(body)); wait != nil {
			select {
			case <-wait:
			case <-r.Context().Done():
				return // the sender was killed while the request was held: never performed
			}
		}
	}
	if operation == "ReceiveMessage" && visibility > 0 {
		var request map[string]any
		if json.Unmarshal(body, &request) == nil { // else the server refuses it
			request["VisibilityTimeout"] = int(visibility.Seconds())
			body, _ = json.Marshal(request)
			r.ContentLength = int64(len(body))
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	q.server.ServeHTTP(w, r)
}

// tableProxy is a DynamoDB of the test whose requests the test can hold and reject. A
// held request arrives later, even if its sender has given up.
type tableProxy struct {
	process *dynamodb.Process
	http    *httptest.Server

	mu            sync.Mutex
	rejectFunc    func(operation, body string) bool
	onRequestFunc func(operation, body string) <-chan struct{} // a nil channel means no hold
	heldReplies   []string                                     // replies to held requests
}

func serveTables(t *testing.T) *tableProxy {
	t.Helper()
	requireEmbedded(t, "it intercepts requests to the tables")
	d := &tableProxy{}
	dir, err := suiteScan.newDir()
	if err != nil {
		t.Fatal(err)
	}
	if d.process, err = dynamodb.Start(context.Background(), dynamodb.Options{Binary: testkit.Binary(t, "dynoxide"), Dir: dir}); err != nil {
		t.Fatal(err)
	}
	d.http = httptest.NewServer(d)
	t.Cleanup(func() {
		d.http.CloseClientConnections()
		d.http.Close()
		_ = d.process.Stop() // its exit status does not matter
	})
	return d
}

func (d *tableProxy) env() string { return "AWS_ENDPOINT_URL_DYNAMODB=" + d.http.URL }

// onRequest sets a function that sees every request and may hold it until a channel is
// closed.
func (d *tableProxy) onRequest(f func(operation, body string) <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onRequestFunc = f
}

// rejectWhen sets a function that sees every request and may reject it as invalid.
func (d *tableProxy) rejectWhen(f func(operation, body string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rejectFunc = f
}

// repliesToHeld returns the replies to held requests that have been performed.
func (d *tableProxy) repliesToHeld() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.heldReplies...)
}

func (d *tableProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender has been killed
	}
	d.mu.Lock()
	hold, reject := d.onRequestFunc, d.rejectFunc
	d.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if reject != nil && reject(operation, string(body)) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.validate#ValidationException","message":"injected by the test"}`) // fails if the caller has gone
		return
	}
	var wait <-chan struct{}
	if hold != nil {
		wait = hold(operation, string(body))
	}
	ctx := r.Context()
	if wait != nil {
		<-wait
		ctx = context.WithoutCancel(ctx) // a held request arrives even without its sender
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, d.process.Endpoint()+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	req.Header = r.Header.Clone()
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees a broken connection
	}
	defer func() { _ = reply.Body.Close() }() // already read
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if wait != nil {
		d.mu.Lock()
		d.heldReplies = append(d.heldReplies, reply.Status+" "+string(text))
		d.mu.Unlock()
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.StatusCode)
	_, _ = w.Write(text) // fails if the caller has gone, which some tests intend
}
