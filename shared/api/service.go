package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"

	"github.com/lockstep-run/lockstep/shared/api/document"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// reply answers v, or err if there is one.
func (a *routes) reply(w http.ResponseWriter, r *http.Request, status int, v any, err error) {
	if err != nil {
		a.fail(w, r, err)
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		a.fail(w, r, fmt.Errorf("write the answer: %w", err))
		return
	}
	a.send(w, status, append(body, '\n'))
}

func (a *routes) send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone is no news
}

// list is a part of a list as it is answered.
type list[T any] struct {
	Items         []T     `json:"items"`
	NextPageToken *string `json:"nextPageToken"`
}

// replyList answers a part of a list, each item in its shape.
func replyList[T, S any](a *routes, w http.ResponseWriter, r *http.Request, part workflow.List[T], shape func(T) S, err error) {
	out := list[S]{Items: make([]S, 0, len(part.Items)), NextPageToken: a.next(r, part.Next)}
	for _, item := range part.Items {
		out.Items = append(out.Items, shape(item))
	}
	a.reply(w, r, http.StatusOK, out, err)
}

// decode reads a body that the guard has let through into v; an absent optional
// body leaves v as it is.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	err = json.Unmarshal(body, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: wrong.Field, Code: "type", Message: "this value does not fit"}})
	}
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Code: "value", Message: err.Error()}})
}

func (a *routes) health(w http.ResponseWriter, r *http.Request) {
	if a.opt.Ready != nil {
		if err := a.opt.Ready(r.Context()); err != nil {
			a.fail(w, r, &workflow.Error{Code: workflow.CodeUnavailable, Message: "not ready", Cause: err})
			return
		}
	}
	a.reply(w, r, http.StatusOK, map[string]string{"status": "ok"}, nil)
}

func (a *routes) version(w http.ResponseWriter, r *http.Request) {
	a.reply(w, r, http.StatusOK, map[string]string{"version": a.opt.Version, "commit": a.opt.Commit, "go": runtime.Version()}, nil)
}

func (a *routes) openapi(w http.ResponseWriter, _ *http.Request) {
	a.send(w, http.StatusOK, document.JSON)
}

func (a *routes) notImplemented(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, workflow.Errorf(workflow.CodeNotImplemented, "%s %s is promised and not served yet", r.Method, r.URL.Path))
}

// or is what p points to, or nothing.
func or[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orNone takes a null for something absent.
func orNone(m json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(m), []byte("null")) {
		return nil
	}
	return m
}
