package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PoolMarks are when a process has left the mark of each pool last.
type PoolMarks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// take reports whether the mark of a pool is due, and counts it as left.
func (p *PoolMarks) take(pool string, now time.Time, every time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[pool]; ok && now.Sub(last) < every {
		return false
	}
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	p.last[pool] = now
	return true
}

// markEvery is how often a process leaves a mark: four times in the time that jobs may wait for a worker.
// Also for how long a message must have waited, and a pack be held, before there is a mark at all.
func (w *Worker) markEvery() time.Duration { return w.opts.UnclaimedTimeout / 4 }

// markPool leaves a mark of the pool if the message of this session was sent long ago: what is behind it in
// the queue has to wait, and is not unclaimed. Only work that is proved leaves one, when a pack has been
// finished: a worker that dies with each job serves nobody, and those behind it must not wait for it.
func (s *session) markPool(ctx context.Context) {
	now, every := s.w.opts.Now(), s.w.markEvery()
	if s.m.SentAt.IsZero() || now.Sub(s.m.SentAt) < every || !s.w.opts.PoolMarks.take(s.m.Work.Pool, now, every) {
		return
	}
	if err := s.ports.Packs.MarkPool(ctx, s.m.Work.Pool, workflow.PoolMark{At: now, SentAt: s.m.SentAt, Execution: s.m.Key.Execution, StepRun: s.m.Key.StepRunSeq}); err != nil && ctx.Err() == nil {
		s.w.logWarning(ctx, "mark of the pool not left; the next one is due later", s.m, err)
	}
}

// markPoolWhileHeld leaves a mark for a pack that takes long: its claim has been renewed for a quarter of the time
// that jobs may wait. How often a claim is taken over is bounded, so a worker that dies each time ends by itself.
// Without a claim nothing is bounded, and a mark is left only at the end.
func (s *session) markPoolWhileHeld(ctx context.Context) {
	s.mu.Lock()
	held := !s.unclaimed && s.w.opts.Now().Sub(s.pack.ClaimedAt) >= s.w.markEvery()
	s.mu.Unlock()
	if held {
		s.markPool(ctx)
	}
}
