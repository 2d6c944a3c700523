package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// marking is held while a mark is counted: jobs and heartbeats are concurrent.
var marking sync.Mutex

// markedPacks count the marks that are left.
type markedPacks struct {
	worker.Packs
	marks *[]workflow.PoolMark
}

func (p markedPacks) MarkPool(ctx context.Context, pool string, mark workflow.PoolMark) error {
	marking.Lock()
	*p.marks = append(*p.marks, mark)
	marking.Unlock()
	return p.Packs.MarkPool(ctx, pool, mark)
}

// A worker leaves a mark of its pool where messages have waited for long, four in the time that jobs may wait, and
// none where they have not: an execution does not cost more by it.
func TestWorker_MarksPoolWithALongQueue(t *testing.T) {
	for _, c := range []struct {
		waited time.Duration
		want   int
	}{{14 * time.Minute, 0}, {15 * time.Minute, 4}, {20 * time.Hour, 4}} {
		r := newFixture(t)
		w := r.worker()
		var marks []workflow.PoolMark
		begin := r.Now()
		for lane := 0; r.Now().Sub(begin) < time.Hour; lane++ {
			m := r.newMessage(kinds[lane%len(kinds)], lane%256, 256, 1)
			m.Key.StepRunSeq = 1 + lane/256
			m.SentAt = r.Now().Add(-c.waited)
			p := r.ports()
			p.Packs = markedPacks{p.Packs, &marks}
			if d, err := w.Handle(t.Context(), m, p); err != nil || !d.Done {
				t.Fatalf("%+v, %v", d, err)
			}
			r.Advance(5 * time.Second)
		}
		if len(marks) != c.want {
			t.Errorf("messages have waited for %s: %d marks, want %d", c.waited, len(marks), c.want)
		}
		for _, m := range marks {
			if m.At.Sub(m.SentAt) != c.waited {
				t.Errorf("marked %+v", m)
			}
		}
	}
}

// A job that takes long is seen for as long as it takes.
func TestWorker_MarksPoolWhileAJobTakesLong(t *testing.T) {
	inBubble(t, idempotent, 1, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
		var marks []workflow.PoolMark
		p.Packs = markedPacks{p.Packs, &marks}
		m.SentAt, m.Work.Timeout = time.Now(), workflow.Duration(3*time.Hour)
		r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
			time.Sleep(2 * time.Hour)
			return nil, nil
		}
		if err := handle(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := len(marks); n < 6 || n > 8 {
			t.Errorf("%d marks in two hours, want one each quarter", n)
		}
	})
}

// A worker that dies with its job leaves no mark, whether or not it has claimed the pack: else two executions that
// always kill their workers would each take the other for a queue, for ever.
func TestWorker_LeavesNoMarkWhenItCrashes(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 2, 1)
		m.SentAt = r.Now().Add(-time.Hour)
		var marks []workflow.PoolMark
		p := r.ports()
		p.Packs = markedPacks{p.Packs, &marks}
		r.crashOnStart(1)
		if !faults.CatchCrash(func() { _, _ = r.worker().Handle(t.Context(), m, p) }) || len(marks) > 0 {
			t.Errorf("%s: a worker that crashed left %+v", kind, marks)
		}
		r.Advance(pastLease)
		if kind == nonIdempotent {
			continue // its job is UNKNOWN, and the next worker finishes the pack without calling anything
		}
		if d, err := r.worker().Handle(t.Context(), m, p); err != nil || !d.Done || len(marks) != 1 || !marks[0].At.Equal(r.Now()) {
			t.Errorf("%s: a worker that finished left %+v, %+v, %v", kind, marks, d, err)
		}
	}
}

// The heartbeats of a claimed pack leave a mark once it has been held for a quarter of the time that jobs may wait. Those
// of a pack that nobody has claimed leave none: how often its worker may die is not counted.
func TestWorker_MarksPoolByHeartbeatsOfAHeldPack(t *testing.T) {
	for kind, want := range map[string][]time.Duration{idempotent: {15 * time.Minute}, pure: nil} {
		inBubble(t, kind, 1, func(r *fixture, m *workflow.PackMessage, p *slowPacks, handle func(context.Context) error) {
			var marks []workflow.PoolMark
			p.Packs = markedPacks{p.Packs, &marks}
			begin := time.Now()
			m.SentAt, m.Work.Timeout = begin.Add(-time.Hour), workflow.Duration(30*time.Minute)
			var atEnd int
			r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
				time.Sleep(20 * time.Minute)
				marking.Lock()
				atEnd = len(marks)
				marking.Unlock()
				return nil, nil
			}
			if err := handle(context.Background()); err != nil {
				t.Fatal(err)
			}
			if atEnd != len(want) {
				t.Errorf("%s: %d marks while the job was at work, want %d", kind, atEnd, len(want))
			}
			for i, after := range want {
				if got := marks[i].At.Sub(begin); got < after || got > after+lease {
					t.Errorf("%s: mark %d after %s, want %s", kind, i, got, after)
				}
			}
		})
	}
}

// What is done for a polling program leaves marks like any other work, as many as one process would leave: each
// call has a worker of its own, which share when the last mark was left.
func TestRemoteLease_MarksPoolWithALongQueue(t *testing.T) {
	r := newFixture(t)
	var marks []workflow.PoolMark
	shared := &worker.PoolMarks{}
	p := r.ports()
	p.Packs = markedPacks{p.Packs, &marks}
	newWorker := func() *worker.Worker { return r.worker(func(o *worker.Options) { o.PoolMarks = shared }) }
	for lane := range 2 {
		m := r.newMessage(idempotent, lane, 2, 1)
		m.SentAt = r.Now().Add(-time.Hour)
		remote, _, err := newWorker().LeaseRemote(t.Context(), m, p)
		if err != nil || remote == nil {
			t.Fatal(remote, err)
		}
		if len(marks) != min(lane, 1) {
			t.Errorf("lane %d: %d marks when it was leased", lane, len(marks))
		}
		if _, d, err := newWorker().ResumeRemote(t.Context(), m, r.pack(m.Key), remoteResult(remote.Jobs...), p); err != nil || !d.Done {
			t.Fatalf("%+v %v", d, err)
		}
		if len(marks) != 1 {
			t.Errorf("lane %d: %d marks, want 1", lane, len(marks))
		}
	}
	m := r.newMessage(idempotent, 0, 2, 1)
	m.Key.StepRunSeq, m.SentAt, m.Work.Timeout = 7, r.Now().Add(-time.Hour), workflow.Duration(3*time.Hour)
	if remote, _, err := newWorker().LeaseRemote(t.Context(), m, p); err != nil || remote == nil {
		t.Fatal(remote, err)
	}
	for range 40 { // heartbeats of twenty minutes
		r.Advance(lease / 2)
		if _, _, err := newWorker().ResumeRemote(t.Context(), m, r.pack(m.Key), &worker.RemoteResult{Heartbeat: true}, p); err != nil {
			t.Fatal(err)
		}
	}
	if len(marks) != 2 {
		t.Errorf("%d marks, want one more for the pack that is held", len(marks))
	}
}
