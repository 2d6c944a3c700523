package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// request is one call of the API.
type request struct {
	method      string
	path        string     // escaped, see [route]
	query       url.Values // nil for none
	key         string     // the Idempotency-Key; empty means that a POST is not retried
	life        string     // the Idempotency-Life; or empty
	ifNoneMatch string     // the ETag of an earlier answer; or empty
	token       string     // a bearer token instead of the client's own credentials; or empty

	// body is sent as JSON; a []byte is sent unchanged, with contentType.
	body        any
	contentType string

	once bool // the caller retries by itself
}

// route escapes and joins the segments of a path.
func route(segments ...string) string {
	var path strings.Builder
	for _, s := range segments {
		path.WriteString("/" + url.PathEscape(s))
	}
	return path.String()
}

// send sends a request and returns the response with its body unread.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	var body io.Reader
	switch b := q.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		raw, err := workflow.EncodeJSON(b)
		if err != nil {
			return nil, err
		}
		body, q.contentType = bytes.NewReader(raw), "application/json"
	}
	target := c.base + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, target, body)
	if err != nil {
		return nil, err
	}
	if q.contentType != "" {
		r.Header.Set("Content-Type", q.contentType)
	}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	if q.life != "" {
		r.Header.Set("Idempotency-Life", q.life)
	}
	if q.ifNoneMatch != "" {
		r.Header.Set("If-None-Match", q.ifNoneMatch)
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	retries := c.transport.opt.Retries
	if q.once {
		retries = 0
	}
	return c.transport.do(r, retries)
}

// do sends a request and decodes the response.
func do[T any](ctx context.Context, c *Client, q request) (T, error) {
	return decodeResponse[T](c.send(ctx, q))
}

// get reads a resource.
func get[T any](ctx context.Context, c *Client, segments ...string) (T, error) {
	return do[T](ctx, c, request{method: http.MethodGet, path: route(segments...)})
}

// post sends a body, or none if it is nil, and decodes the response.
func post[T any](ctx context.Context, c *Client, body any, segments ...string) (T, error) {
	return do[T](ctx, c, request{method: http.MethodPost, path: route(segments...), body: body})
}

type listPage[T any] struct {
	Items         []T    `json:"items"`
	NextPageToken string `json:"nextPageToken"`

	Skipped []string `json:"skipped"`
}

// paginate iterates over a list and fetches each page when it is needed. It ends with the first
// error. It does not change query.
func paginate[T any](ctx context.Context, c *Client, query url.Values, segments ...string) iter.Seq2[T, error] {
	return paginateRequest[T](ctx, c, request{method: http.MethodGet, path: route(segments...), query: query})
}

// paginateRequest is paginate for any request that answers with a page.
func paginateRequest[T any](ctx context.Context, c *Client, first request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var token string
		for {
			q := first
			q.query = url.Values{}
			for name, values := range first.query {
				q.query[name] = values
			}
			if token != "" {
				q.query.Set("pageToken", token)
			}
			page, err := do[listPage[T]](ctx, c, q)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			if onSkipped := c.transport.opt.OnSkipped; len(page.Skipped) > 0 && onSkipped != nil {
				onSkipped(page.Skipped)
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextPageToken == "" {
				return
			}
			token = page.NextPageToken
		}
	}
}

// set adds a parameter to a query unless its value is empty.
func set(query url.Values, name, value string) {
	if value != "" {
		query.Add(name, value)
	}
}

// reason is the body of the commands that take only a reason.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

// refSegments returns the path segments of a reference; an empty version has none.
func refSegments(first string, ref workflow.Ref) []string {
	s := []string{first, ref.Package, ref.Name}
	if ref.Version != "" {
		s = append(s, ref.Version)
	}
	return s
}

// maxResponseBytes bounds how much of a response is read.
const maxResponseBytes = 64 << 20

// decodeResponse decodes a response into T, or into an error.
func decodeResponse[T any](res *http.Response, err error) (T, error) {
	v, _, err := decodeWithStatus[T](res, err)
	return v, err
}

// decodeWithStatus is decodeResponse for callers that need the status.
func decodeWithStatus[T any](res *http.Response, err error) (v T, status int, _ error) {
	if err != nil {
		return v, 0, err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponseBytes))
	if err != nil {
		return v, res.StatusCode, &UnreachableError{URL: origin(res.Request.URL), Err: err}
	}
	if res.StatusCode >= 300 {
		return v, res.StatusCode, problemError(res, body)
	}
	if res.StatusCode == http.StatusNoContent {
		return v, res.StatusCode, nil
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, res.StatusCode, &workflow.Error{Code: workflow.CodeInternal, Message: "the answer of " + origin(res.Request.URL) + " cannot be read: it is not a Lockstep service, or has another version", Cause: err}
	}
	return v, res.StatusCode, nil
}

// problemError decodes a problem. Any other body comes from a proxy or a gateway; its error has a
// code derived from the status.
func problemError(res *http.Response, body []byte) error {
	var p struct {
		Detail    string           `json:"detail"`
		Code      workflow.Code    `json:"code"`
		RequestID string           `json:"requestId"`
		Errors    []workflow.Issue `json:"errors"`
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		e := &workflow.Error{Code: codeForStatus(res.StatusCode), Message: "answered " + res.Status, RetryAfter: retryAfter(res)}
		if res.Request != nil {
			e.Message = origin(res.Request.URL) + " answered " + res.Status + ", but not as a Lockstep service does"
		}
		return e
	}
	e := &workflow.Error{Code: p.Code, Message: p.Detail, Issues: p.Errors, RetryAfter: retryAfter(res)}
	if res.StatusCode >= 500 && p.RequestID != "" {
		e.Message += fmt.Sprintf(" (request %s)", p.RequestID)
	}
	return e
}

func codeForStatus(status int) workflow.Code {
	switch status {
	case http.StatusUnauthorized:
		return workflow.CodeUnauthorized
	case http.StatusForbidden:
		return workflow.CodeForbidden
	case http.StatusNotFound:
		return workflow.CodeNotFound
	case http.StatusMethodNotAllowed:
		return workflow.CodeMethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		return workflow.CodeTooLarge
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return workflow.CodeUnavailable
	}
	if status < 500 {
		return workflow.CodeInvalid
	}
	return workflow.CodeInternal
}

// origin returns the scheme and the host of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }
