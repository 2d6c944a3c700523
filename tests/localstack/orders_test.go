package localstack

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// orders is the server that tells the workers of tests/localstack/faulty what to do.
type orders struct {
	url string

	mu    sync.Mutex
	next  map[string][]string // orders by pool, or pool/entity; the last one stays
	asked map[string][]string // fences of the jobs, by pool/entity
}

func serveOrders(t *testing.T) *orders {
	o := &orders{next: map[string][]string{}, asked: map[string][]string{}}
	o.url = serve(t, o)
	return o
}

// give sets the orders for a worker's start (pool) or an entity's jobs
// (pool/entity), one for each time it asks.
func (o *orders) give(whom string, what ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next[whom] = what
}

// fences of the jobs on an entity that have asked, in their order.
func (o *orders) fences(whom string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.asked[whom]...)
}

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	o.mu.Lock()
	defer o.mu.Unlock()
	whom := strings.Join(parts[:min(2, len(parts))], "/")
	if len(parts) > 2 {
		o.asked[whom] = append(o.asked[whom], parts[2])
	}
	order := "work"
	if given := o.next[whom]; len(given) > 0 {
		order = given[0]
		if len(given) > 1 {
			o.next[whom] = given[1:]
		}
	}
	_, _ = fmt.Fprintln(w, order) // a worker that has gone asks again
}

// everywhere is a listener that containers reach.
func everywhere(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "0.0.0.0:0") //nolint:gosec // that is what is meant
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serve serves something that functions call, and returns its address as they know
// it. From within a container, this machine has another name, and its loopback
// interface is out of reach.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	if emulator.Reach() != "127.0.0.1" {
		_ = server.Listener.Close()
		server.Listener = everywhere(t)
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return "http://" + emulator.Reach() + server.URL[strings.LastIndex(server.URL, ":"):]
}
