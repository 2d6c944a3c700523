package fate

import "sync"

// Hook is what every call passes. The zero value is ready; it is safe for
// concurrent use as long as no task is open.
type Hook struct {
	// Faults decides what becomes of each call; nil lets all succeed. It may be
	// changed while no call is under way.
	Faults Faults

	mu      sync.Mutex
	calls   int
	trace   []Call
	current *Task
}

// Calls is how many calls have been made.
func (h *Hook) Calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// traced is about how many calls a hook remembers.
const traced = 400

// Trace is the last calls made, for whoever has to explain a failure.
func (h *Hook) Trace() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Call(nil), h.trace...)
}

// Reach is where a call begins: the task that makes it stands still there, and
// then the plan says what becomes of it.
func (h *Hook) Reach(name string) (Call, Fault) {
	c := Call{Name: name}
	if t := h.current; t != nil {
		c.Task = t.name
		t.reach(c)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	c.N = h.calls
	if h.trace = append(h.trace, c); len(h.trace) > traced {
		h.trace = h.trace[traced/2:]
	}
	if h.Faults == nil {
		return c, None
	}
	return c, h.Faults(c)
}
