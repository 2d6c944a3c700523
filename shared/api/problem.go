package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// problem is RFC 9457 with the code, the issues and the id of the request.
type problem struct {
	Type      string           `json:"type"`
	Title     string           `json:"title"`
	Status    int              `json:"status"`
	Detail    string           `json:"detail"`
	Code      workflow.Code    `json:"code"`
	RequestID string           `json:"requestId"`
	Errors    []workflow.Issue `json:"errors"`
}

const internalDetail = "something went wrong that is not the request's fault; the log has it under the request's id"

// writeError answers an error. What is internal goes to the log, not to the client.
func (a *routes) writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := classify(err)
	if e.Code == workflow.CodeInternal {
		a.opt.Log.LogAttrs(r.Context(), slog.LevelError, "request failed", append(requestAttrs(r), observe.Err(err))...)
		e = &workflow.Error{Code: workflow.CodeInternal, Message: internalDetail}
	}
	a.writeProblem(w, r, e)
}

// classify finds the error that has a meaning.
func classify(err error) *workflow.Error {
	var coded *workflow.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &large):
		return workflow.Errorf(workflow.CodeTooLarge, "the body is larger than %d bytes", large.Limit)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &workflow.Error{Code: workflow.CodeUnavailable, Message: "the request ran out of time; try again", Cause: err}
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
	body, err := json.Marshal(p)
	if err != nil { // nothing in a problem can fail to be written
		panic(err)
	}
	h := w.Header()
	h.Del("Location")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if e.Code == workflow.CodeUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone is no news
}

// problemTitle is the code as a phrase: "illegal_transition" is "Illegal transition".
func problemTitle(c workflow.Code) string {
	s := strings.ReplaceAll(string(c), "_", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}
