package faults

import (
	"iter"
	"strings"
)

// Task is code that runs one call at a time: it pauses before each call until Step makes the
// call. While it is paused, others may run, time may pass, and it may be killed. All code of
// a task must stay in one goroutine.
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

// StartTask starts work and pauses it before its first call.
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

// pauseBefore pauses the task until it is resumed, or crashes it if it was killed.
func (t *Task) pauseBefore(c Call) {
	if !t.yield(c) {
		panic(Crash{c})
	}
}

// Done reports whether the task has ended or crashed.
func (t *Task) Done() bool { return t.done }

// Crashed reports whether the task has crashed.
func (t *Task) Crashed() bool { return t.crashed }

// NextCall returns the name of the call that the task is paused before, "" if it is done.
func (t *Task) NextCall() string { return t.nextCall.Name }

// Step makes the call that the task is paused before and pauses before the next one.
func (t *Task) Step() {
	if !t.done {
		t.runToNextCall()
	}
}

// RunUntil runs until the task pauses before a call whose name has the given prefix; the
// present call counts. It reports whether there is one.
func (t *Task) RunUntil(name string) bool {
	for !t.done && !strings.HasPrefix(t.nextCall.Name, name) {
		t.runToNextCall()
	}
	return !t.done
}

// RunPast is RunUntil and then makes that call.
func (t *Task) RunPast(name string) bool {
	found := t.RunUntil(name)
	t.Step()
	return found
}

// Finish runs the task to its end.
func (t *Task) Finish() {
	for !t.done {
		t.runToNextCall()
	}
}

// Kill crashes the task before the call that it is paused before.
func (t *Task) Kill() {
	outer := t.injector.current
	t.injector.current = t
	defer func() { t.injector.current = outer }()
	t.abort()
	t.nextCall, t.done = Call{}, true
}

// Interleave runs tasks to their ends. draw chooses which task makes the next call.
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
