package simulator

import (
	"math/rand/v2"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// markEvery is how often the workers that are busy with it leave a mark of the pool.
const markEvery = 15 * time.Minute

// maxQueueCalls is the most calls of a simulation with a long queue: each execution looks once a minute
// whether its jobs have ended.
const maxQueueCalls = 1_000_000

// drawLongQueue puts the work of others for more than a day before the jobs of the executions, in one
// scenario of 300. There are faults again at its end.
func (p *scenario) drawLongQueue() {
	r := rand.New(rand.NewPCG(p.Seed, longQueueStream))
	if r.IntN(300) > 0 || !p.FaultProfile.SweeperEnabled || p.RestoreDrill != nil || p.Retention > 0 || p.StallTime > 0 {
		return
	}
	p.QueueTime = 25*time.Hour + time.Duration(r.IntN(1500))*time.Minute
	at := time.Duration(r.IntN(90_000)) * time.Millisecond
	p.FaultProfile.FaultsAgainFrom = at + p.QueueTime
	p.Actions = append(p.Actions, action{At: at, Kind: actionLongQueue})
}

// longQueueStream is the stream of random numbers for long queues.
const longQueueStream = 170

// beginLongQueue lets the workers of the pool work on messages of others, which were sent before.
func (w *simulation) beginLongQueue() {
	w.queueUntil = w.Now().Add(w.scenario.QueueTime)
	w.markPool()
}

// markPool leaves the mark of a worker that is busy with what was sent before.
func (w *simulation) markPool() {
	if !w.Now().Before(w.queueUntil) {
		return
	}
	mark := workflow.PoolMark{At: w.Now(), SentAt: w.startedAt, Execution: "another", StepRun: 1}
	if err := w.Open().Packs.MarkPool(ctx, "default", mark); err != nil {
		panic(err)
	}
	w.after(markEvery, w.markPool)
}
