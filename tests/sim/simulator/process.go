package simulator

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// process is a piece of work that is under way: it stands before one of its calls
// and makes it when its time has come.
type process struct {
	name            string
	number          int
	task            *faults.Task
	resumeAt        time.Time     // when it goes on
	clockSkew       time.Duration // of its clock
	worker          int           // whose process it is, -1 of none
	programVersion  int           // of its program
	outlivedRestore bool          // it goes on after a restore that it knows nothing of
	err             error
	onEnd           func(*process) // told once, when it is over or has died
}

// processes are those under way, the next one to go on first.
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

// spawn begins a piece of work, which then stands before its first call.
func (w *simulation) spawn(name string, worker int, do func() error, onEnd func(*process)) {
	w.spawnCount++
	p := &process{number: w.spawnCount, name: fmt.Sprintf("%s#%d", name, w.spawnCount), clockSkew: w.faultPlan.clockSkew(), worker: worker, onEnd: onEnd}
	p.programVersion = w.versionToStart()
	if w.trace != nil {
		w.traceSpawn(p)
	}
	outer := w.current
	w.current = p
	p.task = w.StartTask(p.name, func() { p.err = do() })
	w.current = outer
	w.requeue(p)
}

// stepProcess lets a process make the call it stands before.
func (w *simulation) stepProcess(p *process) {
	w.current = p
	p.task.Step()
	w.current = nil
	w.requeue(p)
}

// requeue takes a process up again that stands before its next call, or is over.
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
		return "has died"
	}
	return "has failed: " + p.err.Error()
}

// killWorker lets every process of a worker die where it stands.
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

// killAll lets everything die that is still under way.
func (w *simulation) killAll() {
	for _, p := range w.running {
		p.task.Kill()
	}
	w.running = nil
}
