package faults

import "sync"

// Injector is what every call passes. The zero value is ready; it is safe for
// concurrent use as long as no task is open.
type Injector struct {
	// Faults decides what becomes of each call; nil lets all succeed. It may be
	// changed while no call is under way.
	Faults Plan

	mu      sync.Mutex
	calls   int
	trace   []Call
	current *Task
}

// CallCount is how many calls have been made.
func (h *Injector) CallCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// maxTrace is about how many calls a hook remembers.
const maxTrace = 400

// Trace is the last calls made, for whoever has to explain a failure.
func (h *Injector) Trace() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Call(nil), h.trace...)
}

// Intercept is where a call begins: the task that makes it stands still there, and
// then the plan says what becomes of it.
func (h *Injector) Intercept(name string) (Call, Fault) {
	c := Call{Name: name}
	if t := h.current; t != nil {
		c.Task = t.name
		t.pauseBefore(c)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	c.Number = h.calls
	if h.trace = append(h.trace, c); len(h.trace) > maxTrace {
		h.trace = h.trace[maxTrace/2:]
	}
	if h.Faults == nil {
		return c, None
	}
	return c, h.Faults(c)
}
