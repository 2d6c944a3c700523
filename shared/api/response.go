package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// respond sends v, or err unless it is nil.
func (a *routes) respond(w http.ResponseWriter, r *http.Request, status int, v any, err error) {
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	body, err := workflow.EncodeJSON(v)
	if err != nil {
		a.writeError(w, r, fmt.Errorf("encode the answer: %w", err))
		return
	}
	if op := a.doc.Operations[r.Pattern]; op != nil && op.Conditional && status == http.StatusOK {
		tag := entityTag(v, body)
		w.Header().Set("ETag", tag)
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	a.writeJSON(w, status, append(body, '\n'))
}

// entityTag returns the tag of a response. It is a digest of the body, because the version of an
// execution says nothing about its jobs and what it waits for, and is known only after the read.
// The tag is weak, because the time at which the response was made does not count as a change, and
// because gateways may compress it.
func entityTag(v any, body []byte) string {
	if x, ok := v.(views.ExecutionView); ok && x.Progress.AsOf != nil {
		x.Progress.AsOf = nil
		if timeless, err := workflow.EncodeJSON(x); err == nil {
			body = timeless
		}
	}
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// matches reports whether an If-None-Match names a weak tag (RFC 9110, 13.1.2).
func matches(ifNoneMatch, tag string) bool {
	for one := range strings.SplitSeq(ifNoneMatch, ",") { // no tag of this service contains a comma
		if one = strings.TrimSpace(one); one == "*" || "W/"+strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

func (a *routes) writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has disconnected
}

// listResponse is a page of a list.
type listResponse[T any] struct {
	Items         []T     `json:"items"`
	NextPageToken *string `json:"nextPageToken"`

	Skipped []string `json:"skipped,omitempty"` // absent from the schemas of lists that skip nothing
}

// respondList sends a page of a list, with each item converted.
func respondList[T, S any](a *routes, w http.ResponseWriter, r *http.Request, page workflow.List[T], convert func(T) S, err error) {
	out := listResponse[S]{Items: make([]S, 0, len(page.Items)), NextPageToken: a.nextPageToken(r, page.NextToken), Skipped: page.Skipped}
	for _, item := range page.Items {
		out.Items = append(out.Items, convert(item))
	}
	a.respond(w, r, http.StatusOK, out, err)
}

// servePage sends the page of a list that the parameters ask for.
func servePage[T, S any](a *routes, w http.ResponseWriter, r *http.Request, limit *int, token *string, convert func(T) S, read func(context.Context, workflow.Caller, workflow.Page) (workflow.List[T], error)) {
	page, err := a.parsePage(r, limit, token)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	list, err := read(r.Context(), a.caller(r), page)
	respondList(a, w, r, list, convert, err)
}

// unchanged is the conversion of an item that is sent as it is.
func unchanged[T any](v T) T { return v }

// problem is an RFC 9457 problem with the code, the issues and the request id.
type problem struct {
	Type      string           `json:"type"`
	Title     string           `json:"title"`
	Status    int              `json:"status"`
	Detail    string           `json:"detail"`
	Code      workflow.Code    `json:"code"`
	RequestID string           `json:"requestId"`
	Errors    []workflow.Issue `json:"errors"`
}

// internalDetail is what a client reads about an internal error.
const internalDetail = "internal error, not caused by the request; the log has details under the request id"

// writeError sends an error. It logs an internal error and hides it from the client.
func (a *routes) writeError(w http.ResponseWriter, r *http.Request, err error) {
	a.writeProblem(w, r, a.tellable(r, err, "request failed"))
}

// tellable returns an error as the caller may read it. Internal errors go to the log, with a
// message that says what has failed.
func (a *routes) tellable(r *http.Request, err error, message string) *workflow.Error {
	e := classify(err)
	if e.Code != workflow.CodeInternal {
		return e
	}
	a.opt.Log.LogAttrs(r.Context(), slog.LevelError, message, append(requestAttrs(r), observe.Err(err))...)
	return &workflow.Error{Code: workflow.CodeInternal, Message: internalDetail}
}

// classify finds the error with a code, or gives one to err.
func classify(err error) *workflow.Error {
	var coded *workflow.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &large):
		return workflow.Errorf(workflow.CodeTooLarge, "the body is larger than %d bytes", large.Limit)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the request timed out; try again", Cause: err}
	}
	return &workflow.Error{Code: workflow.CodeInternal, Cause: err}
}

func (a *routes) writeProblem(w http.ResponseWriter, r *http.Request, e *workflow.Error) {
	p := problem{
		Type:      "urn:lockstep:problem:" + string(e.Code),
		Title:     problemTitle(e.Code),
		Status:    e.Code.HTTPStatus(),
		Detail:    e.Message,
		Code:      e.Code,
		RequestID: r.Header.Get(headerRequestID),
		Errors:    e.Issues,
	}
	if p.Errors == nil {
		p.Errors = []workflow.Issue{}
	}
	body, err := workflow.EncodeJSON(p)
	if err != nil { // a problem can always be encoded
		panic(err)
	}
	h := w.Header()
	h.Del("Location")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if after := retryAfter(e); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has disconnected
}

// retryAfter returns in how many seconds a request may be sent again; 0 if unknown.
func retryAfter(e *workflow.Error) int {
	if e.Code != workflow.CodeUnavailable && e.RetryAfter <= 0 {
		return 0
	}
	return seconds(e.RetryAfter)
}

// seconds returns a time in whole seconds, at least one.
func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// problemTitle returns the code in words: "illegal_transition" is "Illegal transition".
func problemTitle(c workflow.Code) string {
	s := strings.ReplaceAll(string(c), "_", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}
