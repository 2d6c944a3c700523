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

// commandServer answers the workers of tests/localstack/faulty with what they should do.
type commandServer struct {
	url string

	mu         sync.Mutex
	commands   map[string][]string // by pool, or pool/entity; the last one stays
	seenFences map[string][]string // fences of the jobs, by pool/entity
}

func startCommandServer(t *testing.T) *commandServer {
	s := &commandServer{commands: map[string][]string{}, seenFences: map[string][]string{}}
	s.url = serveForFunctions(t, s)
	return s
}

// setCommands sets the commands for a pool's workers when they start (pool), or for an
// entity's jobs (pool/entity), one for each request.
func (s *commandServer) setCommands(target string, commands ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands[target] = commands
}

// fences returns the fences of an entity's jobs, in the order of their requests.
func (s *commandServer) fences(target string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seenFences[target]...)
}

func (s *commandServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	target := strings.Join(parts[:min(2, len(parts))], "/")
	if len(parts) > 2 {
		s.seenFences[target] = append(s.seenFences[target], parts[2])
	}
	command := "work"
	if given := s.commands[target]; len(given) > 0 {
		command = given[0]
		if len(given) > 1 {
			s.commands[target] = given[1:]
		}
	}
	_, _ = fmt.Fprintln(w, command) // fails if the worker has ended
}

// listenAll listens on all interfaces, so that containers can connect.
func listenAll(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "0.0.0.0:0") //nolint:gosec // intended
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serveForFunctions starts a server that functions call, and returns its URL for them. In a
// container, this machine has another name, and its loopback interface is not available.
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
