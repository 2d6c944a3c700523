// Package httpblock runs the jobs of blocks that are served over HTTP, by a program in
// any language. client.go posts a job and reads the response, messages.go has the JSON
// of both, and allowlist.go decides which hosts may be called. docs/http-blocks.md is
// the contract.
package httpblock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxBody is the largest request or response body, in bytes. A request is measured
// without the result that a rollback takes back.
const maxBody = 1 << 20

// idempotencyHeader is the header with the job's id. It is deliberately not in its
// canonical form: net/http may repeat a request with an "Idempotency-Key" header after
// a connection breaks, and a block that must not run twice would then start twice
// without a trace. Servers ignore the case of header names.
const idempotencyHeader = "idempotency-key"

// Client calls the endpoints of blocks. It is a worker.EndpointCaller and safe for
// concurrent use.
type Client struct {
	endpoints workflow.Endpoints
	allow     allowList
	http      *http.Client
}

// New returns a client that calls only the hosts in the allow list: names or addresses,
// with a port or for every port, and [Loopback]. It neither follows redirects nor uses
// a proxy.
func New(allow []string) *Client { return NewWithEndpoints(allow, nil) }

// NewWithEndpoints works like New, for a stage with endpoints, whose hosts may be called too.
func NewWithEndpoints(allow []string, endpoints workflow.Endpoints) *Client {
	c := &Client{endpoints: endpoints, allow: newAllowList(append(allow[:len(allow):len(allow)], hostsOf(endpoints)...))}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = c.allow.dial
	t.Proxy = nil // a proxy would connect to hosts that dial must not
	t.MaxIdleConnsPerHost = 64
	c.http = &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// errHostNotAllowed is returned for a host that is not on the allow list.
var errHostNotAllowed = errors.New("the host is not on the worker's allow list; add it to worker.allowHosts or LOCKSTEP_WORKER_ALLOW_HOSTS")

// errOwnAddress is returned for a part of the stack itself, which Loopback leaves out.
var errOwnAddress = errors.New("it is an address of Lockstep itself, which blocks do not call; \"loopback\" in worker.allowHosts leaves it out")

// Call posts a job to an endpoint and returns its result. A transport error, a status other than
// 200 and an invalid response become failures with codes of their own: HTTP_<status>, HTTP_TIMEOUT,
// HTTP_UNREACHABLE, HTTP_INVALID, HTTP_FORBIDDEN and LIMIT. A failure is marked as unsent if the
// block was certainly not called.
func (c *Client) Call(ctx context.Context, e *workflow.Endpoint, j *worker.Job) worker.JobResult {
	address := e.URL
	if e.Endpoint != "" {
		var err error
		if address, err = c.endpoints.Address(e.Endpoint, e.Path); err != nil {
			return markUnsent(failureResult(workflow.FailureEndpoint, false, err.Error()))
		}
	}
	if err := c.Allows(address); err != nil {
		return markUnsent(failureResult("HTTP_FORBIDDEN", false, err.Error()))
	}
	body, err := workflow.EncodeJSON(newRequest(j))
	if err != nil {
		return markUnsent(failureResult("HTTP_INVALID", false, "cannot encode the job: "+err.Error()))
	}
	if n := len(body) - len(j.Result); n > maxBody { // a block must accept any result that it has returned
		return markUnsent(failureResult(workflow.FailureLimit, false, fmt.Sprintf("the job has %d bytes, the limit is %d", n, maxBody)))
	}
	if t := e.Timeout.Std(); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return markUnsent(failureResult("HTTP_INVALID", false, err.Error()))
	}
	for name, value := range e.Headers {
		req.Header.Set(name, value)
	}
	for name, value := range map[string]string{"X-Correlation-Id": j.CorrelationID, "Traceparent": j.TraceParent} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Del(idempotencyHeader)
	setKey(req.Header, j.ID)
	if e.Sign != nil {
		req.Header.Set(cmp.Or(e.Sign.Header, workflow.SignatureHeader), workflow.Sign([]byte(e.SignKey), time.Now(), body))
	}
	return c.post(ctx, req, j.Operation)
}

// setKey sets the key of a request that has none. Neither its own key nor ours stays in the form
// that makes net/http repeat the request (see idempotencyHeader).
func setKey(h http.Header, key string) {
	for _, name := range []string{idempotencyHeader, "x-" + idempotencyHeader} {
		if own := h.Values(name); len(own) > 0 {
			h.Del(name)
			h[name] = own
		}
	}
	if len(h[idempotencyHeader]) == 0 {
		h[idempotencyHeader] = []string{key}
	}
}

// post sends the request and reads the response.
func (c *Client) post(ctx context.Context, req *http.Request, operation workflow.JobKind) worker.JobResult {
	reply, text, failure := c.send(ctx, req)
	if failure != nil {
		return worker.JobResult{Outcome: sm.OutcomeError, Failure: failure}
	}
	if reply.StatusCode != http.StatusOK {
		a := failureResult("HTTP_"+strconv.Itoa(reply.StatusCode), retryableStatus(reply.StatusCode), "the block responded with status "+reply.Status)
		if after := retryAfter(reply.Header, time.Now()); after > 0 {
			a.Failure.Details, _ = workflow.EncodeJSON(map[string]any{"status": reply.StatusCode, "retryAfter": int(after.Seconds())}) // numbers can be encoded
		}
		return a
	}
	if len(text) > maxBody {
		return failureResult(workflow.FailureLimit, false, fmt.Sprintf("the response has more than %d bytes", maxBody))
	}
	a, err := ParseResponse(text, operation)
	if err != nil {
		return failureResult("HTTP_INVALID", false, err.Error())
	}
	return a
}

// Post posts a body to an allowed URL, for callers other than blocks, and returns the status of the
// response, whatever it is. It reads little of the response body, and keeps nothing of it.
func (c *Client) Post(ctx context.Context, to string, header map[string]string, body []byte) (status int, err error) {
	if err := c.Allows(to); err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	reply, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, reply.Body, maxDiscarded) // so that the connection can be used again
	return reply.StatusCode, reply.Body.Close()
}

// maxDiscarded bounds how much of an unused response is read.
const maxDiscarded = 64 << 10

// Allows returns an error if a URL may not be called.
func (c *Client) Allows(to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("cannot call %q: %w", to, errHostNotAllowed)
	}
	if err := c.allow.check(u); err != nil {
		return fmt.Errorf("cannot call %q: %w", to, err)
	}
	return nil
}

// markUnsent marks a failure if it is certain that the block was not called.
func markUnsent(a worker.JobResult) worker.JobResult {
	a.Failure.Unsent = true
	return a
}

// send makes the call of a job. It returns the response with its body, or why there is none. It
// reads one byte more of the body than is allowed. Whether a call that may still be running is
// repeated is not decided here.
func (c *Client) send(ctx context.Context, req *http.Request) (*http.Response, []byte, *workflow.Failure) {
	reply, err := c.http.Do(req)
	if err != nil {
		return nil, nil, sendFailure(ctx, err)
	}
	defer func() { _ = reply.Body.Close() }() // the body has been read, so an error does not matter
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxBody+1))
	if err != nil {
		return nil, nil, sendFailure(ctx, err)
	}
	return reply, text, nil
}

// sendFailure returns the failure for a timeout or a failed connection. The request may have been
// received, unless no connection was made. Its text contains no address, because that may contain
// secrets.
func sendFailure(ctx context.Context, err error) *workflow.Failure {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	var timeout net.Error
	switch {
	case errors.Is(err, errHostNotAllowed):
		return &workflow.Failure{Code: "HTTP_FORBIDDEN", Message: err.Error(), Unsent: true}
	case ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout():
		return &workflow.Failure{Code: workflow.FailureHTTPTimeout, Message: "there was no answer in time", Retryable: true}
	}
	var opErr *net.OpError
	unsent := errors.As(err, &opErr) && opErr.Op == "dial"
	return &workflow.Failure{Code: workflow.FailureHTTPUnreachable, Message: "the call failed: " + err.Error(), Retryable: true, Unsent: unsent}
}

// ParseResponse decodes the response of a block to an operation. It returns an error that names the
// place for anything that the contract does not allow, and for text that cannot be stored (see
// schema.CheckJSON). Unknown fields are ignored.
func ParseResponse(text []byte, operation workflow.JobKind) (worker.JobResult, error) {
	if issue := schema.CheckJSON(text, "", yamldoc.JoinPath); issue != nil {
		return worker.JobResult{}, fmt.Errorf("invalid response: %s", issue)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return worker.JobResult{}, fmt.Errorf("invalid response: %w", workflow.JSONError(err))
	}
	if err := responseFields.checkCase(v, ""); err != nil {
		return worker.JobResult{}, fmt.Errorf("invalid response: %w", err)
	}
	var r *response
	if err := json.Unmarshal(text, &r); err != nil {
		return worker.JobResult{}, fmt.Errorf("invalid response: %w", workflow.JSONError(err))
	}
	if r == nil {
		return worker.JobResult{}, errors.New("the response is null: want an object with outcome")
	}
	outcome, err := sm.ParseOutcome(r.Outcome)
	if err != nil {
		return worker.JobResult{}, fmt.Errorf("unknown outcome %q: want OK, ERROR, BREAK or NOOP", r.Outcome)
	}
	if outcome == sm.OutcomeError {
		if r.Error == nil || r.Error.Code == "" {
			return worker.JobResult{}, errors.New("outcome ERROR without an error: want error.code")
		}
		a := failureResult(r.Error.Code, r.Error.Retryable, r.Error.Message)
		a.Failure.Details = r.Error.Details
		if _, err := workflow.Checkpoints(nil).With(r.Checkpoints); err != nil {
			return worker.JobResult{}, fmt.Errorf("invalid response: %w", err)
		}
		a.Checkpoints, a.Logs = r.Checkpoints, r.Logs.Lines()
		return a, nil
	}
	if operation == workflow.JobAcquire && r.Entities == nil {
		return worker.JobResult{}, errors.New("the response to an ACQUIRE has no entities: want a list, which may be empty")
	}
	a := worker.JobResult{Outcome: outcome, Result: r.Result, Next: r.Next, Wait: r.Wait, Logs: r.Logs.Lines()}
	if len(r.Updates) > 0 {
		if a.Updates, err = workflow.EncodeJSON(r.Updates); err != nil {
			return worker.JobResult{}, err
		}
	}
	for _, e := range r.Entities {
		a.Entities = append(a.Entities, workflow.EntityKey(e))
	}
	if string(a.Result) == "null" {
		a.Result = nil
	}
	return a, nil
}

func failureResult(code string, retryable bool, message string) worker.JobResult {
	return worker.JobResult{Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: code, Message: message, Retryable: retryable}}
}
