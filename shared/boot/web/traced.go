package web

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/boot/tracing"
	"github.com/lockstep-run/lockstep/shared/observe"
)

// traced makes a span of each request, as part of the caller's own if the request says
// which that is.
func traced(t *tracing.Tracing, h http.Handler) http.Handler {
	if !t.On() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // the rest has ids
		ctx, end := t.Begin(r.Context(), observe.Span{
			Name: r.Method + " /" + kind, Parent: r.Header.Get("Traceparent"), Kind: observe.Server,
			About: []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path)},
		})
		seen := &status{ResponseWriter: w}
		defer func() {
			about := []slog.Attr{
				slog.Int("status", seen.code), slog.String(observe.HTTPRequestID, w.Header().Get("X-Request-Id")),
				slog.String(observe.CorrelationID, w.Header().Get("X-Correlation-Id")),
			}
			if seen.code >= http.StatusInternalServerError || seen.code == 0 {
				end(errFailed, about...)
				return
			}
			end(nil, about...)
		}()
		h.ServeHTTP(seen, r.WithContext(ctx))
	})
}

type failure string

func (f failure) Error() string { return string(f) }

const errFailed = failure("the request could not be answered")

// status remembers what was answered.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	if s.code == 0 && code >= http.StatusOK {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find what lies beneath.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
