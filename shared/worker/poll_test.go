package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

func decode(body string) (m *workflow.PackMessage, err error) {
	err = json.Unmarshal([]byte(body), &m)
	return m, err
}

func body(t *testing.T, m *workflow.PackMessage) string {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestHandleBatch_ReportsOnlyFailedRecords: only what has failed is reported, and a panic is one record's alone.
func TestHandleBatch_ReportsOnlyFailedRecords(t *testing.T) {
	r := newFixture(t)
	w := r.worker(func(o *worker.Options) { o.Sequential = false })
	batch := func(records ...worker.Record) []string {
		return worker.HandleBatch(context.Background(), w, records, decode, r.ports)
	}
	if failed := batch(); failed == nil || len(failed) != 0 {
		t.Errorf("%#v: a list, never nil", failed)
	}
	later := r.newMessage(idempotent, 2, 9, 1)
	later.NotBefore = r.Now().Add(20 * time.Minute)
	later.Cost = workflow.Cost{Invocations: 0.5}
	r.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "packs.finish_unclaimed" {
			return faults.CrashBefore // a panic, to whoever does not know what it means
		}
		return faults.None
	}
	failed := batch(
		worker.Record{ID: "good", Body: body(t, r.newMessage(idempotent, 0, 9, 1))},
		worker.Record{ID: "panics", Body: body(t, r.newMessage(pure, 1, 9, 1))},
		worker.Record{ID: "unreadable", Body: "{"},
		worker.Record{ID: "later", Body: body(t, later)},
	)
	if want := []string{"panics", "unreadable"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	r.wantPack(stepRun.Pack(0, 1), workflow.PackFinished, 1, codeOK)
	// A wait longer than the queue can hide a message takes several.
	sent := r.sentPacks()
	if len(sent) != 1 || sent[0].Key != later.Key || !sent[0].NotBefore.Equal(later.NotBefore) || sent[0].Cost.Invocations != 0.5 {
		t.Errorf("sent again: %+v", sent)
	}
	// Whatever else panics is one record's failure, too.
	r.Faults = nil
	mad := func(string) (*workflow.PackMessage, error) { panic("mad") }
	records := []worker.Record{{ID: "a", Body: body(t, r.newMessage(idempotent, 0, 9, 1))}, {ID: "b", Body: "{"}}
	if failed := worker.HandleBatch(context.Background(), w, records, mad, r.ports); !slices.Equal(failed, []string{"a", "b"}) {
		t.Errorf("failed %v", failed)
	}
	closed := func() worker.Ports { panic("closed") }
	if failed := worker.HandleBatch(context.Background(), w, records[:1], decode, closed); !slices.Equal(failed, []string{"a"}) {
		t.Errorf("failed %v", failed)
	}
	// One that cannot be sent again must not be deleted.
	r.Faults = faults.Next("sender.send_packs", faults.Throttled)
	if failed := batch(worker.Record{ID: "later", Body: body(t, later)}); len(failed) != 1 {
		t.Error("it is lost")
	}
	later.Work.Pool = "no such pool"
	if failed := batch(worker.Record{ID: "later", Body: body(t, later)}); len(failed) != 1 {
		t.Error("it is lost")
	}
}

// fakeSource is a queue to poll. It gives what is in it, and then waits.
type fakeSource struct {
	mu        sync.Mutex
	bodies    []string
	requested []int
	deleted   []string
	deferred  map[string][]time.Duration
	failures  int // receives that fail
}

func (s *fakeSource) Receive(ctx context.Context, n int) ([]worker.Delivery, error) {
	s.mu.Lock()
	s.requested = append(s.requested, n)
	if s.failures > 0 {
		s.failures--
		s.mu.Unlock()
		return nil, errors.New("no queue")
	}
	var all []worker.Delivery
	for len(s.bodies) > 0 && len(all) < n {
		all = append(all, worker.Delivery{ReceiptHandle: s.bodies[0], Body: s.bodies[0], ReceiveCount: 1})
		s.bodies = s.bodies[1:]
	}
	s.mu.Unlock()
	if len(all) > 0 {
		return all, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(20 * time.Second):
		return nil, nil
	}
}

func (s *fakeSource) Delete(_ context.Context, d worker.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, d.ReceiptHandle)
	return nil
}

func (s *fakeSource) Defer(_ context.Context, d worker.Delivery, after time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deferred == nil {
		s.deferred = map[string][]time.Duration{}
	}
	s.deferred[d.ReceiptHandle] = append(s.deferred[d.ReceiptHandle], after)
	return nil
}

// pollUntil lets a worker poll until it is told to stop after a time, and returns how
// long it took to end.
func pollUntil(t *testing.T, r *fixture, s *fakeSource, stop time.Duration, change ...func(*worker.Options)) time.Duration {
	t.Helper()
	w := r.worker(append([]func(*worker.Options){concurrent}, change...)...)
	ctx, cancel := context.WithTimeout(context.Background(), stop)
	defer cancel()
	stoppedAt := time.Now().Add(stop)
	if err := worker.Poll(ctx, w, worker.PollOptions{Source: s, Decode: decode, NewPorts: r.ports}); err != nil {
		t.Error(err)
	}
	return time.Since(stoppedAt)
}

func TestPoll_LimitsConcurrencyAndSettlesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.blockFunc = blockFor(time.Second)
		s := &fakeSource{failures: 2}
		soon := r.newMessage(idempotent, 30, 99, 1)
		soon.NotBefore, soon.NotAfter = time.Now().Add(5*time.Second), time.Now().Add(time.Hour)
		late := r.newMessage(idempotent, 31, 99, 1)
		late.NotBefore, late.NotAfter = time.Now().Add(10*time.Minute), time.Now().Add(time.Hour)
		s.bodies = append(s.bodies, "{", body(t, soon), body(t, late))
		for lane := range 20 {
			m := r.newMessage(kinds[lane%3], lane, 99, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			s.bodies = append(s.bodies, body(t, m))
		}
		// After two failures it is 2 s later: the first waits 3 s more.
		pollUntil(t, r, s, time.Minute, func(o *worker.Options) { o.Concurrency = 4 })
		if len(r.started) != 20 || r.maxRunning != 4 {
			t.Errorf("%d jobs, %d at a time", len(r.started), r.maxRunning)
		}
		for _, n := range s.requested {
			if n < 1 || n > 4 {
				t.Errorf("asked for %d messages", n)
			}
		}
		if d := s.deferred[body(t, soon)]; len(d) != 1 || d[0] != 3*time.Second {
			t.Errorf("soon: %v", d)
		}
		if len(s.deleted) != 21 || !slices.Contains(s.deleted, body(t, late)) || slices.Contains(s.deleted, "{") {
			t.Errorf("deleted %d", len(s.deleted))
		}
		sent := r.sentPacks()
		if i := slices.IndexFunc(sent, func(m *workflow.PackMessage) bool { return m.Key == late.Key }); i < 0 || !sent[i].NotBefore.Equal(late.NotBefore) {
			t.Errorf("late: %+v", sent)
		}
	})
}

// Told to stop, a worker lets its packs end for a while and then leaves them.
func TestPoll_WaitsForPacksUntilStopTimeout(t *testing.T) {
	for _, c := range []struct {
		takes, least, most time.Duration
		state              workflow.PackState
	}{
		{15 * time.Second, 4 * time.Second, 6 * time.Second, workflow.PackFinished},
		{time.Hour, 10 * time.Second, 11 * time.Second, workflow.PackClaimed},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			r.blockFunc = blockFor(c.takes)
			m := r.newMessage(nonIdempotent, 0, 1, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			s := &fakeSource{bodies: []string{body(t, m)}}
			took := pollUntil(t, r, s, 10*time.Second)
			if took < c.least || took > c.most {
				t.Errorf("it takes %s to end", took)
			}
			if p := r.pack(m.Key); p.State != c.state || (len(s.deleted) > 0) != p.Final() {
				t.Errorf("%s, %d deleted", p.State, len(s.deleted))
			}
		})
	}
}

// lateSource gives a message at the moment at which the worker is told to stop.
type lateSource struct {
	*fakeSource
	body string
}

func (s lateSource) Receive(ctx context.Context, _ int) ([]worker.Delivery, error) {
	<-ctx.Done()
	return []worker.Delivery{{ReceiptHandle: s.body, Body: s.body}}, nil
}

func TestPoll_ReturnsMessagesReceivedWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		s := lateSource{&fakeSource{}, body(t, r.newMessage(nonIdempotent, 0, 1, 1))}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := worker.Poll(ctx, r.worker(concurrent), worker.PollOptions{Source: s, Decode: decode, NewPorts: r.ports}); err != nil {
			t.Error(err)
		}
		if len(r.started) > 0 || !slices.Equal(s.deferred[s.body], []time.Duration{0}) {
			t.Errorf("%d jobs begun, given back %v", len(r.started), s.deferred)
		}
	})
}

// nonBlockingSource never waits: it has nothing, or fails, at once.
type nonBlockingSource struct {
	*fakeSource
	err error
}

func (s nonBlockingSource) Receive(context.Context, int) ([]worker.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested = append(s.requested, 1)
	return nil, s.err
}

func TestPoll_PausesAfterEmptyOrFailedReceive(t *testing.T) {
	for most, err := range map[int]error{11: errors.New("no queue"), 201: nil} {
		synctest.Test(t, func(t *testing.T) {
			s := nonBlockingSource{&fakeSource{}, err}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := worker.Poll(ctx, newFixture(t).worker(concurrent), worker.PollOptions{Source: s, Decode: decode}); err != nil {
				t.Error(err)
			}
			if n := len(s.requested); n < 2 || n > most {
				t.Errorf("%v: asked %d times in 10 s", err, n)
			}
		})
	}
}

// A message that makes its reader panic does not end the worker.
func TestPoll_SurvivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		m := r.newMessage(idempotent, 0, 9, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		s := &fakeSource{bodies: []string{"mad", body(t, m)}}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		read := func(body string) (*workflow.PackMessage, error) {
			if body == "mad" {
				panic("mad")
			}
			return decode(body)
		}
		if err := worker.Poll(ctx, r.worker(concurrent), worker.PollOptions{Source: s, Decode: read, NewPorts: r.ports}); err != nil {
			t.Error(err)
		}
		if len(r.started) != 1 || !slices.Equal(s.deleted, []string{body(t, m)}) {
			t.Errorf("%d jobs begun, deleted %v", len(r.started), s.deleted)
		}
	})
}
