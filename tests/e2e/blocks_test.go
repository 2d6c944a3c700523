package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// call is one call of a block, as the contract says.
type call struct {
	Operation string `json:"operation"`
	Block     string `json:"block"`
	Job       struct {
		ID        string `json:"id"`
		Execution string `json:"execution"`
		Step      string `json:"step"`
		Attempt   int    `json:"attempt"`
	} `json:"job"`
	Entity *struct {
		Type       string         `json:"type"`
		ID         string         `json:"id"`
		Attributes map[string]any `json:"attributes"`
	} `json:"entity"`
	Parameters map[string]any  `json:"parameters"`
	Result     json.RawMessage `json:"result"`
	Token      *int64          `json:"token"`
	Fence      string          `json:"fence"`
	Deadline   string          `json:"deadline"`

	key string // the Idempotency-Key header
}

func (c *call) entityID() string {
	if c.Entity == nil {
		return ""
	}
	return c.Entity.ID
}

// entityKey is the entity as type/id, "" for a global call.
func (c *call) entityKey() string {
	if c.Entity == nil {
		return ""
	}
	return c.Entity.Type + "/" + c.Entity.ID
}

// blockAnswer is what a block says; nil is OK without a result.
type blockAnswer map[string]any

func okAnswer(result any) blockAnswer { return blockAnswer{"outcome": "OK", "result": result} }

func errorAnswer(code string, retryable bool) blockAnswer {
	return blockAnswer{"outcome": "ERROR", "error": map[string]any{"code": code, "message": "the test says so", "retryable": retryable}}
}

// blockServer serves function blocks over HTTP and remembers every call.
type blockServer struct {
	t      testing.TB
	server *httptest.Server
	url    string

	mu         sync.Mutex
	calls      []call
	inProgress map[string]string // entity -> execution of the call under way
	answers    map[string]func(call) blockAnswer
	done       chan struct{}   // closed when the test is over
	pure       map[string]bool // by name without version
	relocked   map[string]bool // executions that take their locks anew in a further try
	violations []string        // what no test ever wants to see
}

func serveBlocks(t testing.TB) *blockServer {
	b := &blockServer{t: t, inProgress: map[string]string{}, answers: map[string]func(call) blockAnswer{}, pure: map[string]bool{}, relocked: map[string]bool{}, done: make(chan struct{})}
	b.server, b.url = serveReachable(b)
	t.Cleanup(func() {
		close(b.done)
		b.server.Close()
		for _, f := range append(b.violations, checkCalls(b.calls, b.pure, b.relocked)...) {
			t.Error(f)
		}
	})
	return b
}

// allowRelock says that an execution is tried again although it has let go of its
// locks, so that a token of it may rise.
func (b *blockServer) allowRelock(execution string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.relocked[execution] = true
}

// handle decides what a block does, by its name without version.
func (b *blockServer) handle(name string, f func(call) blockAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[name] = f
}

// register registers a block that this server serves.
func (b *blockServer) register(s *localStack, w workflow.Block) {
	s.t.Helper()
	if w.Package == "" {
		w.Package = "test"
	}
	if w.Version == "" {
		w.Version = "1.0.0"
	}
	w.HTTP = &workflow.Endpoint{URL: b.url}
	b.mu.Lock()
	b.pure[w.Name] = w.Pure
	b.mu.Unlock()
	if _, err := s.RegisterBlock(s.t.Context(), w); err != nil {
		s.t.Fatalf("register %s: %v", w.Name, err)
	}
}

func (b *blockServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c call
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.key = r.Header.Get("Idempotency-Key")
	ref, _ := workflow.ParseRef(c.Block)

	b.mu.Lock()
	b.calls = append(b.calls, c)
	changes := c.Entity != nil && !b.pure[ref.Name]
	if other, busy := b.inProgress[c.entityKey()]; changes && busy && other != c.Job.Execution {
		b.violations = append(b.violations, fmt.Sprintf("%s is changed by %s and %s at the same time", c.entityKey(), other, c.Job.Execution))
	}
	if changes {
		b.inProgress[c.entityKey()] = c.Job.Execution
	}
	decide := b.answers[ref.Name]
	b.mu.Unlock()

	var a blockAnswer
	if decide != nil {
		decided := make(chan blockAnswer, 1)
		go func() { decided <- decide(c) }()
		select {
		case a = <-decided:
		case <-b.done:
			return // a test that has failed does not open its gates
		}
	}
	if a == nil {
		a = okAnswer(map[string]any{"entity": c.entityID()})
	}
	b.mu.Lock()
	if changes {
		delete(b.inProgress, c.entityKey())
	}
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // a caller that has gone is what some tests want
}

// count counts the calls that match.
func (b *blockServer) count(match func(call) bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.calls {
		if match(c) {
			n++
		}
	}
	return n
}

// allCalls is a copy of the calls so far, in order.
func (b *blockServer) allCalls() []call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]call(nil), b.calls...)
}
