package front

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
	"github.com/lockstep-run/lockstep/shared/blackboard"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/sim/graveyard"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// world is the HTTP interface over a stage.
type world struct {
	*stage.Stage
	handler http.Handler
	log     *bytes.Buffer // errors that were not the request's fault
	tenant  string        // who asks; headers win

	yard     func(name string) *graveyard.Queue // a queue with its dead letters
	received []queue.Message                    // by those who poll over HTTP; the handle is the place
}

// silence is how long the world's polling workers may be silent.
var silence = roster.Silence{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

// open makes a world in which the blocks of package p are served by a worker.
func open(t testing.TB, seed uint64) *world { return openWith(t, seed, stage.Options()) }

func openWith(t testing.TB, seed uint64, o engine.Options) *world {
	w := &world{Stage: stage.New(t, seed, o), log: &bytes.Buffer{}, tenant: stage.Caller.Tenant}
	w.Blocks()
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelError}))
	w.handler = api.New(api.Services{Catalog: w.Catalog, Engine: w.Engine, View: w.View, Blackboard: w.board(), Upkeep: w.upkeep()}, api.Options{
		TrustHeaders: true, Log: log, Version: "test", Commit: "test", NewID: w.NewID, Monitor: monitor.Handler(),
	})
	return w
}

// board is the blackboard over the world's queues.
func (w *world) board() *blackboard.Service {
	now := func() time.Time { return w.Now() }
	return &blackboard.Service{
		Roster:   &roster.Roster{Workers: w.Open().Workers, Now: now, Silence: silence},
		Registry: w.Open().Registry,
		Open: func() blackboard.Ports {
			v := w.Open()
			return blackboard.Ports{Packs: v.Packs, Queue: v.Board, Meter: v.Meter}
		},
		Pool: func(_ context.Context, pool string) (blackboard.Queue, error) {
			return source{w, w.MakePool(pool)}, nil
		},
		Decode: func(body string) (*workflow.PackMessage, error) {
			var m *workflow.PackMessage
			return m, json.Unmarshal([]byte(body), &m)
		},
		Rules: worker.Options{Lease: time.Minute, Skew: 2 * time.Second, MaxClaims: 5, Unclaimed: time.Hour},
		Now:   now, Nonce: w.Nonce, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// source is one of the world's queues for those who poll over HTTP. Its handles
// are numbers; who waits lets the world's time pass.
type source struct {
	w *world
	*queue.Queue
}

func (s source) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return s.Within(ctx, n, 20*time.Second)
}

func (s source) Within(_ context.Context, _ int, wait time.Duration) ([]worker.Delivery, error) {
	m, ok := s.Queue.Receive(time.Minute)
	if !ok {
		s.w.Advance(max(wait, time.Millisecond))
		return nil, nil
	}
	return []worker.Delivery{{Handle: s.w.keep(m), Body: string(m.Body), Receives: m.Receives}}, nil
}

func (s source) Delete(_ context.Context, d worker.Delivery) error {
	if m, ok := s.w.find(d); ok {
		s.Queue.Delete(m)
	}
	return nil
}

func (s source) Defer(_ context.Context, d worker.Delivery, after time.Duration) error {
	if m, ok := s.w.find(d); ok {
		s.Queue.Defer(m, after)
	}
	return nil
}

func (w *world) keep(m queue.Message) string {
	w.received = append(w.received, m)
	return strconv.Itoa(len(w.received) - 1)
}

// find is the message of a delivery. A handle that nobody was given is of none.
func (w *world) find(d worker.Delivery) (queue.Message, bool) {
	n, err := strconv.Atoi(d.Handle)
	if err != nil || n < 0 || n >= len(w.received) {
		return queue.Message{}, false
	}
	return w.received[n], true
}

func (s source) Depth(context.Context) (waiting, received, delayed int, err error) {
	return s.Len(), 0, 0, nil
}

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %.1500s", a.status, a.body) }

// ask sends a request as the world's tenant. Headers are given as "Name: value".
func (w *world) ask(method, target, body string, headers ...string) answer {
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

func (w *world) send(r *http.Request) answer {
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// must asks and wants a good answer, of which it reads v.
func (w *world) must(v any, method, target, body string, headers ...string) answer {
	w.Helper()
	a := w.ask(method, target, body, headers...)
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
