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

// book is a roster of one worker.
type book struct {
	mu    sync.Mutex
	known bool
	dead  bool // nothing arrives
	said  []string
	card  workflow.Worker
	held  []workflow.HeldPack // as the last heartbeat said
	times []time.Time         // of the heartbeats that arrived
}

func (b *book) say(what string, do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return errors.New("nobody hears")
	}
	if len(b.said) == 0 || b.said[len(b.said)-1] != what {
		b.said = append(b.said, what)
	}
	return do()
}

func (b *book) Register(_ context.Context, w workflow.Worker) error {
	return b.say("register", func() error { b.known, b.card = true, w; return nil })
}

func (b *book) Beat(_ context.Context, id string, held []workflow.HeldPack) error {
	return b.say("beat", func() error {
		if !b.known || id != b.card.ID {
			return workflow.Errorf(workflow.CodeNotFound, "who is %s", id)
		}
		b.held, b.times = held, append(b.times, time.Now())
		return nil
	})
}

func (b *book) Unregister(context.Context, string) error {
	return b.say("unregister", func() error { b.known = false; return nil })
}

func (b *book) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func attended(r *rig, s worker.Source, b *book) worker.Feed {
	return worker.Feed{Source: s, Decode: decode, Open: r.ports, Presence: b}
}

// A polling worker says by itself who it is, that it lives, on what it works, and
// that it leaves.
func TestPollingWorkersAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.behave = takes(50 * time.Second)
		m := r.message(id, 0, 9, 1)
		m.NotAfter = time.Now().Add(time.Hour)
		b, s := &book{}, &source{bodies: []string{body(t, m)}}
		ctx, cancel := context.WithTimeout(context.Background(), 65*time.Second)
		defer cancel()
		go func() {
			time.Sleep(30 * time.Second)
			b.set(func() {
				if !slices.Equal(b.held, []workflow.HeldPack{m.Key.Held()}) {
					t.Errorf("at work it holds %v", b.held)
				}
				b.known = false // it has been forgotten
			})
		}()
		if err := worker.Poll(ctx, r.worker(live, func(o *worker.Options) { o.Version = "7" }), attended(r, s, b)); err != nil {
			t.Error(err)
		}
		if want := []string{"beat", "register", "beat", "register", "beat", "unregister"}; !slices.Equal(b.said, want) {
			t.Errorf("it said %v, want %v", b.said, want)
		}
		if b.card.ID != "w" || b.card.Pool != "default" || b.card.Version != "7" || !slices.Equal(b.card.Blocks, []string{id, nd, pure}) {
			t.Errorf("it is %+v", b.card)
		}
		if len(b.held) != 0 {
			t.Errorf("at the end it holds %v", b.held)
		}
		if n := len(b.times); n < 4 || n > 5 {
			t.Errorf("%d heartbeats in 65 s", n)
		}
	})
}

// N51: a worker that cannot say that it lives is UNREACHABLE to others: it takes
// no new packs until it has been heard of again.
func TestN51AnUnheardWorkerTakesNoPacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		b, s := &book{}, &source{}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		add := func(lane int) {
			m := r.message(id, lane, 9, 1)
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
			b.set(func() { b.dead = true })
			time.Sleep(150 * time.Second) // 2 min of silence, and the poll that was under way
			add(1)
			time.Sleep(2 * time.Minute)
			if n := begun(); n != 1 {
				t.Errorf("%d jobs begun, want the one from before the silence", n)
			}
			b.set(func() { b.dead = false })
			time.Sleep(30 * time.Second)
			if n := begun(); n != 2 {
				t.Errorf("%d jobs begun after it was heard again, want 2", n)
			}
		}()
		if err := worker.Poll(ctx, r.worker(live), attended(r, s, b)); err != nil {
			t.Error(err)
		}
	})
}
