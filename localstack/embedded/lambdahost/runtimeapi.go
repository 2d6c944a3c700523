package lambdahost

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxReplyBytes is the largest reply: 6 MiB and 100 bytes, as on AWS.
const maxReplyBytes = 6<<20 + 100

// runtimeAPI is the Runtime API of one process, version 2018-06-01, and the part of the
// Extensions API that the Go runtime needs to receive SIGTERM.
func (e *environment) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", e.handleNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", e.handleResponse)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", e.handleError)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", e.handleInitError)
	mux.HandleFunc("POST /2020-01-01/extension/register", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Lambda-Extension-Identifier", newID())
		fmt.Fprintf(w, `{"functionName":%q,"functionVersion":"$LATEST","handler":"bootstrap"}`, e.fn.spec.Name)
	})
	mux.HandleFunc("GET /2020-01-01/extension/event/next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-e.exited:
		}
	})
	return mux
}

// handleNext reports to the pool that the process is free, waits for an invocation and
// delivers it. It also ends the previous one: an invocation lasts until the process
// asks for another.
func (e *environment) handleNext(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.terminated {
		e.mu.Unlock()
		return
	}
	first, last := !e.initialized, e.current
	e.initialized, e.current = true, nil
	if last != nil {
		e.servedCount++
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	e.mu.Unlock()
	if last != nil {
		e.recordDuration()
		last.finish(nil, &FunctionError{Type: TypeNoReply, Message: "RequestId: " + last.id + " Error: Runtime asked for the next event without a reply"})
	}
	e.fn.environmentReady(e, first, last != nil)

	var v *invocation
	select {
	case v = <-e.assigned:
	case <-r.Context().Done(): // the process has ended; environmentExited requeues what is assigned
		return
	}
	timeout := e.fn.spec.Timeout
	e.mu.Lock()
	if e.terminated {
		e.mu.Unlock()
		e.fn.requeue(v)
		return
	}
	e.current, e.currentSince = v, time.Now()
	deadline := e.currentSince.Add(timeout)
	e.timer = time.AfterFunc(timeout, func() { e.timeOut(v) })
	e.mu.Unlock()
	e.fn.counts.invocations.Add(1)

	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", v.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", e.fn.arn())
	h.Set("Lambda-Runtime-Trace-Id", v.traceHeader)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(v.payload)))
	w.Write(v.payload)
}

// timeOut is called at an invocation's deadline. It ends the invocation at once, not
// when the process has been reaped, and a later reply is ignored.
func (e *environment) timeOut(v *invocation) {
	err := &FunctionError{
		Type:    TypeTimeout,
		Message: fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", v.id, e.fn.spec.Timeout.Seconds()),
	}
	e.kill(func() bool {
		if e.current != v {
			return false
		}
		if v.finish(nil, err) {
			e.fn.host.log.logf(e.fn.spec.Name, "%v", err)
		}
		return true
	}, err)
}

// currentInvocation returns the invocation that a request names. It returns nil if the id is not
// current; in that case it has answered the request.
func (e *environment) currentInvocation(w http.ResponseWriter, r *http.Request) *invocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil || e.current.id != r.PathValue("id") || e.current.finished() {
		writeError(w, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
		return nil
	}
	return e.current
}

func (e *environment) handleResponse(w http.ResponseWriter, r *http.Request) {
	v := e.currentInvocation(w, r)
	if v == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReplyBytes+1))
	if err != nil {
		writeError(w, http.StatusBadRequest, "TruncatedBody", "The body cannot be read")
		return
	}
	if len(body) > maxReplyBytes {
		v.finish(nil, &FunctionError{Type: TypeTooLarge, Message: fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxReplyBytes)})
		writeError(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The reply is too large")
		return
	}
	e.fn.recordReply(e)
	// A runtime reports an error in the middle of a streamed reply in trailers.
	if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" {
		failed := &FunctionError{Type: kind}
		if b, err := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body")); err == nil && len(b) > 0 {
			failed = parseFunctionError(b)
		}
		v.finish(nil, failed)
	} else {
		v.finish(body, nil)
	}
	writeAccepted(w)
}

func (e *environment) handleError(w http.ResponseWriter, r *http.Request) {
	v := e.currentInvocation(w, r)
	if v == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReplyBytes))
	if err != nil {
		writeError(w, http.StatusBadRequest, "TruncatedBody", "The body cannot be read")
		return
	}
	e.fn.recordReply(e)
	v.finish(nil, parseFunctionError(body))
	writeAccepted(w)
}

// handleInitError records why the process cannot start. The process should exit; after
// the grace period it is killed.
func (e *environment) handleInitError(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReplyBytes))
	e.mu.Lock()
	late := e.initialized
	if err == nil && !late {
		e.initErr = parseFunctionError(body)
	}
	e.mu.Unlock()
	if late {
		writeError(w, http.StatusForbidden, "InvalidStateTransition", "The runtime has already started")
		return
	}
	writeAccepted(w)
	time.AfterFunc(e.fn.host.opts.TerminationGrace, func() {
		e.kill(func() bool { return true }, &FunctionError{Type: TypeExit, Message: "Error: Runtime did not exit after a failed start"})
	})
}

func writeAccepted(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, `{"status":"OK"}`)
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errorType":%q,"errorMessage":%q}`, kind, message)
}
