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

// call is one call of a block, as the contract defines it.
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
	Parameters map[string]any   `json:"parameters"`
	Result     json.RawMessage  `json:"result"`
	Resume     *workflow.Resume `json:"resume"`
	Token      *int64           `json:"token"`
	Fence      string           `json:"fence"`
	Deadline   string           `json:"deadline"`

	key string // the Idempotency-Key header
}

func (c *call) entityID() string {
	if c.Entity == nil {
		return ""
	}
	return c.Entity.ID
}

// entityKey is the entity as type/id; "" for a global call.
func (c *call) entityKey() string {
	if c.Entity == nil {
		return ""
	}
	return c.Entity.Type + "/" + c.Entity.ID
}

// blockAnswer is the reply of a block; nil means OK with a default result.
type blockAnswer map[string]any

func okAnswer(result any) blockAnswer { return blockAnswer{"outcome": "OK", "result": result} }

func errorAnswer(code string, retryable bool) blockAnswer {
	return blockAnswer{"outcome": "ERROR", "error": map[string]any{"code": code, "message": "injected by the test", "retryable": retryable}}
}

// blockServer serves function blocks over HTTP and records every call.
type blockServer struct {
	t      testing.TB
	server *httptest.Server
	url    string

	mu         sync.Mutex
	calls      []call
	inProgress map[string]string // execution of the current call, by entity
	answers    map[string]func(call) blockAnswer
	done       chan struct{}   // closed at the end of the test
	pure       map[string]bool // by name without version
	relocked   map[string]bool // executions that lock again in a later try
	violations []string        // errors that fail every test
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

// allowRelock says that an execution is retried after it has released its locks, so that
// its tokens may rise.
func (b *blockServer) allowRelock(execution string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.relocked[execution] = true
}

// handle sets the handler of a block, by its name without version.
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
		b.violations = append(b.violations, fmt.Sprintf("%s is changed by %s and %s concurrently", c.entityKey(), other, c.Job.Execution))
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
			return // a failed test does not open its gates
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
	_ = json.NewEncoder(w).Encode(a) // fails if the caller has gone, which some tests intend
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

// allCalls returns the calls so far, in order.
func (b *blockServer) allCalls() []call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]call(nil), b.calls...)
}

// checkCalls checks all calls in the order of their arrival and returns what is wrong:
// on one entity, an execution that continues after another has started, a token that
// changes within an execution or falls from one execution to the next, a fence that
// falls, or an idempotency key of two jobs. In an execution that locks again for another
// try, a token may rise.
//
// Calls of pure blocks change nothing and are not checked: a duplicate may arrive at
// any time.
func checkCalls(calls []call, pure, relocked map[string]bool) (wrong []string) {
	type hold struct {
		execution string
		token     int64
	}
	holder := map[string]hold{}
	superseded := map[string]map[string]bool{} // by entity: executions followed by another
	fence := map[string]string{}
	key := map[string]string{}
	for i, c := range calls {
		if ref, _ := workflow.ParseRef(c.Block); c.Entity == nil || pure[ref.Name] {
			continue
		}
		report := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("call %d of %s on %s by %s: ", i, c.Block, c.entityID(), c.Job.Execution)+fmt.Sprintf(format, args...))
		}
		entity := c.entityKey()
		if c.Token == nil {
			report("no token")
			continue
		}
		previous, held := holder[entity]
		switch {
		case !held:
		case previous.execution == c.Job.Execution && previous.token != *c.Token && (previous.token > *c.Token || !relocked[c.Job.Execution]):
			report("token %d after %d", *c.Token, previous.token)
		case previous.execution != c.Job.Execution && superseded[entity][c.Job.Execution]:
			report("it continues after %s", previous.execution)
		case previous.execution != c.Job.Execution && previous.token >= *c.Token:
			report("token %d after %d of %s", *c.Token, previous.token, previous.execution)
		}
		if held && previous.execution != c.Job.Execution {
			if superseded[entity] == nil {
				superseded[entity] = map[string]bool{}
			}
			superseded[entity][previous.execution] = true
		}
		holder[entity] = hold{c.Job.Execution, *c.Token}
		if c.Fence < fence[entity] {
			report("fence %s after %s", c.Fence, fence[entity])
		}
		fence[entity] = max(fence[entity], c.Fence)
		job := fmt.Sprint(c.Operation, c.Job.Execution, c.Job.Step, entity, c.Job.Attempt)
		if c.key != c.Job.ID {
			report("key %s of job %s", c.key, c.Job.ID)
		}
		if other, known := key[c.key]; known && other != job {
			report("key %s belongs to %s and %s", c.key, other, job)
		}
		key[c.key] = job
	}
	return wrong
}
