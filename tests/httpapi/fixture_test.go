// Package httpapi tests the HTTP API against its OpenAPI document, with requests that the
// document allows and many that it does not. The real routes, engine, catalog and worker
// API run on the simulation's stores, in one process.
//
// fixture_test.go serves the API. openapi_test.go reads the routes of the document, and
// checks answers against it. values_test.go generates values that match a schema or
// nearly do, requests_test.go generates requests, and generated_test.go sends thousands
// of them. tenants_test.go tries every route as a second tenant. request_limits_test.go
// and execution_limits_test.go try each limit of docs/limits.md, and one more. A route
// that is added to the document fails these tests until they have requests for it.
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
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workerapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// fixture is the HTTP API on a simulation.
type fixture struct {
	*harness.Harness
	handler http.Handler
	log     *bytes.Buffer // errors of the service
	tenant  string        // of requests without an X-Tenant header

	deadLetterQueue func(name string) *sim.DLQ
	received        []sim.Message // by polls over HTTP; the receipt handle is the index
}

// livenessTimeouts are those of workers that poll over HTTP.
var livenessTimeouts = workers.LivenessTimeouts{Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour}

// newFixture returns a fixture in which a worker runs the blocks of package p.
func newFixture(t testing.TB, seed uint64) *fixture {
	return newFixtureWith(t, seed, harness.Options())
}

func newFixtureWith(t testing.TB, seed uint64, o engine.Options) *fixture {
	f := &fixture{Harness: harness.New(t, seed, o), log: &bytes.Buffer{}, tenant: harness.Caller.Tenant}
	f.RegisterBlocks()
	log := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelError}))
	f.handler = api.New(api.Services{Catalog: f.Catalog, Engine: f.Engine, Queries: f.Query, WorkerAPI: f.newWorkerAPI(), Operations: f.newOperations()}, api.Options{
		TrustHeaders: true, Log: log, Version: "test", Commit: "test", NewID: f.NewID, Monitor: monitor.Handler(), Sleep: func(context.Context, time.Duration) error { return nil },
	})
	return f
}

// newWorkerAPI returns the worker API on the simulation's queues.
func (f *fixture) newWorkerAPI() *workerapi.Service {
	now := func() time.Time { return f.Now() }
	return &workerapi.Service{
		WorkerRegistry: &workers.Registry{Workers: f.Open().Workers, Now: now, Timeouts: livenessTimeouts},
		BlockRegistry:  f.Open().Registry,
		NewPorts: func() workerapi.Ports {
			v := f.Open()
			return workerapi.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter}
		},
		UnclaimedJobs: f.Query.UnclaimedJobs,
		PoolQueue: func(_ context.Context, pool string) (workerapi.PoolQueue, error) {
			return queueSource{f, f.PoolQueue(pool)}, nil
		},
		OwnsQueues: func(tenant string) bool { return tenant == ownerTenant },
		TokenKeys:  func(ctx context.Context) (token.Keys, error) { return f.Engine.TokenKeys(ctx) },
		Decode: func(body string) (*workflow.PackMessage, error) {
			var m *workflow.PackMessage
			return m, json.Unmarshal([]byte(body), &m)
		},
		WorkerOptions: worker.Options{LeaseDuration: time.Minute, MaxClockSkew: 2 * time.Second, MaxClaims: 5, UnclaimedTimeout: time.Hour},
		Now:           now, NewNonce: f.Nonce, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// queueSource is a queue of the simulation, polled over HTTP. Its receipt handles are
// numbers; waiting advances the simulation's time.
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

func (f *fixture) rememberMessage(m sim.Message) string {
	f.received = append(f.received, m)
	return strconv.Itoa(len(f.received) - 1)
}

// messageOf returns the message of a delivery; false if the receipt handle is unknown.
func (f *fixture) messageOf(d worker.Delivery) (sim.Message, bool) {
	n, err := strconv.Atoi(d.ReceiptHandle)
	if err != nil || n < 0 || n >= len(f.received) {
		return sim.Message{}, false
	}
	return f.received[n], true
}

func (s queueSource) Depth(context.Context) (waiting, received, delayed int, err error) {
	return s.Len(), 0, 0, nil
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %.1500s", a.status, a.body) }

// do sends a request as the fixture's tenant. Headers are given as "Name: value".
func (f *fixture) do(method, target, body string, headers ...string) answer {
	r, err := http.NewRequest(method, "http://test"+target, strings.NewReader(body))
	if err != nil {
		f.Fatalf("%s %q: %v", method, target, err)
	}
	r.RequestURI = target
	r.Header.Set("X-Tenant", f.tenant)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return f.send(r)
}

func (f *fixture) send(r *http.Request) answer {
	rec := httptest.NewRecorder()
	f.handler.ServeHTTP(rec, r)
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// mustDo sends a request that must succeed, and decodes the answer into v.
func (f *fixture) mustDo(v any, method, target, body string, headers ...string) answer {
	f.Helper()
	a := f.do(method, target, body, headers...)
	if a.status >= 300 {
		f.Fatalf("%s %s %.300s: %s", method, target, body, a)
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			f.Fatalf("%s %s: %v in %s", method, target, err, a)
		}
	}
	return a
}

// operations are the operators' commands, on the simulation's queues. Each queue has its
// own dead letters.
type operations struct {
	*deadletter.Service
	fixture *fixture
}

func (o operations) FireSchedule(ctx context.Context, c workflow.Caller, fullName, key string) (string, bool, error) {
	return scheduler.Fire(ctx, o.fixture.Engine, c, fullName, key)
}

func (o operations) TestSubscription(ctx context.Context, c workflow.Caller, name string) (workflow.DeliveryAttempt, error) {
	return o.fixture.Engine.TestSubscription(ctx, o.fixture.Receivers(), c.Tenant, name)
}

func (o operations) RetryRows(ctx context.Context, c workflow.Caller, table string) (views.RowsRetry, error) {
	return o.fixture.Engine.RetryRows(ctx, c.Tenant, table)
}

func (o operations) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return scheduler.PlanSweep(ctx, o.fixture.Engine, livenessTimeouts, o.fixture.Shards, c.Tenant)
}

func (f *fixture) newOperations() operations {
	now := func() time.Time { return f.Now() }
	queues := map[string]*sim.DLQ{}
	f.deadLetterQueue = func(name string) *sim.DLQ {
		if queues[name] == nil {
			source := f.LifecycleQueue()
			switch name {
			case "events":
				source = f.EventsQueue()
			case "hooks-out":
				source = f.HooksQueue()
			}
			if pool, ok := strings.CutPrefix(name, "jobs-"); ok {
				source = f.PoolQueue(pool)
			}
			queues[name] = &sim.DLQ{Source: source, DeadLetters: f.PoolQueue("dead letters of " + name), Now: now}
		}
		return queues[name]
	}
	return operations{&deadletter.Service{
		Blocks:  f.Open().Registry,
		Open:    func(_ context.Context, name string) (deadletter.Queue, error) { return f.deadLetterQueue(name), nil },
		Decoder: deadletter.Decoder{Wakeup: decodeJSON[workflow.Wakeup], Pack: decodeJSON[*workflow.PackMessage], Announcement: decodeJSON[workflow.Announcement], Delivery: decodeJSON[*workflow.Delivery], BusEvent: decodeJSON[workflow.BusEvent]},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			store := f.Open().Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return engine.DeadLetterNotices(ctx, store, x)
		},
		Now: now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, f}
}

func decodeJSON[T any](body string) (v T, err error) { return v, json.Unmarshal([]byte(body), &v) }

// addDeadLetter adds a wake-up of an execution to the dead letters of the lifecycle queue.
func (f *fixture) addDeadLetter(tenant, execution string) {
	f.Helper()
	raw, err := json.Marshal(workflow.Wakeup{Tenant: tenant, Execution: execution})
	if err != nil {
		f.Fatal(err)
	}
	f.deadLetterQueue("lifecycle").AddDeadLetter(raw)
}
