// Package faults decides what happens to calls and to their callers.
//
// faults.go has the faults, the plans that choose them and the injector that every call
// passes. task.go runs code one call at a time, so that a test can pause a handler between
// two calls while others proceed, or crash it there.
package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// Call is one call of a port.
type Call struct {
	Number int    // its number in the world, from 1
	Name   string // "store.commit"
	Task   string // the task that makes it, if any
}

func (c Call) String() string {
	if c.Task == "" {
		return fmt.Sprintf("%d %s", c.Number, c.Name)
	}
	return fmt.Sprintf("%d %s of %s", c.Number, c.Name, c.Task)
}

// Fault is what happens to a call.
type Fault int

// The faults. Stale applies only to weakly consistent reads and to index reads, PartialBatch only
// to batches of messages.
const (
	None         Fault = iota
	CrashBefore        // the caller crashes; the call has no effect
	CrashAfter         // the call takes effect, then the caller crashes
	LostReply          // the call takes effect, and the caller gets CodeUnavailable
	Throttled          // the call has no effect, and the caller gets CodeUnavailable
	Repeated           // the reply is lost, and the client library repeats the call
	Stale              // the index returns the state before the last change
	PartialBatch       // half of the batch is left out, and the caller learns which half
	Broken             // the call has no effect, and the caller gets an error without a code
)

var faultNames = [...]string{"none", "crash before", "crash after", "lost reply", "throttled", "repeated", "stale", "partial batch", "broken"}

func (f Fault) String() string { return faultNames[f] }

// Plan decides what happens to each call.
type Plan func(Call) Fault

// At plans one fault, for the nth call from now on.
func At(n int, f Fault) Plan {
	return func(Call) Fault {
		if n--; n == 0 {
			return f
		}
		return None
	}
}

// Next plans one fault, for the next call whose name has the given prefix.
func Next(name string, f Fault) Plan {
	armed := true
	return func(c Call) Fault {
		if armed && strings.HasPrefix(c.Name, name) {
			armed = false
			return f
		}
		return None
	}
}

// Every plans a fault for every call whose name has one of the given prefixes.
func Every(f Fault, names ...string) Plan {
	return func(c Call) Fault {
		for _, name := range names {
			if strings.HasPrefix(c.Name, name) {
				return f
			}
		}
		return None
	}
}

// Randomly injects a fault into one call in so many. All given kinds are equally likely.
func Randomly(r *rand.Rand, in int, kinds ...Fault) Plan {
	return func(Call) Fault {
		if r.IntN(in) > 0 {
			return None
		}
		return kinds[r.IntN(len(kinds))]
	}
}

// Crash is the panic value of a caller that crashes. CatchCrash recovers it.
type Crash struct{ Call Call }

func (c Crash) Error() string { return "sim: crashed at call " + c.Call.String() }

// CatchCrash calls work and reports whether it crashed as planned. It does not recover other
// panics.
func CatchCrash(work func()) (crashed bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case Crash:
			crashed = true
		default:
			panic(r)
		}
	}()
	work()
	return false
}

// Injector is called on every call. The zero value is ready for use. It is safe for concurrent
// use as long as no task is running.
type Injector struct {
	// Faults decides what happens to each call; nil lets all succeed. It may be changed
	// while no call is in progress.
	Faults Plan

	mu      sync.Mutex
	calls   int
	trace   []Call
	current *Task
}

// CallCount returns the number of calls so far.
func (h *Injector) CallCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// maxTrace is the most calls that an injector remembers.
const maxTrace = 400

// Trace returns the last calls, to explain a failure.
func (h *Injector) Trace() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Call(nil), h.trace...)
}

// Intercept begins a call: it pauses the task that makes the call, if any, and then asks the
// plan for a fault.
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
