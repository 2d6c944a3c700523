package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
)

// tableProxy is a DynamoDB of the test's own, in front of which the test can stand:
// a request may be held, and then still arrives, whoever has given it up.
type tableProxy struct {
	process *dynamodb.Process
	http    *httptest.Server

	mu            sync.Mutex
	refuseFunc    func(operation, body string) bool
	onRequestFunc func(operation, body string) <-chan struct{} // nil channel: go on
	heldReplies   []string                                     // replies to what was held
}

func serveTables(t *testing.T) *tableProxy {
	t.Helper()
	requireEmbedded(t, "it stands between the functions and the tables")
	d := &tableProxy{}
	var err error
	if d.process, err = dynamodb.Start(context.Background(), dynamodb.Options{Binary: bin(t, "dynoxide")}); err != nil {
		t.Fatal(err)
	}
	d.http = httptest.NewServer(d)
	t.Cleanup(func() {
		d.http.CloseClientConnections()
		d.http.Close()
		_ = d.process.Stop() // it has been asked to
	})
	return d
}

func (d *tableProxy) env() string { return "AWS_ENDPOINT_URL_DYNAMODB=" + d.http.URL }

// onRequest lets the test look at every request, and hold it.
func (d *tableProxy) onRequest(f func(operation, body string) <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onRequestFunc = f
}

// refuseWhen lets the test look at every request, and have it refused as one that
// could never be performed.
func (d *tableProxy) refuseWhen(f func(operation, body string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuseFunc = f
}

// repliesToHeld are the answers to the requests that were held, as soon as they are
// performed.
func (d *tableProxy) repliesToHeld() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.heldReplies...)
}

func (d *tableProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender has been killed
	}
	d.mu.Lock()
	hold, refuse := d.onRequestFunc, d.refuseFunc
	d.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if refuse != nil && refuse(operation, string(body)) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.validate#ValidationException","message":"the test says so"}`) // a caller that has gone does not mind
		return
	}
	var wait <-chan struct{}
	if hold != nil {
		wait = hold(operation, string(body))
	}
	ctx := r.Context()
	if wait != nil {
		<-wait
		ctx = context.WithoutCancel(ctx) // what is on its way arrives
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, d.process.Endpoint()+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	req.Header = r.Header.Clone()
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees its connection break
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
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
	_, _ = w.Write(text) // a caller that has gone is what some tests want
}
