package simulate

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
)

// process is a piece of work that is under way: it stands before one of its calls
// and makes it when its time has come.
type process struct {
	name    string
	n       int
	task    *fate.Task
	at      time.Time     // when it goes on
	skew    time.Duration // of its clock
	worker  int           // whose process it is, -1 of none
	release int           // of its program
	late    bool          // it goes on after a restore that it knows nothing of
	err     error
	ended   func(*process) // told once, when it is over or has died
}

// processes are those under way, the next one to go on first.
type processes []*process

func (p processes) Len() int { return len(p) }
func (p processes) Less(i, j int) bool {
	if p[i].at.Equal(p[j].at) {
		return p[i].n < p[j].n
	}
	return p[i].at.Before(p[j].at)
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
func (w *world) spawn(name string, worker int, do func() error, ended func(*process)) {
	w.spawned++
	p := &process{n: w.spawned, name: fmt.Sprintf("%s#%d", name, w.spawned), skew: w.luck.Skew(), worker: worker, ended: ended}
	p.release = w.newRelease()
	if w.tell != nil {
		w.tellSpawned(p)
	}
	outer := w.current
	w.current = p
	p.task = w.Task(p.name, func() { p.err = do() })
	w.current = outer
	w.stood(p)
}

// advance lets a process make the call it stands before.
func (w *world) advance(p *process) {
	w.current = p
	p.task.Step()
	w.current = nil
	w.stood(p)
}

// stood takes a process up again that stands before its next call, or is over.
func (w *world) stood(p *process) {
	if !p.task.Over() {
		since := len(w.luck.Struck())
		p.at = w.Now().Add(w.luck.Delay(p.task.Before()))
		if w.tell != nil {
			w.tellStruck(p, since)
		}
		heap.Push(&w.running, p)
		return
	}
	if w.tell != nil && (p.task.Crashed() || p.err != nil) {
		w.tell("%s %s", p.name, told(p))
	}
	if p.ended != nil {
		p.ended(p)
	}
}

func told(p *process) string {
	if p.task.Crashed() {
		return "has died"
	}
	return "has failed: " + p.err.Error()
}

// kill lets every process of a worker die where it stands.
func (w *world) kill(worker int) {
	var left processes
	for _, p := range w.running {
		if p.worker != worker {
			left = append(left, p)
			continue
		}
		p.task.Kill()
		if p.ended != nil {
			p.ended(p)
		}
	}
	w.running = left
	heap.Init(&w.running)
}

// clear lets everything die that is still under way.
func (w *world) clear() {
	for _, p := range w.running {
		p.task.Kill()
	}
	w.running = nil
}
