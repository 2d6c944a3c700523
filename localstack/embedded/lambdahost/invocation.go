package lambdahost

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClosed is what invocations get once the host is shutting down.
var ErrClosed = errors.New("lambdahost: host is closed")

// Error types that the host itself reports, spelled as AWS spells them. Every
// other type comes from the function: the name of the Go type of its error.
const (
	TypeTimeout      = "Sandbox.Timedout"
	TypeExit         = "Runtime.ExitError"
	TypeNoEntrypoint = "Runtime.InvalidEntrypoint"
	TypeNoReply      = "Runtime.NoReply"
	TypeTooLarge     = "Function.ResponseSizeTooLarge"
)

// FunctionError says that the function failed: its handler returned an error or
// panicked, ran out of time, or its process died or did not start.
type FunctionError struct {
	Type    string          // "errorString", "Sandbox.Timedout", ...
	Message string          // for logs; may hold anything the function put into it
	Stack   json.RawMessage // the runtime's stack trace, null if it sent none
}

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// parseFunctionError decodes what a runtime posts to .../error. A body that is no
// such document is itself the message.
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

// invocation is one event on its way through a function. It ends exactly once;
// whoever comes second (a reply after the deadline, say) is ignored.
type invocation struct {
	id          string
	traceHeader string
	payload     []byte

	// Under Deployed.mu: how many environments had been started before it began
	// to wait, and how many of those started since have failed at its expense.
	startsBefore int64
	failedStarts int

	once  sync.Once
	done  chan struct{} // closed when reply and err are set
	reply []byte
	err   error
}

func newInvocation(payload []byte, now time.Time) *invocation {
	return &invocation{id: newID(), traceHeader: newTraceHeader(now), payload: payload, done: make(chan struct{})}
}

// finish ends the invocation and reports whether this call was the one that did.
func (v *invocation) finish(reply []byte, err error) bool {
	first := false
	v.once.Do(func() {
		v.reply, v.err = reply, err
		first = true
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

// newID is a random UUID, the form of every request id on AWS.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it aborts the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newTraceHeader is an X-Ray header of a trace that nobody samples.
func newTraceHeader(now time.Time) string {
	var b [20]byte
	rand.Read(b[:])
	return fmt.Sprintf("Root=1-%08x-%x;Parent=%x;Sampled=0", now.Unix(), b[:12], b[12:])
}
