package fate

import (
	"iter"
	"strings"
)

// Task is a piece of work that goes on one call at a time: it stands before a
// call until it is told to make it. While it stands, others may go on, time may
// pass, and it may die. A task must stay in its goroutine.
type Task struct {
	hook *Hook
	name string
	next func() (Call, bool)
	stop func()

	yield   func(Call) bool
	at      Call
	over    bool
	crashed bool
}

// Task begins a piece of work, which then stands before its first call.
func (h *Hook) Task(name string, work func()) *Task {
	t := &Task{hook: h, name: name}
	t.next, t.stop = iter.Pull(func(yield func(Call) bool) {
		t.yield = yield
		t.crashed = Survive(work)
	})
	t.proceed()
	return t
}

func (t *Task) proceed() {
	outer := t.hook.current
	t.hook.current = t
	defer func() { t.hook.current = outer }()
	at, ok := t.next()
	t.at, t.over = at, !ok
}

// reach is where the task stands still.
func (t *Task) reach(c Call) {
	if !t.yield(c) {
		panic(Crash{c})
	}
}

// Over reports whether the work has ended; Crashed, whether it died.
func (t *Task) Over() bool { return t.over }

// Crashed reports whether the task has died.
func (t *Task) Crashed() bool { return t.crashed }

// Before is the name of the call it stands before, "" if it is over.
func (t *Task) Before() string { return t.at.Name }

// Step makes the call it stands before and goes on to the next.
func (t *Task) Step() {
	if !t.over {
		t.proceed()
	}
}

// Until goes on to the next call, the present one included, whose name begins
// so. It reports whether there is one.
func (t *Task) Until(name string) bool {
	for !t.over && !strings.HasPrefix(t.at.Name, name) {
		t.proceed()
	}
	return !t.over
}

// Past goes on to the next such call and makes it.
func (t *Task) Past(name string) bool {
	found := t.Until(name)
	t.Step()
	return found
}

// Finish goes on to the end.
func (t *Task) Finish() {
	for !t.over {
		t.proceed()
	}
}

// Kill lets it die where it stands, before the call.
func (t *Task) Kill() {
	outer := t.hook.current
	t.hook.current = t
	defer func() { t.hook.current = outer }()
	t.stop()
	t.at, t.over = Call{}, true
}

// Interleave runs tasks to their ends, each time choosing by chance which of
// them makes its next call.
func Interleave(draw func(n int) int, tasks ...*Task) {
	for {
		var open []*Task
		for _, t := range tasks {
			if !t.over {
				open = append(open, t)
			}
		}
		if len(open) == 0 {
			return
		}
		open[draw(len(open))].Step()
	}
}
