package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// request is one call of the service, as the OpenAPI document describes it.
type request struct {
	method string
	path   string     // with its parameters escaped, see [route]
	query  url.Values // nil for none
	header http.Header

	// body is sent as JSON, unless it is a []byte, which is sent as it is with
	// contentType.
	body        any
	contentType string
}

// route joins the segments of a path; each is escaped.
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
		raw, err := json.Marshal(b)
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
	for name, values := range q.header {
		r.Header[name] = values
	}
	return c.transport.Do(r)
}

// do sends a request and reads the answer into T.
func do[T any](ctx context.Context, c *Client, q request) (T, error) {
	return decodeResponse[T](c.send(ctx, q))
}

// get reads a resource.
func get[T any](ctx context.Context, c *Client, segments ...string) (T, error) {
	return do[T](ctx, c, request{method: http.MethodGet, path: route(segments...)})
}

// post sends a body, or none if it is nil, and reads the answer.
func post[T any](ctx context.Context, c *Client, body any, segments ...string) (T, error) {
	return do[T](ctx, c, request{method: http.MethodPost, path: route(segments...), body: body})
}

type listPage[T any] struct {
	Items         []T    `json:"items"`
	NextPageToken string `json:"nextPageToken"`
}

// paginate goes through a list, fetching each page when it is needed. It ends with
// the first error. The query is not changed.
func paginate[T any](ctx context.Context, c *Client, query url.Values, segments ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var token string
		for {
			q := request{method: http.MethodGet, path: route(segments...), query: url.Values{}}
			for name, values := range query {
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

// reason is the body of the operators' verbs.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

// refSegments is the path of a package, a name and, unless it is empty, a version.
func refSegments(first string, ref workflow.Ref) []string {
	s := []string{first, ref.Package, ref.Name}
	if ref.Version != "" {
		s = append(s, ref.Version)
	}
	return s
}
