package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

// queueProxy is a queue service of the test's own, in front of which the test can
// stand: it sees every request before it is performed.
type queueProxy struct {
	server *sqs.Server
	http   *httptest.Server

	mu            sync.Mutex
	onRequestFunc func(operation, body string) <-chan struct{} // nil channel: go on
}

func serveQueues(t *testing.T) *queueProxy {
	t.Helper()
	requireEmbedded(t, "it stands between the functions and the queues")
	q := &queueProxy{}
	var err error
	q.server, err = sqs.New(sqs.Options{AutoCreate: func(name string) (map[string]string, bool) {
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

// setFaults switches the service's own misfortunes.
func (q *queueProxy) setFaults(t *testing.T, f sqs.Faults) {
	t.Helper()
	if err := q.server.SetFaults(f); err != nil {
		t.Fatal(err)
	}
}

// onRequest lets the test look at every request, and hold it.
func (q *queueProxy) onRequest(f func(operation, body string) <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.onRequestFunc = f
}

func (q *queueProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender has been killed
	}
	q.mu.Lock()
	hold := q.onRequestFunc
	q.mu.Unlock()
	if hold != nil {
		if wait := hold(strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS."), string(body)); wait != nil {
			select {
			case <-wait:
			case <-r.Context().Done():
				return // killed while it was held: never performed
			}
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	q.server.ServeHTTP(w, r)
}
