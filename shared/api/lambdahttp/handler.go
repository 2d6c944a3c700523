package lambdahttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Handler is what lambda.Start takes.
type Handler func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)

// Options configure [New]. The zero value is usable.
type Options struct {
	// Identity, if set, names the caller of every request; see [Identity].
	Identity Identity
	// Log takes panics. Nil is slog's default logger.
	Log *slog.Logger
}

// New makes the Lambda handler. A panic in h is logged and answered with a
// problem of status 500: letting it through would end the process, and with it
// nothing but time would be won.
func New(h http.Handler, opts Options) Handler {
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	return func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		r, err := newRequest(ctx, &event)
		if err != nil {
			return problem(http.StatusBadRequest, workflow.CodeInvalid, err.Error()), nil
		}
		if opts.Identity != nil {
			opts.Identity.apply(r, event.RequestContext.Authorizer)
		}
		w := &recorder{header: http.Header{}}
		if cause, stack := serve(h, w, r); cause != nil {
			log.LogAttrs(ctx, slog.LevelError, "panic", append(observe.PanicAttrs(cause, stack), slog.String("method", r.Method), slog.String("path", r.URL.Path))...)
			return problem(http.StatusInternalServerError, workflow.CodeInternal, "the request could not be handled"), nil
		}
		return w.response(r.Method), nil
	}
}

// serve runs h and returns what it panicked with and where, or nil.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (cause any, stack []byte) {
	defer func() {
		if cause = recover(); cause != nil {
			stack = debug.Stack()
		}
	}()
	h.ServeHTTP(w, r)
	return nil, nil
}

// problem is the reply to a request that the handler did not get to answer.
func problem(status int, code workflow.Code, detail string) events.APIGatewayV2HTTPResponse {
	return events.APIGatewayV2HTTPResponse{
		StatusCode: status,
		Headers:    map[string]string{"Content-Type": "application/problem+json"},
		Cookies:    []string{},
		Body: fmt.Sprintf(`{"type":"urn:lockstep:problem:%s","title":%q,"status":%d,"detail":%q,"code":%q,"errors":[]}`,
			code, http.StatusText(status), status, detail, code),
	}
}
