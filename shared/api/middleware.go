package api

import (
	"errors"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	headerRequestID     = "X-Request-Id"
	headerCorrelationID = "X-Correlation-Id"
)

// middleware is what every request passes, whatever it asks for.
func (a *routes) middleware(mux *http.ServeMux) http.Handler {
	// The local stack listens where any web page can post to: a request that a
	// browser sends on behalf of another site must not change anything.
	crossOrigin := http.NewCrossOriginProtection()
	for _, origin := range a.opt.Origins {
		if err := crossOrigin.AddTrustedOrigin(origin); err != nil {
			a.opt.Log.Warn("pages of no such origin can be let in", "error", err)
		}
	}
	return http.HandlerFunc(func(w0 http.ResponseWriter, r *http.Request) {
		w := &responseWriter{ResponseWriter: w0, bodyless: r.Method == http.MethodHead}
		a.setRequestIDs(w, r)
		defer a.recoverPanic(w, r)

		if err := crossOrigin.Check(r); err != nil {
			a.writeError(w, r, workflow.Errorf(workflow.CodeForbidden, "a page of another site may not do this"))
			return
		}
		if a.isPreflight(r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		// The mux would redirect an unclean path; such a path names nothing here.
		if _, pattern := mux.Handler(r); pattern == "" || r.URL.Path != path.Clean(r.URL.Path) {
			if pattern == "" || !strings.HasPrefix(r.URL.Path, "/monitor/") {
				a.noRoute(w, r, mux)
				return
			}
		}
		mux.ServeHTTP(w, r)
		if w.status >= 500 {
			a.opt.Log.LogAttrs(r.Context(), slog.LevelWarn, "request refused", append(requestAttrs(r), slog.Int("status", w.status))...)
		}
	})
}

// isPreflight reports whether a browser asks if a page of one of the origins may send a
// request. The gateway says what it may; a browser only wants a status that is ok.
func (a *routes) isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		slices.Contains(a.opt.Origins, r.Header.Get("Origin"))
}

// setRequestIDs gives the request its ids and the answer the headers that every answer
// has. The ids stand in the request's header from here on.
func (a *routes) setRequestIDs(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerRequestID)
	if !isVisibleASCII(id, 128) {
		id = a.opt.NewID()
	}
	correlation := r.Header.Get(headerCorrelationID)
	if !isVisibleASCII(correlation, 128) {
		correlation = id
	}
	r.Header.Set(headerRequestID, id)
	r.Header.Set(headerCorrelationID, correlation)

	h := w.Header()
	h.Set(headerRequestID, id)
	h.Set(headerCorrelationID, correlation)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// requestAttrs is which request a line of the log is about: nothing that it holds but what
// it names.
func requestAttrs(r *http.Request) []slog.Attr {
	return []slog.Attr{
		slog.String(observe.HTTPRequestID, r.Header.Get(headerRequestID)), slog.String(observe.CorrelationID, r.Header.Get(headerCorrelationID)),
		slog.String("method", r.Method), slog.String("path", r.URL.Path),
	}
}

// isVisibleASCII reports whether s is 1 to limit visible ASCII characters.
func isVisibleASCII(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// recoverPanic turns a panic into a problem; the stack goes to the log alone.
func (a *routes) recoverPanic(w *responseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	a.opt.Log.LogAttrs(r.Context(), slog.LevelError, "panic", append(requestAttrs(r), observe.PanicAttrs(cause, debug.Stack())...)...)
	if w.status == 0 {
		a.writeProblem(w, r, &workflow.Error{Code: workflow.CodeInternal, Message: internalDetail})
	}
}

var probedMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// noRoute answers a request that no route takes.
func (a *routes) noRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	if r.URL.Path == path.Clean(r.URL.Path) {
		for _, m := range probedMethods {
			probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
			if _, pattern := mux.Handler(probe); pattern != "" {
				allowed = append(allowed, m)
			}
		}
	}
	if allowed == nil {
		a.writeError(w, r, workflow.Errorf(workflow.CodeNotFound, "there is nothing at %q", r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.writeError(w, r, workflow.Errorf(workflow.CodeMethodNotAllowed, "%s is not among the methods of %q: %s", r.Method, r.URL.Path, strings.Join(allowed, ", ")))
}

// responseWriter knows whether anything has been answered, and keeps the body of an
// answer to HEAD to itself, whoever serves.
type responseWriter struct {
	http.ResponseWriter
	bodyless bool
	status   int
}

func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.bodyless {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find what lies beneath.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
