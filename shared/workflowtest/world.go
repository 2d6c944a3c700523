package workflowtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/sealed"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// world is the whole system in memory. One goroutine does everything, so that a test runs in the
// same way each time.
type world struct {
	*sim.World
	engine  *engine.Engine
	query   *query.Service
	catalog *catalog.Catalog
	worker  *worker.Worker
	config  config.Config
	log     *slog.Logger
	pools   []*sim.Queue // of the only worker: the default one, and those of the regions that definitions name
	failure error        // of the engine, which no test can cause

	notStarted map[string][]error // by execution, why its ends did not start what they should
}

// visibilityTimeout is how long a message stays hidden if its handler has not succeeded.
const visibilityTimeout = 30 * time.Second

// maxMessages bounds what is delivered while the clock stands still.
const maxMessages = 1_000_000

func newWorld(s *setting, at time.Time) (*world, error) {
	defaults, err := config.Parse(nil, nil)
	if err != nil {
		return nil, err
	}
	w := &world{World: sim.New(1), notStarted: map[string][]error{}, config: defaults, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	w.Advance(at.Sub(w.Now()))
	w.serveRegion("")
	endpoints := workflow.Endpoints(s.endpoints)
	o := engine.ConfiguredOptions(w.config, endpoints)
	o.Address = "https://lockstep.test"
	o.Policy.Retention = 0 // the result is read after the end, whenever that is
	o.Parallelism, o.Dispatch.Parallel = 1, 1
	o.SubscriptionsAge = observe
	keys := func(context.Context) (token.Keys, error) {
		return token.ParseKeys([]byte(`{"current":"test","keys":{"test":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("test"), 8)) + `"}}`))
	}
	sealer := sealed.InMemory(w.Now)
	w.engine = engine.New(engine.Deps{
		Now: w.Now, NewID: w.NewID, Nonce: w.Nonce, Backoff: func(int) {}, TokenKeys: keys, Sealer: sealer, Log: w.log,
		OpenPorts: func() port.Ports {
			v := w.Open()
			return port.Ports{Store: v.Store, Locks: v.Locks, Packs: v.Packs, Sender: v.Sender, Registry: v.Registry, Workers: v.Workers, Schedules: v.Schedules, Rows: v.Rows, Meter: v.Meter}
		},
	}, o, "test")
	w.query = query.New(w.engine, 1)
	w.catalog = catalog.New(func() catalog.Ports {
		v := w.Open()
		return catalog.Ports{Locks: w.query, LockItems: v.Locks, Registry: v.Registry, Schedules: v.Schedules, Sender: v.Sender, Endpoints: endpoints, AnyTable: true}
	}, w.Now)
	w.worker = worker.New(worker.Options{
		Name: "test", Concurrency: 1000, LeaseDuration: w.config.Job.Lease, MaxClockSkew: w.config.Clock.Skew, MaxClaims: w.config.Job.MaxTakeovers,
		UnclaimedTimeout: w.config.Job.Unclaimed, Sequential: true, Logger: w.log, Secrets: secrets(s.secrets), Sealed: sealer,
		Now: w.Now, NewNonce: w.Nonce, Jitter: func() float64 { return 0 },
	})
	return w, nil
}

// secrets are the secrets of a test file.
type secrets map[string]string

// Secret returns the value of a secret.
func (s secrets) Secret(_ context.Context, _, name string) (string, error) {
	value, ok := s[name]
	if !ok {
		return "", workflow.Errorf(workflow.CodeNotFound, "the test file has no secret %q", name)
	}
	return value, nil
}

// deliver delivers one visible message, and reports whether there was one.
func (w *world) deliver(ctx context.Context) bool {
	if m, ok := w.LifecycleQueue().Receive(visibilityTimeout); ok {
		wakeup := m.Wakeup()
		if err := w.engine.Advance(ctx, wakeup); err != nil {
			w.engine.RecordFailure(ctx, wakeup, err)
			w.failure = err
		} else {
			w.LifecycleQueue().Delete(m)
		}
		return true
	}
	for _, q := range w.pools {
		if m, ok := q.Receive(w.config.Job.Lease); ok {
			w.work(ctx, q, m)
			return true
		}
	}
	return w.deliverEnd(ctx)
}

// serveRegion makes the worker serve a region.
func (w *world) serveRegion(region string) {
	if q := w.PoolQueue(topology.PoolInRegion(topology.PoolDefault, region)); !slices.Contains(w.pools, q) {
		w.pools = append(w.pools, q)
	}
}

// work lets the worker handle the message of a pack. A message that is received too often becomes a
// dead letter, which the engine learns about, as in the service.
func (w *world) work(ctx context.Context, q *sim.Queue, m sim.Message) {
	v, pack := w.Open(), m.Pack()
	final := worker.NewFinalReceive(worker.FinalReceiveOptions{
		MaxReceives: topology.MaxReceiveJobs, LeaseDuration: w.config.Job.Lease, WakeupSender: v.Sender, Logger: w.log,
	}, m.ID(), m.Receives, pack)
	ports := worker.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter, OnUnclaimedStart: final.ReportUnclaimedStart}
	var d worker.Disposition
	var err error
	crashed := faults.CatchCrash(func() { d, err = w.worker.Handle(ctx, pack, ports) })
	if !crashed {
		final.ReportFailure(ctx, err)
	}
	switch {
	case (crashed || err != nil) && m.Receives >= topology.MaxReceiveJobs:
		q.Delete(m)
	case crashed || err != nil: // it comes again
	case d.Done:
		q.Delete(m)
	default:
		q.ChangeVisibility(m, max(d.RetryAfter, time.Second))
	}
}

// drain delivers all messages that are visible now. The clock does not move.
func (w *world) drain(ctx context.Context) error {
	for n := 0; w.deliver(ctx); n++ {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.failure != nil:
			return fmt.Errorf("the engine has failed: %w", w.failure)
		case n > maxMessages:
			return fmt.Errorf("%d messages were sent at one time, and there are more", maxMessages)
		}
	}
	return nil
}

// next moves the clock to the next time at which something happens, and lets that happen. If that
// is after until or never, it does nothing and returns false.
func (w *world) next(ctx context.Context, until time.Time) (bool, error) {
	now, found, sweeps := w.Now(), false, false
	at := until
	for _, q := range append([]*sim.Queue{w.LifecycleQueue(), w.EventsQueue(), w.HooksQueue()}, w.pools...) {
		if t, ok := q.NextVisible(); ok && !t.After(at) {
			at, found = t, true
		}
	}
	if due, ok := w.NextTimer(); ok {
		every := w.config.SweepInterval
		t := now.Truncate(every).Add(every)
		if due.After(t) {
			t = due.Add(every - 1).Truncate(every)
		}
		if !t.After(at) {
			at, found, sweeps = t, true, true
		}
	}
	if !found {
		return false, nil
	}
	w.Advance(max(at.Sub(now), 0))
	if sweeps {
		c := w.config.Worker
		if _, err := scheduler.Sweep(ctx, w.engine, workers.LivenessTimeouts{Unreachable: c.Unreachable, Offline: c.Offline, Forget: c.Forget}, w.Shards); err != nil {
			return false, err
		}
	}
	return true, w.drain(ctx)
}

// runUntil runs until a time, or until done is true. It reports whether done is true.
func (w *world) runUntil(ctx context.Context, until time.Time, done func() bool) (bool, error) {
	if err := w.drain(ctx); err != nil {
		return false, err
	}
	for !done() {
		if ok, err := w.next(ctx, until); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// runFor runs for some time.
func (w *world) runFor(ctx context.Context, d time.Duration) error {
	until := w.Now().Add(d)
	if _, err := w.runUntil(ctx, until, func() bool { return false }); err != nil {
		return err
	}
	w.Advance(max(until.Sub(w.Now()), 0))
	return w.drain(ctx)
}
