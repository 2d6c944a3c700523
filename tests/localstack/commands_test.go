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

// commandServer is the server that tells the workers of tests/localstack/faulty what to do.
type commandServer struct {
	url string

	mu         sync.Mutex
	commands   map[string][]string // orders by pool, or pool/entity; the last one stays
	seenFences map[string][]string // fences of the jobs, by pool/entity
}

func startCommandServer(t *testing.T) *commandServer {
	o := &commandServer{commands: map[string][]string{}, seenFences: map[string][]string{}}
	o.url = serveForFunctions(t, o)
	return o
}

// setCommands sets the orders for a worker's start (pool) or an entity's jobs
// (pool/entity), one for each time it asks.
func (o *commandServer) setCommands(whom string, what ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.commands[whom] = what
}

// fences of the jobs on an entity that have asked, in their order.
func (o *commandServer) fences(whom string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seenFences[whom]...)
}

func (o *commandServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	o.mu.Lock()
	defer o.mu.Unlock()
	whom := strings.Join(parts[:min(2, len(parts))], "/")
	if len(parts) > 2 {
		o.seenFences[whom] = append(o.seenFences[whom], parts[2])
	}
	order := "work"
	if given := o.commands[whom]; len(given) > 0 {
		order = given[0]
		if len(given) > 1 {
			o.commands[whom] = given[1:]
		}
	}
	_, _ = fmt.Fprintln(w, order) // a worker that has gone asks again
}

// listenAll is a listener that containers reach.
func listenAll(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "0.0.0.0:0") //nolint:gosec // that is what is meant
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serveForFunctions serves something that functions call, and returns its address as they know
// it. From within a container, this machine has another name, and its loopback
// interface is out of reach.
func serveForFunctions(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	if localStack.HostAddress() != "127.0.0.1" {
		_ = server.Listener.Close()
		server.Listener = listenAll(t)
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return "http://" + localStack.HostAddress() + server.URL[strings.LastIndex(server.URL, ":"):]
}
