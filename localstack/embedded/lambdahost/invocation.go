package lambdahost

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the error of invocations after the host has begun to shut down.
var ErrClosed = errors.New("lambdahost: host is closed")

// Error types that the host reports, as AWS spells them. Every other type comes from
// the function: the name of the Go type of its error.
const (
	TypeTimeout      = "Sandbox.Timedout"
	TypeExit         = "Runtime.ExitError"
	TypeNoEntrypoint = "Runtime.InvalidEntrypoint"
	TypeNoReply      = "Runtime.NoReply"
	TypeTooLarge     = "Function.ResponseSizeTooLarge"
)

// FunctionError is a failure of the function: its handler returned an error, panicked
// or timed out, or its process exited or did not start.
type FunctionError struct {
	Type    string          // "errorString", "Sandbox.Timedout", ...
	Message string          // for logs; may contain anything that the function wrote
	Stack   json.RawMessage // the runtime's stack trace; null if there is none
}

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// Interrupted reports whether an invocation failed because its process or the host ended or was
// stopped, and not because the function returned an error.
func Interrupted(err error) bool {
	var failure *FunctionError
	return errors.Is(err, ErrClosed) || errors.As(err, &failure) && (failure.Type == TypeExit || failure.Type == TypeTimeout)
}

// parseFunctionError decodes what a runtime posts to .../error. Any other body becomes
// the message.
func parseFunctionError(body []byte) *FunctionError {
	var document struct {
		Type    string          `json:"errorType"`
		Message string          `json:"errorMessage"`
		Stack   json.RawMessage `json:"stackTrace"`
	}
	if err := json.Unmarshal(body, &document); err != nil || document.Type == "" && document.Message == "" {
		return &FunctionError{Type: "Runtime.Unknown", Message: string(bytes.TrimSpace(body))}
	}
	return &FunctionError{Type: document.Type, Message: document.Message, Stack: document.Stack}
}

// invocation is one event for a function. It ends exactly once; a second end, such as a
// reply after the deadline, is ignored.
type invocation struct {
	id          string
	traceHeader string
	payload     []byte
	failures    *atomic.Int64 // incremented if it fails, before done is closed

	// Guarded by DeployedFunction.mu: how many environments had been started before it
	// began to wait, and how many failed starts since then are charged to it.
	startsBefore int64
	failedStarts int

	once  sync.Once
	done  chan struct{} // closed when reply and err are set
	reply []byte
	err   error
}

func newInvocation(payload []byte, failures *atomic.Int64, now time.Time) *invocation {
	return &invocation{id: newID(), traceHeader: newTraceHeader(now), payload: payload, failures: failures, done: make(chan struct{})}
}

// finish ends the invocation and reports whether it was the first call.
func (v *invocation) finish(reply []byte, err error) bool {
	first := false
	v.once.Do(func() {
		v.reply, v.err = reply, err
		first = true
		var failure *FunctionError
		if errors.As(err, &failure) {
			v.failures.Add(1)
		}
		close(v.done)
	})
	return first
}

func (v *invocation) finished() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// newID returns a random UUID, the format of request ids on AWS.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newTraceHeader returns the X-Ray header of a trace that is not sampled.
func newTraceHeader(now time.Time) string {
	var b [20]byte
	rand.Read(b[:])
	return fmt.Sprintf("Root=1-%08x-%x;Parent=%x;Sampled=0", now.Unix(), b[:12], b[12:])
}
