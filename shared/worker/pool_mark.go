package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// poolMarks are when this process has left the mark of each pool last.
type poolMarks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// take reports whether the mark of a pool is due, and counts it as left.
func (p *poolMarks) take(pool string, now time.Time, every time.Duration) bool {
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

// markPool leaves a mark of the pool while this worker has a message that was sent long ago: what is
// behind that one in the queue has to wait, and is not unclaimed. A worker with a short queue leaves
// none, and each process at most four in the time that jobs may wait for a worker.
func (s *session) markPool(ctx context.Context) {
	now, every := s.w.opts.Now(), s.w.opts.UnclaimedTimeout/4
	if s.m.SentAt.IsZero() || now.Sub(s.m.SentAt) < every || !s.w.marks.take(s.m.Work.Pool, now, every) {
		return
	}
	if err := s.ports.Packs.MarkPool(ctx, s.m.Work.Pool, workflow.PoolMark{At: now, SentAt: s.m.SentAt, Execution: s.m.Key.Execution, StepRun: s.m.Key.StepRunSeq}); err != nil && ctx.Err() == nil {
		s.w.logWarning(ctx, "mark of the pool not left; the next one is due later", s.m, err)
	}
}
