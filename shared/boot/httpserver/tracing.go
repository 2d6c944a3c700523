package httpserver

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/boot/tracing"
	"github.com/lockstep-run/lockstep/shared/observe"
)

// traceRequests makes a span of each request, as part of the caller's own if the request says
// which that is.
func traceRequests(t *tracing.Tracer, h http.Handler) http.Handler {
	if !t.Enabled() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // the rest has ids
		ctx, end := t.Start(r.Context(), observe.SpanConfig{
			Name: r.Method + " /" + kind, Parent: r.Header.Get("Traceparent"), Kind: observe.Server,
			Attrs: []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path)},
		})
		recorder := &statusRecorder{ResponseWriter: w}
		defer func() {
			attrs := []slog.Attr{
				slog.Int("status", recorder.code), slog.String(observe.HTTPRequestID, w.Header().Get("X-Request-Id")),
				slog.String(observe.CorrelationID, w.Header().Get("X-Correlation-Id")),
			}
			if recorder.code >= http.StatusInternalServerError || recorder.code == 0 {
				end(errFailed, attrs...)
				return
			}
			end(nil, attrs...)
		}()
		h.ServeHTTP(recorder, r.WithContext(ctx))
	})
}

type errorString string

func (f errorString) Error() string { return string(f) }

const errFailed = errorString("the request could not be answered")

// statusRecorder remembers what was answered.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (s *statusRecorder) WriteHeader(code int) {
	if s.code == 0 && code >= http.StatusOK {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *statusRecorder) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find what lies beneath.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
