package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fakeRegistry is a registry with room for one worker.
type fakeRegistry struct {
	mu          sync.Mutex
	registered  bool
	unreachable bool // every call fails
	calls       []string
	worker      workflow.Worker
	held        []workflow.ClaimedPack // from the last heartbeat
	draining    bool                   // what heartbeats are answered
	heartbeats  []time.Time            // when the successful heartbeats arrived
}

func (b *fakeRegistry) call(name string, do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unreachable {
		return errors.New("unreachable")
	}
	if len(b.calls) == 0 || b.calls[len(b.calls)-1] != name {
		b.calls = append(b.calls, name)
	}
	return do()
}

func (b *fakeRegistry) Register(_ context.Context, w workflow.Worker) error {
	return b.call("register", func() error { b.registered, b.worker = true, w; return nil })
}

func (b *fakeRegistry) Heartbeat(_ context.Context, id string, held []workflow.ClaimedPack) (draining bool, err error) {
	err = b.call("heartbeat", func() error {
		draining = b.draining
		if !b.registered || id != b.worker.ID {
			return workflow.Errorf(workflow.CodeNotFound, "no worker %s", id)
		}
		b.held, b.heartbeats = held, append(b.heartbeats, time.Now())
		return nil
	})
	return draining, err
}

func (b *fakeRegistry) Unregister(context.Context, string) error {
	return b.call("unregister", func() error { b.registered = false; return nil })
}

func (b *fakeRegistry) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func pollOptions(r *fixture, s worker.Source, b *fakeRegistry) worker.PollOptions {
	return worker.PollOptions{Source: s, Decode: decode, NewPorts: r.ports, Registry: b}
}

// A polling worker registers itself, reports its packs with each heartbeat, and
// unregisters when it stops.
func TestPoll_RegistersHeartbeatsAndUnregisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.blockFunc = blockFor(50 * time.Second)
		m := r.newMessage(idempotent, 0, 9, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		b, s := &fakeRegistry{}, &fakeSource{bodies: []string{body(t, m)}}
		ctx, cancel := context.WithTimeout(context.Background(), 65*time.Second)
		defer cancel()
		go func() {
			time.Sleep(30 * time.Second)
			b.update(func() {
				if !slices.Equal(b.held, []workflow.ClaimedPack{m.Key.ClaimedPack()}) {
					t.Errorf("while it works it reports %v", b.held)
				}
				b.registered = false // the registry has removed it
			})
		}()
		if err := worker.Poll(ctx, r.worker(concurrent, func(o *worker.Options) { o.Version = "7" }), pollOptions(r, s, b)); err != nil {
			t.Error(err)
		}
		if want := []string{"heartbeat", "register", "heartbeat", "register", "heartbeat", "unregister"}; !slices.Equal(b.calls, want) {
			t.Errorf("calls %v, want %v", b.calls, want)
		}
		if b.worker.ID != "w" || b.worker.Pool != "default" || b.worker.Version != "7" || !slices.Equal(b.worker.Blocks, []string{idempotent, nonIdempotent, pure}) {
			t.Errorf("registered as %+v", b.worker)
		}
		if len(b.held) != 0 {
			t.Errorf("at the end it reports %v", b.held)
		}
		if n := len(b.heartbeats); n < 4 || n > 5 {
			t.Errorf("%d heartbeats in 65 s", n)
		}
	})
}

// N51: a worker whose heartbeats fail is shown as UNREACHABLE. It receives no packs until
// a heartbeat succeeds.
func TestPoll_ReceivesNothingWhileUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		b, s := &fakeRegistry{}, &fakeSource{}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		add := func(lane int) {
			m := r.newMessage(idempotent, lane, 9, 1)
			m.NotAfter = time.Now().Add(time.Hour)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.bodies = append(s.bodies, body(t, m))
		}
		startedJobs := func() int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.started)
		}
		go func() {
			add(0)
			time.Sleep(time.Minute)
			b.update(func() { b.unreachable = true })
			time.Sleep(150 * time.Second) // UnreachableAfter, and the receive under way
			add(1)
			time.Sleep(2 * time.Minute)
			if n := startedJobs(); n != 1 {
				t.Errorf("%d jobs started while unreachable, want only the first", n)
			}
			b.update(func() { b.unreachable = false })
			time.Sleep(30 * time.Second)
			if n := startedJobs(); n != 2 {
				t.Errorf("%d jobs started after a successful heartbeat, want 2", n)
			}
		}()
		if err := worker.Poll(ctx, r.worker(concurrent), pollOptions(r, s, b)); err != nil {
			t.Error(err)
		}
	})
}

// A worker that is drained ends the packs that it has, hands back at once what its receive under way
// brings, and receives nothing more. It stays registered and can be stopped.
func TestPoll_DrainsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.blockFunc = blockFor(50 * time.Second)
		m := r.newMessage(idempotent, 0, 9, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		b, s := &fakeRegistry{}, &fakeSource{bodies: []string{body(t, m)}}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		late := r.newMessage(idempotent, 1, 9, 1)
		late.NotAfter = time.Now().Add(time.Hour)
		lateBody := body(t, late)
		go func() {
			time.Sleep(30 * time.Second)
			b.update(func() { b.draining = true })
			time.Sleep(25 * time.Second) // it knows with its next heartbeat
			s.mu.Lock()
			s.bodies = append(s.bodies, lateBody)
			s.mu.Unlock()
			time.Sleep(2 * time.Minute)
			r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
			b.update(func() {
				if len(b.held) != 0 || time.Since(b.heartbeats[len(b.heartbeats)-1]) > 20*time.Second {
					t.Errorf("it holds %v, and its last heartbeat was at %s", b.held, b.heartbeats[len(b.heartbeats)-1])
				}
			})
		}()
		if err := worker.Poll(ctx, r.worker(concurrent), pollOptions(r, s, b)); err != nil {
			t.Error(err)
		}
		if r.pack(late.Key) != nil {
			t.Error("it has worked on a pack that came after it was drained")
		}
		// A receive that was under way may still have brought it.
		if _, handedBack := s.deferred[lateBody]; len(s.bodies) == 0 && !handedBack {
			t.Error("the pack that came after it was drained is not handed back")
		}
		if !strings.Contains(r.logs.String(), "drained: the worker has no packs left") {
			t.Errorf("the log is %s", r.logs.String())
		}
	})
}
