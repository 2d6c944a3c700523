package api

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	headerRequestID     = "X-Request-Id"
	headerCorrelationID = "X-Correlation-Id"
)

// middleware wraps the routes in what every request passes through.
func (a *routes) middleware(mux *http.ServeMux) http.Handler {
	// Any web page can post to a local stack, so a request that a browser sends for a page of
	// another site must not change anything.
	crossOrigin := http.NewCrossOriginProtection()
	for _, origin := range a.opt.Origins {
		if err := crossOrigin.AddTrustedOrigin(origin); err != nil {
			a.opt.Log.Warn("invalid trusted origin", observe.Err(err))
		}
	}
	return http.HandlerFunc(func(w0 http.ResponseWriter, r *http.Request) {
		w := &responseWriter{ResponseWriter: w0, bodyless: r.Method == http.MethodHead}
		a.setRequestIDs(w, r)
		r = r.WithContext(views.WithRateReport(r.Context(), rateHeaders(w.Header())))
		defer a.recoverPanic(w, r)

		if err := crossOrigin.Check(r); err != nil {
			a.writeError(w, r, workflow.Errorf(workflow.CodeForbidden, "cross-site requests are not allowed"))
			return
		}
		if a.isPreflight(r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.URL.Path = readPath(r.Method, r.URL.Path)
		// The mux would redirect a path that is not clean. Here such a path does not exist.
		if _, pattern := mux.Handler(r); pattern == "" || r.URL.Path != path.Clean(r.URL.Path) {
			if pattern == "" || !strings.HasPrefix(r.URL.Path, "/monitor/") {
				a.noRoute(w, r, mux)
				return
			}
		}
		mux.ServeHTTP(w, r)
		if w.status >= 500 {
			a.opt.Log.LogAttrs(r.Context(), slog.LevelWarn, "request answered with a server error", append(requestAttrs(r), slog.Int("status", w.status))...)
		}
	})
}

// readPath is the path at which tokens are read for one at which they are made: the mux takes no
// pattern for it, since some paths would match that one and one of /workflow-execution/id/.
func readPath(method, at string) string {
	parts := strings.Split(at, "/")
	reads := method == http.MethodGet || method == http.MethodHead
	if reads && len(parts) == 4 && parts[1] == "workflow-execution" && parts[2] != "id" && parts[2] != "state" && parts[3] == "tokens" {
		return "/workflow-execution/id/" + parts[2] + "/tokens"
	}
	return at
}

// isPreflight reports whether a request is a CORS preflight from one of the origins. The gateway
// writes the CORS headers; the browser only needs an ok status.
func (a *routes) isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		slices.Contains(a.opt.Origins, r.Header.Get("Origin"))
}

// setRequestIDs sets the ids in the headers of the request and the response, and the security
// headers of the response.
func (a *routes) setRequestIDs(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerRequestID)
	if !workflow.IsVisible(id, 128) {
		id = a.opt.NewID()
	}
	correlation := r.Header.Get(headerCorrelationID)
	if !workflow.IsVisible(correlation, 128) {
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

// rateHeaders returns a function that sets the headers about a rate. Of several rates, or several
// uses, they are about the one with the least left. They are those of the draft
// ietf-httpapi-ratelimit-headers-06.
func rateHeaders(h http.Header) func(workflow.RateUse) {
	var mu sync.Mutex // the starts of a batch run at the same time
	least := math.MaxInt
	return func(u workflow.RateUse) {
		mu.Lock()
		defer mu.Unlock()
		if u.Remaining > least {
			return
		}
		least = u.Remaining
		h.Set("RateLimit-Limit", strconv.Itoa(u.Rate.Count))
		h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", u.Rate.Count, seconds(u.Rate.Per)))
		h.Set("RateLimit-Remaining", strconv.Itoa(u.Remaining))
		h.Set("RateLimit-Reset", strconv.Itoa(seconds(u.Reset)))
	}
}

// requestAttrs returns log attributes that identify a request, without its content.
func requestAttrs(r *http.Request) []slog.Attr {
	return []slog.Attr{
		slog.String(observe.HTTPRequestID, r.Header.Get(headerRequestID)), slog.String(observe.CorrelationID, r.Header.Get(headerCorrelationID)),
		slog.String("method", r.Method), slog.String("path", r.URL.Path),
	}
}

// recoverPanic turns a panic into a problem; only the log gets the stack.
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

// noRoute answers a request that matches no route.
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
		a.writeError(w, r, workflow.Errorf(workflow.CodeNotFound, "there is no route %q", r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.writeError(w, r, workflow.Errorf(workflow.CodeMethodNotAllowed, "%q does not allow %s, only %s", r.URL.Path, r.Method, strings.Join(allowed, ", ")))
}

// responseWriter records the status of a response and drops the body of a response to HEAD,
// whatever handler writes it.
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

// Unwrap gives [http.ResponseController] the writer underneath.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// validatingMux authenticates and validates every request before its handler.
type validatingMux struct {
	*routes
	mux *http.ServeMux
}

// HandleFunc registers a route; the generated code calls it.
func (m *validatingMux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	op := m.doc.Operations[strings.TrimSuffix(pattern, "{$}")]
	if op == nil {
		panic("the OpenAPI document has no route " + pattern)
	}
	roles := rolesOf(strings.TrimSuffix(pattern, "{$}"))
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if !op.Public {
			caller, err := m.identify(r)
			if err == nil {
				err = m.opt.Access.check(caller, roles...)
			}
			if err != nil {
				m.writeError(w, r, err)
				return
			}
		}
		if err := op.Validate(w, r); err != nil {
			m.writeError(w, r, err)
			return
		}
		if isAudited(pattern, op.Public, roles) {
			m.audited(op.ID, w, r, handle)
			return
		}
		handle(w, r)
	})
}

// ServeHTTP completes the interface that the generated code expects of a mux.
func (m *validatingMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// The caller of a local stack, unless the headers name another.
const (
	defaultTenant = "default"
	defaultActor  = "local"
)

// identify returns the caller of a request.
func (a *routes) identify(r *http.Request) (workflow.Caller, error) {
	switch {
	case a.opt.TrustHeaders:
		return callerFromHeaders(r.Header)
	case a.opt.Identify == nil:
		return workflow.Caller{}, workflow.Errorf(workflow.CodeUnauthorized, "the caller is not authenticated")
	}
	c, err := a.opt.Identify(r)
	var coded *workflow.Error
	switch {
	case errors.As(err, &coded):
		return c, err
	case err != nil:
		return c, &workflow.Error{Code: workflow.CodeUnauthorized, Message: "the caller is not authenticated", Cause: err}
	case c.Tenant == "":
		return c, workflow.Errorf(workflow.CodeUnauthorized, "the caller has no tenant")
	}
	return c, nil
}

func callerFromHeaders(h http.Header) (workflow.Caller, error) {
	c := workflow.Caller{Tenant: defaultTenant, Actor: defaultActor}
	var issues []workflow.Issue
	if t := h.Get("X-Tenant"); t != "" {
		c.Tenant = t
	}
	if !workflow.ValidID(c.Tenant) {
		issues = append(issues, workflow.Issue{Path: "X-Tenant", Code: "pattern", Message: "want up to 128 letters, digits and ._:@+-"})
	}
	if s := h.Get("X-Actor"); s != "" {
		c.Actor = s
	}
	if c.Roles = h.Get("X-Roles"); len(c.Roles) > workflow.MaxRolesBytes {
		issues = append(issues, workflow.Issue{Path: "X-Roles", Code: "limit", Message: "want names with commas between them, at most 4096 bytes"})
	}
	if !workflow.IsVisible(c.Actor, 256) {
		issues = append(issues, workflow.Issue{Path: "X-Actor", Code: "pattern", Message: "want up to 256 visible characters"})
	}
	return c, workflow.Invalid("the caller's name is not valid", issues)
}

// caller returns the caller of a request that has been validated.
func (a *routes) caller(r *http.Request) workflow.Caller {
	c, _ := a.identify(r)
	// A correlation id that was made here equals the request id and adds nothing.
	if id := r.Header.Get(headerCorrelationID); id != r.Header.Get(headerRequestID) {
		c.CorrelationID = id
	}
	return c
}
