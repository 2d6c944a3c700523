package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Called is what has come of a job that [Worker.Call] has called, with all that it has saved, logged
// and said of its progress.
type Called struct {
	JobResult
	Progress []workflow.JobProgress // in the order in which the block reported it
	Logs     *workflow.JobLogs      // as a pack with one job would keep them
}

// Call calls the block of a message's first job as Handle does, with its timeout and its secrets,
// but without a pack: nothing is claimed, stored or sent. It is for tests of blocks; package
// workertest makes the message.
func (w *Worker) Call(ctx context.Context, m *workflow.PackMessage) Called {
	in := &m.Jobs[0]
	var mu sync.Mutex
	var progress []workflow.JobProgress
	var logs *workflow.JobLogs
	saved := &savedState{
		checkpoints: in.Checkpoints,
		report: func(percent float64, message string) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, *workflow.NewJobProgress(percent, message, w.opts.Now()))
		},
		log: func(lines ...workflow.LogLine) {
			mu.Lock()
			defer mu.Unlock()
			logs = logs.With(workflow.MaxLogBytes, stamped(lines, w.opts.Now())...)
		},
	}
	result, _ := w.runJob(ctx, m, in, 1, saved)
	result = result.retriedAs(&m.Work)
	saved.mu.Lock()
	result.Checkpoints = saved.checkpoints
	saved.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	return Called{result, slices.Clone(progress), logs}
}
