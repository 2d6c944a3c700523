package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// markedPacks count the marks that are left.
type markedPacks struct {
	worker.Packs
	marks *[]workflow.PoolMark
}

func (p markedPacks) MarkPool(ctx context.Context, pool string, mark workflow.PoolMark) error {
	*p.marks = append(*p.marks, mark)
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
