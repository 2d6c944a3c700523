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

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
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

// Only messages that failed are reported. A panic fails its own message only.
func TestHandleBatch_ReportsOnlyFailedRecords(t *testing.T) {
	r := newFixture(t)
	w := r.worker(func(o *worker.Options) { o.Sequential = false })
	batch := func(deliveries ...worker.Delivery) []string {
		unfinished, _ := worker.HandleBatch(context.Background(), w, deliveries, decode, r.ports)
		return unfinished
	}
	if failed := batch(); failed == nil || len(failed) != 0 {
		t.Errorf("got %#v, want an empty list that is not nil", failed)
	}
	later := r.newMessage(idempotent, 2, 9, 1)
	later.NotBefore = r.Now().Add(20 * time.Minute)
	later.Cost = workflow.Cost{Invocations: 0.5}
	r.Faults = faults.Every(faults.CrashBefore, "packs.finish_unclaimed") // a panic, as far as HandleBatch knows
	failed := batch(
		worker.Delivery{ID: "good", Body: body(t, r.newMessage(idempotent, 0, 9, 1))},
		worker.Delivery{ID: "panics", Body: body(t, r.newMessage(pure, 1, 9, 1))},
		worker.Delivery{ID: "unreadable", Body: "{"},
		worker.Delivery{ID: "later", Body: body(t, later)},
	)
	if want := []string{"panics", "unreadable"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	r.wantPack(stepRun.Pack(0, 1), workflow.PackFinished, 1, codeOK)
	// A delay longer than the queue supports takes several rounds.
	sent := r.sentPacks()
	if len(sent) != 1 || sent[0].Key != later.Key || !sent[0].NotBefore.Equal(later.NotBefore) || sent[0].Cost.Invocations != 0.5 {
		t.Errorf("sent again: %+v", sent)
	}
	// A panic in decode or in newPorts fails its own message, too.
	r.Faults = nil
	panicking := func(string) (*workflow.PackMessage, error) { panic("decode") }
	deliveries := []worker.Delivery{{ID: "a", Body: body(t, r.newMessage(idempotent, 0, 9, 1))}, {ID: "b", Body: "{"}}
	if unfinished, failed := worker.HandleBatch(context.Background(), w, deliveries, panicking, r.ports); !slices.Equal(unfinished, []string{"a", "b"}) || failed != 2 {
		t.Errorf("unfinished %v, %d failed", unfinished, failed)
	}
	noPorts := func() worker.Ports { panic("ports") }
	if unfinished, failed := worker.HandleBatch(context.Background(), w, deliveries[:1], decode, noPorts); !slices.Equal(unfinished, []string{"a"}) || failed != 1 {
		t.Errorf("unfinished %v, %d failed", unfinished, failed)
	}
	// A message that cannot be sent again must not be deleted.
	r.Faults = faults.Next("sender.send_packs", faults.Throttled)
	if failed := batch(worker.Delivery{ID: "later", Body: body(t, later)}); len(failed) != 1 {
		t.Error("a message that was not sent again is not reported as failed")
	}
	later.Work.Pool = "no such pool"
	if failed := batch(worker.Delivery{ID: "later", Body: body(t, later)}); len(failed) != 1 {
		t.Error("a message that was not sent again is not reported as failed")
	}
}

// fakeSource is a queue. Receive returns its messages, or waits 20s if there are
// none.
type fakeSource struct {
	mu        sync.Mutex
	bodies    []string
	requested []int
	deleted   []string
	deferred  map[string][]time.Duration
	failures  int // how many receives fail first
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

// pollUntil polls until stop has passed. It returns how long Poll took to return after
// that.
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
		// The two failures take 2 s, so that 3 s are left until soon.NotBefore.
		pollUntil(t, r, s, time.Minute, func(o *worker.Options) { o.Concurrency = 4 })
		if len(r.started) != 20 || r.maxRunning != 4 {
			t.Errorf("%d jobs ran, %d at a time, want 20 and 4", len(r.started), r.maxRunning)
		}
		for _, n := range s.requested {
			if n < 1 || n > 4 {
				t.Errorf("asked for %d messages, want 1 to 4", n)
			}
		}
		if d := s.deferred[body(t, soon)]; len(d) != 1 || d[0] != 3*time.Second {
			t.Errorf("the message due in 3s is deferred by %v", d)
		}
		if len(s.deleted) != 21 || !slices.Contains(s.deleted, body(t, late)) || slices.Contains(s.deleted, "{") {
			t.Errorf("%d messages deleted, want 21", len(s.deleted))
		}
		sent := r.sentPacks()
		if i := slices.IndexFunc(sent, func(m *workflow.PackMessage) bool { return m.Key == late.Key }); i < 0 || !sent[i].NotBefore.Equal(late.NotBefore) {
			t.Errorf("the message due in 10 minutes is not sent again: %+v", sent)
		}
	})
}

// A worker that is asked to stop waits for its packs, at most for StopTimeout.
func TestPoll_WaitsForPacksUntilStopTimeout(t *testing.T) {
	for _, c := range []struct {
		jobDuration, least, most time.Duration
		state                    workflow.PackState
	}{
		{15 * time.Second, 4 * time.Second, 6 * time.Second, workflow.PackFinished},
		{time.Hour, 10 * time.Second, 11 * time.Second, workflow.PackClaimed},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t)
			r.blockFunc = blockFor(c.jobDuration)
			m := r.newMessage(nonIdempotent, 0, 1, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			s := &fakeSource{bodies: []string{body(t, m)}}
			took := pollUntil(t, r, s, 10*time.Second)
			if took < c.least || took > c.most {
				t.Errorf("Poll returned after %s, want %s to %s", took, c.least, c.most)
			}
			if p := r.pack(m.Key); p.State != c.state || (len(s.deleted) > 0) != p.Final() {
				t.Errorf("%s, %d deleted", p.State, len(s.deleted))
			}
		})
	}
}

// lateSource returns a message just when the worker is asked to stop.
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
			t.Errorf("%d jobs started, messages returned: %v", len(r.started), s.deferred)
		}
	})
}

// nonBlockingSource returns no message, or an error, without waiting.
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
				t.Errorf("%v: %d receives in 10 s, want 2 to %d", err, n, most)
			}
		})
	}
}

// A message whose decoding panics does not end the worker.
func TestPoll_SurvivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		m := r.newMessage(idempotent, 0, 9, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		s := &fakeSource{bodies: []string{"panic", body(t, m)}}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		decodeOrPanic := func(body string) (*workflow.PackMessage, error) {
			if body == "panic" {
				panic("decode")
			}
			return decode(body)
		}
		if err := worker.Poll(ctx, r.worker(concurrent), worker.PollOptions{Source: s, Decode: decodeOrPanic, NewPorts: r.ports}); err != nil {
			t.Error(err)
		}
		if len(r.started) != 1 || !slices.Equal(s.deleted, []string{body(t, m)}) {
			t.Errorf("%d jobs started, deleted %v", len(r.started), s.deleted)
		}
	})
}
