package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fakeRegistry is a roster of one worker.
type fakeRegistry struct {
	mu          sync.Mutex
	registered  bool
	unreachable bool // nothing arrives
	calls       []string
	worker      workflow.Worker
	held        []workflow.ClaimedPack // as the last heartbeat said
	heartbeats  []time.Time            // of the heartbeats that arrived
}

func (b *fakeRegistry) call(what string, do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unreachable {
		return errors.New("nobody hears")
	}
	if len(b.calls) == 0 || b.calls[len(b.calls)-1] != what {
		b.calls = append(b.calls, what)
	}
	return do()
}

func (b *fakeRegistry) Register(_ context.Context, w workflow.Worker) error {
	return b.call("register", func() error { b.registered, b.worker = true, w; return nil })
}

func (b *fakeRegistry) Heartbeat(_ context.Context, id string, held []workflow.ClaimedPack) error {
	return b.call("beat", func() error {
		if !b.registered || id != b.worker.ID {
			return workflow.Errorf(workflow.CodeNotFound, "who is %s", id)
		}
		b.held, b.heartbeats = held, append(b.heartbeats, time.Now())
		return nil
	})
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

// A polling worker says by itself who it is, that it lives, on what it works, and
// that it leaves.
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
					t.Errorf("at work it holds %v", b.held)
				}
				b.registered = false // it has been forgotten
			})
		}()
		if err := worker.Poll(ctx, r.worker(concurrent, func(o *worker.Options) { o.Version = "7" }), pollOptions(r, s, b)); err != nil {
			t.Error(err)
		}
		if want := []string{"beat", "register", "beat", "register", "beat", "unregister"}; !slices.Equal(b.calls, want) {
			t.Errorf("it said %v, want %v", b.calls, want)
		}
		if b.worker.ID != "w" || b.worker.Pool != "default" || b.worker.Version != "7" || !slices.Equal(b.worker.Blocks, []string{idempotent, nonIdempotent, pure}) {
			t.Errorf("it is %+v", b.worker)
		}
		if len(b.held) != 0 {
			t.Errorf("at the end it holds %v", b.held)
		}
		if n := len(b.heartbeats); n < 4 || n > 5 {
			t.Errorf("%d heartbeats in 65 s", n)
		}
	})
}

// N51: a worker that cannot say that it lives is UNREACHABLE to others: it takes
// no new packs until it has been heard of again.
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
		begun := func() int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.started)
		}
		go func() {
			add(0)
			time.Sleep(time.Minute)
			b.update(func() { b.unreachable = true })
			time.Sleep(150 * time.Second) // 2 min of silence, and the poll that was under way
			add(1)
			time.Sleep(2 * time.Minute)
			if n := begun(); n != 1 {
				t.Errorf("%d jobs begun, want the one from before the silence", n)
			}
			b.update(func() { b.unreachable = false })
			time.Sleep(30 * time.Second)
			if n := begun(); n != 2 {
				t.Errorf("%d jobs begun after it was heard again, want 2", n)
			}
		}()
		if err := worker.Poll(ctx, r.worker(concurrent), pollOptions(r, s, b)); err != nil {
			t.Error(err)
		}
	})
}
