package httpserver

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/boot/tracing"
	"github.com/lockstep-run/lockstep/shared/observe"
)

// errRequestFailed is the error of the span of a request whose response is a 5xx or missing.
var errRequestFailed = errors.New("the request could not be answered")

// traceRequests starts a span for each request, as a child of the caller's span if the
// request names one.
func traceRequests(t *tracing.Tracer, next http.Handler) http.Handler {
	if !t.Enabled() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // what follows has ids
		ctx, end := t.Start(r.Context(), observe.SpanConfig{
			Name: r.Method + " /" + resource, Parent: r.Header.Get("Traceparent"), Kind: observe.Server,
			Attrs: []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path)},
		})
		recorder := &statusRecorder{ResponseWriter: w}
		defer func() {
			attrs := []slog.Attr{
				slog.Int("status", recorder.code), slog.String(observe.HTTPRequestID, w.Header().Get("X-Request-Id")),
				slog.String(observe.CorrelationID, w.Header().Get("X-Correlation-Id")),
			}
			if recorder.code >= http.StatusInternalServerError || recorder.code == 0 {
				end(errRequestFailed, attrs...)
				return
			}
			end(nil, attrs...)
		}()
		next.ServeHTTP(recorder, r.WithContext(ctx))
	})
}

// statusRecorder records the status of a response.
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

// Unwrap gives [http.ResponseController] the writer underneath.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
