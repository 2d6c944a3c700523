package faults

import (
	"iter"
	"strings"
)

// Task is a piece of work that goes on one call at a time: it stands before a
// call until it is told to make it. While it stands, others may go on, time may
// pass, and it may die. A task must stay in its goroutine.
type Task struct {
	injector *Injector
	name     string
	resume   func() (Call, bool)
	abort    func()

	yield    func(Call) bool
	nextCall Call
	done     bool
	crashed  bool
}

// StartTask begins a piece of work, which then stands before its first call.
func (h *Injector) StartTask(name string, work func()) *Task {
	t := &Task{injector: h, name: name}
	t.resume, t.abort = iter.Pull(func(yield func(Call) bool) {
		t.yield = yield
		t.crashed = CatchCrash(work)
	})
	t.runToNextCall()
	return t
}

func (t *Task) runToNextCall() {
	outer := t.injector.current
	t.injector.current = t
	defer func() { t.injector.current = outer }()
	at, ok := t.resume()
	t.nextCall, t.done = at, !ok
}

// pauseBefore is where the task stands still.
func (t *Task) pauseBefore(c Call) {
	if !t.yield(c) {
		panic(Crash{c})
	}
}

// Done reports whether the work has ended; Crashed, whether it died.
func (t *Task) Done() bool { return t.done }

// Crashed reports whether the task has died.
func (t *Task) Crashed() bool { return t.crashed }

// NextCall is the name of the call it stands before, "" if it is over.
func (t *Task) NextCall() string { return t.nextCall.Name }

// Step makes the call it stands before and goes on to the next.
func (t *Task) Step() {
	if !t.done {
		t.runToNextCall()
	}
}

// RunUntil goes on to the next call, the present one included, whose name begins
// so. It reports whether there is one.
func (t *Task) RunUntil(name string) bool {
	for !t.done && !strings.HasPrefix(t.nextCall.Name, name) {
		t.runToNextCall()
	}
	return !t.done
}

// RunPast goes on to the next such call and makes it.
func (t *Task) RunPast(name string) bool {
	found := t.RunUntil(name)
	t.Step()
	return found
}

// Finish goes on to the end.
func (t *Task) Finish() {
	for !t.done {
		t.runToNextCall()
	}
}

// Kill lets it die where it stands, before the call.
func (t *Task) Kill() {
	outer := t.injector.current
	t.injector.current = t
	defer func() { t.injector.current = outer }()
	t.abort()
	t.nextCall, t.done = Call{}, true
}

// Interleave runs tasks to their ends, each time choosing by chance which of
// them makes its next call.
func Interleave(draw func(n int) int, tasks ...*Task) {
	for {
		var open []*Task
		for _, t := range tasks {
			if !t.done {
				open = append(open, t)
			}
		}
		if len(open) == 0 {
			return
		}
		open[draw(len(open))].Step()
	}
}
