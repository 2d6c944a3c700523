package httpblock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxBody is the largest body in either direction.
const maxBody = 1 << 20

// idempotencyHeader is the header under which a block is called. It is not in the
// canonical form: net/http takes a request with an "Idempotency-Key" for one that
// it may repeat by itself after a connection has broken, which for a block that
// must not run twice would be a second start that nobody sees. To those who are
// called, case makes no difference.
const idempotencyHeader = "idempotency-key"

// Client calls endpoints. It is safe for concurrent use.
type Client struct {
	allow allowList
	http  *http.Client
}

// New makes a caller that calls only the hosts of the list: names or addresses,
// each with a port or for every port, and [Loopback].
func New(allow []string) *Client {
	c := &Client{allow: newAllowList(allow)}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = c.allow.dial
	t.Proxy = nil // a proxy would connect where dial may not
	t.MaxIdleConnsPerHost = 64
	c.http = &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// errHostNotAllowed is why an endpoint is not called.
var errHostNotAllowed = errors.New("it is not on the worker's allow list (worker.allowHosts, or LOCKSTEP_WORKER_ALLOW_HOSTS)")

// Call posts a job and returns what the block says, or what went wrong: another
// status, a time-out or an answer that is none are errors with a code of their
// own.
func (c *Client) Call(ctx context.Context, e *workflow.Endpoint, j *worker.Job) worker.JobResult {
	u, err := url.Parse(e.URL)
	if err != nil || !c.allow.allowsURL(u) {
		return markUnsent(failureResult("HTTP_FORBIDDEN", false, fmt.Sprintf("the host of %q: %v", e.URL, errHostNotAllowed)))
	}
	body, err := json.Marshal(newRequest(j))
	if err != nil {
		return markUnsent(failureResult("HTTP_INVALID", false, "the job cannot be sent: "+err.Error()))
	}
	if n := len(body) - len(j.Result); n > maxBody { // what a block has returned once, it has to take back
		return markUnsent(failureResult("LIMIT", false, fmt.Sprintf("the job has %d bytes, the limit is %d", n, maxBody)))
	}
	if t := e.Timeout.Std(); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
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
	req.Header.Del("X-Idempotency-Key") // would allow the same
	req.Header[idempotencyHeader] = []string{j.ID}
	return c.post(ctx, req, j.Operation)
}

func (c *Client) post(ctx context.Context, req *http.Request, operation workflow.JobKind) worker.JobResult {
	reply, err := c.http.Do(req)
	if err != nil {
		return transportFailure(ctx, err)
	}
	defer func() { _ = reply.Body.Close() }() // what matters has been read
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxBody+1))
	if err != nil {
		return transportFailure(ctx, err)
	}
	if reply.StatusCode != http.StatusOK {
		retryable := reply.StatusCode >= 500 || reply.StatusCode == http.StatusTooManyRequests
		return failureResult("HTTP_"+strconv.Itoa(reply.StatusCode), retryable, "the block answered "+reply.Status)
	}
	if len(text) > maxBody {
		return failureResult("LIMIT", false, fmt.Sprintf("the answer has more than %d bytes", maxBody))
	}
	a, err := ParseResponse(text, operation)
	if err != nil {
		return failureResult("HTTP_INVALID", false, err.Error())
	}
	return a
}

// markUnsent marks a failure after which it is certain that the block was not called.
func markUnsent(a worker.JobResult) worker.JobResult {
	a.Failure.Unsent = true
	return a
}

// transportFailure tells a time-out from a connection that failed. Both may have reached
// the block, unless there never was a connection.
func transportFailure(ctx context.Context, err error) worker.JobResult {
	var timeout net.Error
	switch {
	case errors.Is(err, errHostNotAllowed):
		return markUnsent(failureResult("HTTP_FORBIDDEN", false, err.Error()))
	case ctx.Err() != nil || (errors.As(err, &timeout) && timeout.Timeout()):
		return failureResult("HTTP_TIMEOUT", true, "the block did not answer in time")
	}
	a := failureResult("HTTP_UNREACHABLE", true, "the block could not be called: "+err.Error())
	var opErr *net.OpError
	if errors.As(err, &opErr) && opErr.Op == "dial" {
		return markUnsent(a)
	}
	return a
}

// ParseResponse reads what a block says of a job, strictly: anything that is no answer is
// an error. Fields that it does not know are left alone.
func ParseResponse(text []byte, operation workflow.JobKind) (worker.JobResult, error) {
	var r *response
	if err := json.Unmarshal(text, &r); err != nil {
		return worker.JobResult{}, fmt.Errorf("the answer is not what a block answers: %w", err)
	}
	if r == nil {
		return worker.JobResult{}, errors.New("the answer is null")
	}
	outcome, err := sm.ParseOutcome(r.Outcome)
	if err != nil {
		return worker.JobResult{}, fmt.Errorf("there is no outcome %q: want OK, ERROR, BREAK or NOOP", r.Outcome)
	}
	if outcome == sm.OutcomeError {
		if r.Error == nil || r.Error.Code == "" {
			return worker.JobResult{}, errors.New("an ERROR says no error: want error.code")
		}
		a := failureResult(r.Error.Code, r.Error.Retryable, r.Error.Message)
		a.Failure.Details = r.Error.Details
		return a, nil
	}
	if operation == workflow.JobAcquire && r.Entities == nil {
		return worker.JobResult{}, errors.New("the answer to an ACQUIRE lists no entities: want entities, which may be empty")
	}
	a := worker.JobResult{Outcome: outcome, Result: r.Result}
	if len(r.Updates) > 0 {
		if a.Updates, err = json.Marshal(r.Updates); err != nil {
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
