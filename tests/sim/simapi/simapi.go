// Package simapi serves the HTTP API of a harness: the real routes, engine, catalog, worker API and commands of
// operators, on the simulation's stores and queues, in one process. Tests of the API and of the command line use it.
package simapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/deadletter"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/monitor"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workerapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Service is the HTTP API of a harness. Like the harness, it takes one request at a time.
type Service struct {
	*harness.Harness
	Handler http.Handler
	Errors  *bytes.Buffer // the log of what went wrong in the service

	deadLetter map[string]*sim.DLQ
	received   []sim.Message // by polls over HTTP; the receipt handle is the index
}

// New serves the API of a harness. ownsQueues says which tenants may poll the queues of pools.
func New(h *harness.Harness, ownsQueues func(tenant string) bool) *Service {
	s := &Service{Harness: h, Errors: &bytes.Buffer{}, deadLetter: map[string]*sim.DLQ{}}
	log := slog.New(slog.NewTextHandler(s.Errors, &slog.HandlerOptions{Level: slog.LevelError}))
	s.Handler = api.New(api.Services{Catalog: h.Catalog, Engine: h.Engine, Queries: h.Query, WorkerAPI: h.NewWorkerAPI(s.poolQueue, ownsQueues), Operations: s.newOperations()}, api.Options{
		TrustHeaders: true, Log: log, Version: "test", Commit: "test", NewID: func() string { return h.NewID() }, Monitor: monitor.Handler(), Sleep: func(context.Context, time.Duration) error { return nil },
	})
	return s
}

func (s *Service) poolQueue(pool string) workerapi.PoolQueue {
	return queueSource{s, s.PoolQueue(pool)}
}

// queueSource is a queue of the simulation, polled over HTTP. Its receipt handles are
// numbers; waiting advances the simulation's time.
type queueSource struct {
	service *Service
	*sim.Queue
}

func (s queueSource) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	return s.ReceiveWithin(ctx, n, 20*time.Second)
}

func (s queueSource) ReceiveWithin(_ context.Context, _ int, wait time.Duration) ([]worker.Delivery, error) {
	m, ok := s.Queue.Receive(time.Minute)
	if !ok {
		s.service.Advance(max(wait, time.Millisecond))
		return nil, nil
	}
	return []worker.Delivery{{ReceiptHandle: s.service.rememberMessage(m), Body: string(m.Body), ReceiveCount: m.Receives}}, nil
}

func (s queueSource) Delete(_ context.Context, d worker.Delivery) error {
	if m, ok := s.service.messageOf(d); ok {
		s.Queue.Delete(m)
	}
	return nil
}

func (s queueSource) Defer(_ context.Context, d worker.Delivery, after time.Duration) error {
	if m, ok := s.service.messageOf(d); ok {
		s.Queue.ChangeVisibility(m, after)
	}
	return nil
}

func (s *Service) rememberMessage(m sim.Message) string {
	s.received = append(s.received, m)
	return strconv.Itoa(len(s.received) - 1)
}

// messageOf returns the message of a delivery; false if the receipt handle is unknown.
func (s *Service) messageOf(d worker.Delivery) (sim.Message, bool) {
	n, err := strconv.Atoi(d.ReceiptHandle)
	if err != nil || n < 0 || n >= len(s.received) {
		return sim.Message{}, false
	}
	return s.received[n], true
}

func (s queueSource) Depth(context.Context) (waiting, received, delayed int, err error) {
	return s.Len(), 0, 0, nil
}

// operations are the operators' commands, on the simulation's queues. Each queue has its
// own dead letters.
type operations struct {
	*deadletter.Service
	service *Service
}

func (o operations) FireSchedule(ctx context.Context, c workflow.Caller, fullName, key string) (string, bool, error) {
	return scheduler.Fire(ctx, o.service.Engine, c, fullName, key)
}

func (o operations) TestSubscription(ctx context.Context, c workflow.Caller, name string) (workflow.DeliveryAttempt, error) {
	return o.service.Engine.TestSubscription(ctx, o.service.Receivers(), c.Tenant, name)
}

func (o operations) RetryRows(ctx context.Context, c workflow.Caller, table string) (views.RowsRetry, error) {
	return o.service.Engine.RetryRows(ctx, c.Tenant, table)
}

func (o operations) NextSweep(ctx context.Context, c workflow.Caller) (views.SweepView, error) {
	return scheduler.PlanSweep(ctx, o.service.Engine, harness.LivenessTimeouts, o.service.Shards, c.Tenant)
}

func (s *Service) newOperations() operations {
	now := func() time.Time { return s.Now() }
	return operations{&deadletter.Service{
		Blocks:  s.Open().Registry,
		Open:    func(_ context.Context, name string) (deadletter.Queue, error) { return s.DeadLetterQueue(name), nil },
		Decoder: deadletter.Decoder{Wakeup: decodeJSON[workflow.Wakeup], Pack: decodeJSON[*workflow.PackMessage], Announcement: decodeJSON[workflow.Announcement], Delivery: decodeJSON[*workflow.Delivery], BusEvent: decodeJSON[workflow.BusEvent]},
		Reasons: func(ctx context.Context, tenant, execution string) (map[string]workflow.DeadLetter, error) {
			store := s.Open().Store
			x, err := store.Load(ctx, tenant, execution)
			if err != nil {
				return nil, err
			}
			return engine.DeadLetterNotices(ctx, store, x)
		},
		Now: now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, s}
}

func decodeJSON[T any](body string) (v T, err error) { return v, json.Unmarshal([]byte(body), &v) }

// DeadLetterQueue returns the dead letters of a queue, by the name that operators use.
func (s *Service) DeadLetterQueue(name string) *sim.DLQ {
	if s.deadLetter[name] == nil {
		source := s.LifecycleQueue()
		switch name {
		case "events":
			source = s.EventsQueue()
		case "hooks-out":
			source = s.HooksQueue()
		}
		if pool, ok := strings.CutPrefix(name, "jobs-"); ok {
			source = s.PoolQueue(pool)
		}
		s.deadLetter[name] = &sim.DLQ{Source: source, DeadLetters: s.PoolQueue("dead letters of " + name), Now: func() time.Time { return s.Now() }}
	}
	return s.deadLetter[name]
}
