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

func (c *call) on() string {
	if c.Entity == nil {
		return ""
	}
	return c.Entity.ID
}

// place is the entity as type/id, "" for a global call.
func (c *call) place() string {
	if c.Entity == nil {
		return ""
	}
	return c.Entity.Type + "/" + c.Entity.ID
}

// answer is what a block says; nil is OK without a result.
type answer map[string]any

func ok(result any) answer { return answer{"outcome": "OK", "result": result} }

func failed(code string, retryable bool) answer {
	return answer{"outcome": "ERROR", "error": map[string]any{"code": code, "message": "the test says so", "retryable": retryable}}
}

// blocks serves function blocks over HTTP and remembers every call.
type blocks struct {
	t      testing.TB
	server *httptest.Server
	url    string

	mu      sync.Mutex
	calls   []call
	running map[string]string // entity -> execution of the call under way
	answers map[string]func(call) answer
	over    chan struct{}   // closed when the test is over
	pure    map[string]bool // by name without version
	anew    map[string]bool // executions that take their locks anew in a further try
	faults  []string        // what no test ever wants to see
}

func serveBlocks(t testing.TB) *blocks {
	b := &blocks{t: t, running: map[string]string{}, answers: map[string]func(call) answer{}, pure: map[string]bool{}, anew: map[string]bool{}, over: make(chan struct{})}
	b.server, b.url = reachable(b)
	t.Cleanup(func() {
		close(b.over)
		b.server.Close()
		for _, f := range append(b.faults, judge(b.calls, b.pure, b.anew)...) {
			t.Error(f)
		}
	})
	return b
}

// locksAnew says that an execution is tried again although it has let go of its
// locks, so that a token of it may rise.
func (b *blocks) locksAnew(execution string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.anew[execution] = true
}

// answer decides what a block does, by its name without version.
func (b *blocks) answer(name string, f func(call) answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[name] = f
}

// register registers a block that this server serves.
func (b *blocks) register(s *system, w workflow.Block) {
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

func (b *blocks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	if other, busy := b.running[c.place()]; changes && busy && other != c.Job.Execution {
		b.faults = append(b.faults, fmt.Sprintf("%s is changed by %s and %s at the same time", c.place(), other, c.Job.Execution))
	}
	if changes {
		b.running[c.place()] = c.Job.Execution
	}
	decide := b.answers[ref.Name]
	b.mu.Unlock()

	var a answer
	if decide != nil {
		decided := make(chan answer, 1)
		go func() { decided <- decide(c) }()
		select {
		case a = <-decided:
		case <-b.over:
			return // a test that has failed does not open its gates
		}
	}
	if a == nil {
		a = ok(map[string]any{"entity": c.on()})
	}
	b.mu.Lock()
	if changes {
		delete(b.running, c.place())
	}
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // a caller that has gone is what some tests want
}

// called counts the calls that match.
func (b *blocks) called(match func(call) bool) int {
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

// all is a copy of the calls so far, in order.
func (b *blocks) all() []call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]call(nil), b.calls...)
}
