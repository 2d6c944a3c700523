package lambdahost

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxReply is the most a function may reply: 6 MiB and a little, as on AWS.
const maxReply = 6<<20 + 100

// api is the Runtime API as one process sees it, version 2018-06-01, and as much
// of the Extensions API as the Go runtime needs to be sent SIGTERM.
func (e *environment) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", e.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", e.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", e.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", e.initFailure)
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

// next tells the pool that the process is free, waits for an invocation and
// delivers it. It also ends the previous one: a process works on an invocation
// until it asks for another.
func (e *environment) next(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.dead {
		e.mu.Unlock()
		return
	}
	first, last := !e.asked, e.current
	e.asked, e.current = true, nil
	if last != nil {
		e.served++
	}
	if e.clock != nil {
		e.clock.Stop()
		e.clock = nil
	}
	e.mu.Unlock()
	if last != nil {
		e.account()
		last.finish(nil, &FunctionError{Type: TypeNoReply, Message: "RequestId: " + last.id + " Error: Runtime asked for more work without a reply"})
	}
	e.fn.ready(e, first, last != nil)

	var v *invocation
	select {
	case v = <-e.offers:
	case <-r.Context().Done(): // the process is dying; what is offered is picked up after it
		return
	}
	timeout := e.fn.spec.Timeout
	e.mu.Lock()
	if e.dead {
		e.mu.Unlock()
		e.fn.takeBack(v)
		return
	}
	e.current, e.began = v, time.Now()
	deadline := e.began.Add(timeout)
	e.clock = time.AfterFunc(timeout, func() { e.expire(v) })
	e.mu.Unlock()
	e.fn.counts.invocations.Add(1)

	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", v.id)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", e.fn.arn())
	h.Set("Lambda-Runtime-Trace-Id", v.trace)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(v.payload)))
	w.Write(v.payload)
}

// expire is called at an invocation's deadline. The caller learns of it now, not
// when the process has been reaped; a reply that comes later is ignored.
func (e *environment) expire(v *invocation) {
	err := &FunctionError{
		Type:    TypeTimeout,
		Message: fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", v.id, e.fn.spec.Timeout.Seconds()),
	}
	e.kill(func() bool {
		if e.current != v {
			return false
		}
		if v.finish(nil, err) {
			e.fn.host.log.Say(e.fn.spec.Name, "%v", err)
		}
		return true
	}, err)
}

// answer is the invocation that a request speaks of, or nil after saying no.
func (e *environment) answer(w http.ResponseWriter, r *http.Request) *invocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil || e.current.id != r.PathValue("id") || e.current.finished() {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "Invalid request ID")
		return nil
	}
	return e.current
}

func (e *environment) response(w http.ResponseWriter, r *http.Request) {
	v := e.answer(w, r)
	if v == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReply+1))
	if err != nil {
		refuse(w, http.StatusBadRequest, "TruncatedBody", "The body could not be read")
		return
	}
	if len(body) > maxReply {
		v.finish(nil, &FunctionError{Type: TypeTooLarge, Message: fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxReply)})
		refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The reply is too large")
		return
	}
	e.fn.replies(e)
	// A runtime that notices an error in the middle of its reply says so after it.
	if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" {
		failed := &FunctionError{Type: kind}
		if b, err := base64.StdEncoding.DecodeString(r.Trailer.Get("Lambda-Runtime-Function-Error-Body")); err == nil && len(b) > 0 {
			failed = readFunctionError(b)
		}
		v.finish(nil, failed)
	} else {
		v.finish(body, nil)
	}
	accept(w)
}

func (e *environment) failure(w http.ResponseWriter, r *http.Request) {
	v := e.answer(w, r)
	if v == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReply))
	if err != nil {
		refuse(w, http.StatusBadRequest, "TruncatedBody", "The body could not be read")
		return
	}
	e.fn.replies(e)
	v.finish(nil, readFunctionError(body))
	accept(w)
}

// initFailure notes why the process will not work. It is expected to exit; one
// that does not is ended.
func (e *environment) initFailure(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReply))
	e.mu.Lock()
	late := e.asked
	if err == nil && !late {
		e.initErr = readFunctionError(body)
	}
	e.mu.Unlock()
	if late {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "The start is over")
		return
	}
	accept(w)
	time.AfterFunc(e.fn.host.opts.Grace, func() {
		e.kill(func() bool { return true }, &FunctionError{Type: TypeExit, Message: "Error: Runtime did not exit after a failed start"})
	})
}

func accept(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, `{"status":"OK"}`)
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errorType":%q,"errorMessage":%q}`, kind, message)
}
