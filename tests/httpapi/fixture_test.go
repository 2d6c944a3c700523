package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/workerapi"
	"github.com/lockstep-run/lockstep/tests/sim"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// fixture is the HTTP interface over a stage.
type fixture struct {
	*harness.Harness
	handler http.Handler
	log     *bytes.Buffer // errors that were not the request's fault
	tenant  string        // who asks; headers win

	deadLetterQueue func(name string) *sim.DLQ // a queue with its dead letters
	received        []sim.Message              // by those who poll over HTTP; the handle is the place
}

// livenessTimeouts is how long the world's polling workers may be silent.
var livenessTimeouts = workers.LivenessTimeouts{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

// newFixture makes a world in which the blocks of package p are served by a worker.
func newFixture(t testing.TB, seed uint64) *fixture {
	return newFixtureWith(t, seed, harness.Options())
}

func newFixtureWith(t testing.TB, seed uint64, o engine.Options) *fixture {
	w := &fixture{Harness: harness.New(t, seed, o), log: &bytes.Buffer{}, tenant: harness.Caller.Tenant}
	w.RegisterBlocks()
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelError}))
	w.handler = api.New(api.Services{Catalog: w.Catalog, Engine: w.Engine, Queries: w.Query, WorkerAPI: w.newWorkerAPI(), Operations: w.newOperations()}, api.Options{
		TrustHeaders: true, Log: log, Version: "test", Commit: "test", NewID: w.NewID, Monitor: monitor.Handler(),
	})
	return w
}

// newWorkerAPI is the blackboard over the world's queues.
func (w *fixture) newWorkerAPI() *workerapi.Service {
	now := func() time.Time { return w.Now() }
	return &workerapi.Service{
		WorkerRegistry: &workers.Registry{Workers: w.Open().Workers, Now: now, Timeouts: livenessTimeouts},
		BlockRegistry:  w.Open().Registry,
		NewPorts: func() workerapi.Ports {
			v := w.Open()
			return workerapi.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
		},
		PoolQueue: func(_ context.Context, pool string) (workerapi.PoolQueue, error) {
			return queueSource{w, w.PoolQueue(pool)}, nil
		},
		Decode: func(body string) (*workflow.PackMessage, error) {
			var m *workflow.PackMessage
			return m, json.Unmarshal([]byte(body), &m)
		},
		WorkerOptions: worker.Options{LeaseDuration: time.Minute, MaxClockSkew: 2 * time.Second, MaxClaims: 5, UnclaimedTimeout: time.Hour},
		Now:           now, NewNonce: w.Nonce, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// queueSource is one of the world's queues for those who poll over HTTP. Its handles
// are numbers; who waits lets the world's time pass.
type queueSource struct {
	fixture *fixture
	*sim.Queue
}

func (s queueSource) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return s.ReceiveWithin(ctx, n, 20*time.Second)
}

func (s queueSource) ReceiveWithin(_ context.Context, _ int, wait time.Duration) ([]worker.Delivery, error) {
	m, ok := s.Queue.Receive(time.Minute)
	if !ok {
		s.fixture.Advance(max(wait, time.Millisecond))
		return nil, nil
	}
	return []worker.Delivery{{ReceiptHandle: s.fixture.rememberMessage(m), Body: string(m.Body), ReceiveCount: m.Receives}}, nil
}

func (s queueSource) Delete(_ context.Context, d worker.Delivery) error {
	if m, ok := s.fixture.messageOf(d); ok {
		s.Queue.Delete(m)
	}
	return nil
}

func (s queueSource) Defer(_ context.Context, d worker.Delivery, after time.Duration) error {
	if m, ok := s.fixture.messageOf(d); ok {
		s.Queue.ChangeVisibility(m, after)
	}
	return nil
}

func (w *fixture) rememberMessage(m sim.Message) string {
	w.received = append(w.received, m)
	return strconv.Itoa(len(w.received) - 1)
}

// messageOf is the message of a delivery. A handle that nobody was given is of none.
func (w *fixture) messageOf(d worker.Delivery) (sim.Message, bool) {
	n, err := strconv.Atoi(d.ReceiptHandle)
	if err != nil || n < 0 || n >= len(w.received) {
		return sim.Message{}, false
	}
	return w.received[n], true
}

func (s queueSource) Depth(context.Context) (waiting, received, delayed int, err error) {
	return s.Len(), 0, 0, nil
}

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %.1500s", a.status, a.body) }

// do sends a request as the world's tenant. Headers are given as "Name: value".
func (w *fixture) do(method, target, body string, headers ...string) answer {
	r, err := http.NewRequest(method, "http://test"+target, strings.NewReader(body))
	if err != nil {
		w.Fatalf("%s %q: %v", method, target, err)
	}
	r.RequestURI = target
	r.Header.Set("X-Tenant", w.tenant)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return w.send(r)
}

func (w *fixture) send(r *http.Request) answer {
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// mustDo asks and wants a good answer, of which it reads v.
func (w *fixture) mustDo(v any, method, target, body string, headers ...string) answer {
	w.Helper()
	a := w.do(method, target, body, headers...)
	if a.status >= 300 {
		w.Fatalf("%s %s %.300s: %s", method, target, body, a)
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			w.Fatalf("%s %s: %v in %s", method, target, err, a)
		}
	}
	return a
}
