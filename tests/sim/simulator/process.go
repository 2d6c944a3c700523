package simulator

import (
	"container/heap"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
)

// process is a running handler: it is paused before a call, which it makes at resumeAt.
type process struct {
	name            string
	number          int
	task            *faults.Task
	resumeAt        time.Time
	clockSkew       time.Duration
	wakes           string // the execution that it wakes, "" if it handles no wake-up
	worker          int    // the worker that it belongs to, -1 if none
	programVersion  int
	outlivedRestore bool // it was not stopped for a restore of the tables
	startedAt       time.Time
	locksWrittenAt  time.Time
	committedAt     map[string]time.Time // its last write of each execution
	versionOf       map[string]int64     // the version of that write
	err             error
	onEnd           func(*process) // called once, when it has ended or crashed
}

// processes is a heap of processes by resumeAt.
type processes []*process

func (p processes) Len() int { return len(p) }
func (p processes) Less(i, j int) bool {
	if p[i].resumeAt.Equal(p[j].resumeAt) {
		return p[i].number < p[j].number
	}
	return p[i].resumeAt.Before(p[j].resumeAt)
}
func (p processes) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *processes) Push(x any)   { *p = append(*p, x.(*process)) }
func (p *processes) Pop() any {
	old := *p
	last := old[len(old)-1]
	*p = old[:len(old)-1]
	return last
}

// spawn starts a process and pauses it before its first call.
func (w *simulation) spawn(name string, worker int, do func() error, onEnd func(*process)) {
	w.spawnCount++
	p := &process{number: w.spawnCount, name: fmt.Sprintf("%s#%d", name, w.spawnCount), clockSkew: w.faultPlan.clockSkew(), worker: worker, onEnd: onEnd, startedAt: w.Now(), committedAt: map[string]time.Time{}, versionOf: map[string]int64{}}
	p.programVersion = w.versionToStart()
	if w.trace != nil {
		w.traceSpawn(p)
	}
	outer := w.current
	w.current = p
	p.task = w.StartTask(p.name, func() {
		defer keepStack()
		p.err = do()
	})
	w.current = outer
	w.requeue(p)
}

// keepStack adds the stack to a panic that is not a planned crash. Outside of the task the stack is
// lost.
func keepStack() {
	switch cause := recover().(type) {
	case nil:
	case faults.Crash:
		panic(cause)
	default:
		panic(fmt.Sprintf("%v\n%s", cause, debug.Stack()))
	}
}

// stepProcess makes the call before which a process is paused.
func (w *simulation) stepProcess(p *process) {
	w.current = p
	p.task.Step()
	w.current = nil
	w.requeue(p)
}

// requeue queues a process for its next call, or ends it.
func (w *simulation) requeue(p *process) {
	if !p.task.Done() {
		since := len(w.faultPlan.injectedFaults())
		p.resumeAt = w.Now().Add(w.faultPlan.delayBefore(p.task.NextCall()))
		if w.trace != nil {
			w.traceDelays(p, since)
		}
		heap.Push(&w.running, p)
		return
	}
	if w.trace != nil && (p.task.Crashed() || p.err != nil) {
		w.trace("%s %s", p.name, describeEnd(p))
	}
	if p.onEnd != nil {
		p.onEnd(p)
	}
}

func describeEnd(p *process) string {
	if p.task.Crashed() {
		return "crashed"
	}
	return "failed: " + p.err.Error()
}

// killWorker kills all processes of a worker.
func (w *simulation) killWorker(worker int) {
	var left processes
	for _, p := range w.running {
		if p.worker != worker {
			left = append(left, p)
			continue
		}
		p.task.Kill()
		if p.onEnd != nil {
			p.onEnd(p)
		}
	}
	w.running = left
	heap.Init(&w.running)
}

// killAll kills all processes.
func (w *simulation) killAll() {
	for _, p := range w.running {
		p.task.Kill()
	}
	w.running = nil
}
