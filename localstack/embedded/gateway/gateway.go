// Package gateway is the HTTP API in front of the API function: it turns each request
// into the event that API Gateway sends (payload format 2.0, event.go), invokes the
// function, and turns the reply into a response (reply.go).
//
// As in the deployed stack, the only route and the only stage are $default; the
// function does the routing. Failures are answered as problems (RFC 9457), which API
// Gateway cannot do, with the status codes of API Gateway.
package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Invoke runs the API function on an event.
type Invoke func(ctx context.Context, event []byte) (reply []byte, err error)

// Options configure [New]. The zero value is usable.
type Options struct {
	// Account and APIID appear in events. Defaults: 000000000000 and local.
	Account, APIID string
	// MaxBody is the largest accepted body, in bytes. Default 10 MiB, as in API
	// Gateway. On AWS the limit of Lambda comes first: 6 MiB for the whole event.
	MaxBody int64
	// BodyTimeout is how long a body may take to arrive. Default 30s.
	BodyTimeout time.Duration
	// Interrupted reports whether an error means that the function, or what runs it, ended during
	// the request, so that a client may try again.
	Interrupted func(error) bool
	// Timeout is how long a client waits for a reply. Default 30s, as on AWS.
	Timeout time.Duration
	// Now and NewID make the time and the id of each request. Defaults: time.Now and
	// a random id.
	Now   func() time.Time
	NewID func() string
	// Log gets the causes of failures, which clients do not see. Default: slog's
	// default logger.
	Log *slog.Logger
}

type handler struct {
	invoke Invoke
	opts   Options
}

// New makes the handler.
func New(invoke func(context.Context, []byte) ([]byte, error), opts Options) http.Handler {
	opts.Account = cmp.Or(opts.Account, "000000000000")
	opts.APIID = cmp.Or(opts.APIID, "local")
	opts.MaxBody = cmp.Or(opts.MaxBody, 10<<20)
	opts.BodyTimeout = cmp.Or(opts.BodyTimeout, 30*time.Second)
	opts.Timeout = cmp.Or(opts.Timeout, 30*time.Second)
	opts.Log = cmp.Or(opts.Log, slog.Default())
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.NewID == nil {
		opts.NewID = rand.Text
	}
	if opts.Interrupted == nil {
		opts.Interrupted = func(error) bool { return false }
	}
	return &handler{invoke: invoke, opts: opts}
}

func (g *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := g.opts.NewID()
	w.Header().Set("Apigw-Requestid", id)
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(g.opts.BodyTimeout)) // a recorder of a test has no connection
	body, err := io.ReadAll(io.LimitReader(r.Body, g.opts.MaxBody+1))
	switch {
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		writeProblem(w, id, workflow.CodeInvalid, fmt.Sprintf("the body did not arrive within %s", g.opts.BodyTimeout))
		return
	case err != nil:
		writeProblem(w, id, workflow.CodeInvalid, "the body could not be read")
		return
	case int64(len(body)) > g.opts.MaxBody:
		g.refuseBody(w, r, connection, id)
		return
	}
	_ = connection.SetReadDeadline(time.Time{})
	event, err := workflow.EncodeJSON(g.event(r, body, id))
	if err != nil {
		g.writeInternalError(w, r, id, fmt.Errorf("encode the event: %w", err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.opts.Timeout)
	defer cancel()
	raw, err := g.invoke(ctx, event)
	switch {
	case r.Context().Err() != nil:
		// The client has gone, so nobody reads a reply.
	case err != nil && ctx.Err() != nil:
		g.opts.Log.WarnContext(ctx, "function did not reply in time", "method", r.Method, "path", r.URL.Path, "requestId", id, "timeout", g.opts.Timeout.String())
		writeProblem(w, id, workflow.CodeUnavailable, "no reply in time; the request may or may not have been carried out")
	case err != nil && g.opts.Interrupted(err):
		g.opts.Log.WarnContext(ctx, "function ended during a request", "method", r.Method, "path", r.URL.Path, "requestId", id, "error", err.Error())
		writeProblem(w, id, workflow.CodeUnavailable, "the service was interrupted; the request may or may not have been carried out")
	case err != nil:
		g.writeInternalError(w, r, id, err)
	default:
		reply, err := parseReply(raw)
		if err != nil {
			g.writeInternalError(w, r, id, err)
			return
		}
		reply.write(w)
	}
}

// maxDiscarded is how much of a body that is too large is read after the answer.
const maxDiscarded = 256 << 20

// refuseBody answers a body that is too large, and then reads what the client still sends:
// if the connection were closed before, the client would get a reset instead of the answer.
func (g *handler) refuseBody(w http.ResponseWriter, r *http.Request, connection *http.ResponseController, id string) {
	_ = connection.EnableFullDuplex()     // without it, the rest could not be read after the answer
	w.Header().Set("Connection", "close") // the body may not be read to its end
	writeProblem(w, id, workflow.CodeTooLarge, fmt.Sprintf("the body has more than %d bytes", g.opts.MaxBody))
	_ = connection.Flush()
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxDiscarded)) // until the read deadline
}

// writeInternalError answers for a function that failed. Only the log has the cause.
func (g *handler) writeInternalError(w http.ResponseWriter, r *http.Request, id string, cause error) {
	g.opts.Log.ErrorContext(r.Context(), "function failed", "method", r.Method, "path", r.URL.Path, "requestId", id, "error", cause.Error())
	writeProblem(w, id, workflow.CodeInternal, "internal error; the log has the cause under this request id")
}

// writeProblem answers with a problem like those of the API.
func writeProblem(w http.ResponseWriter, id string, code workflow.Code, detail string) {
	title := strings.ReplaceAll(string(code), "_", " ")
	body, err := workflow.EncodeJSON(struct {
		Type      string           `json:"type"`
		Title     string           `json:"title"`
		Status    int              `json:"status"`
		Detail    string           `json:"detail"`
		Code      workflow.Code    `json:"code"`
		RequestID string           `json:"requestId"`
		Errors    []workflow.Issue `json:"errors"`
	}{
		Type:      "urn:lockstep:problem:" + string(code),
		Title:     strings.ToUpper(title[:1]) + title[1:],
		Status:    code.HTTPStatus(),
		Detail:    detail,
		Code:      code,
		RequestID: id,
		Errors:    []workflow.Issue{},
	})
	if err != nil {
		panic(err) // these values always encode
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if code == workflow.CodeUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(code.HTTPStatus())
	w.Write(append(body, '\n'))
}
