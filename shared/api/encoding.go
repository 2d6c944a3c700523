package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// respond answers v, or err if there is one.
func (a *routes) respond(w http.ResponseWriter, r *http.Request, status int, v any, err error) {
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		a.writeError(w, r, fmt.Errorf("write the answer: %w", err))
		return
	}
	a.writeJSON(w, status, append(body, '\n'))
}

func (a *routes) writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone is no news
}

// listResponse is a part of a list as it is answered.
type listResponse[T any] struct {
	Items         []T     `json:"items"`
	NextPageToken *string `json:"nextPageToken"`
}

// respondList answers a part of a list, each item in its shape.
func respondList[T, S any](a *routes, w http.ResponseWriter, r *http.Request, page workflow.List[T], convert func(T) S, err error) {
	out := listResponse[S]{Items: make([]S, 0, len(page.Items)), NextPageToken: a.nextPageToken(r, page.NextToken)}
	for _, item := range page.Items {
		out.Items = append(out.Items, convert(item))
	}
	a.respond(w, r, http.StatusOK, out, err)
}

// decodeBody reads a body that the guard has let through into v; an absent optional
// body leaves v as it is.
func decodeBody(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	err = json.Unmarshal(body, v)
	var typeErr *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typeErr):
		return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: typeErr.Field, Code: "type", Message: "this value does not fit"}})
	}
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Code: "value", Message: err.Error()}})
}

func (a *routes) health(w http.ResponseWriter, r *http.Request) {
	if a.opt.Ready != nil {
		if err := a.opt.Ready(r.Context()); err != nil {
			a.writeError(w, r, &workflow.Error{Code: workflow.CodeUnavailable, Message: "not ready", Cause: err})
			return
		}
	}
	a.respond(w, r, http.StatusOK, map[string]string{"status": "ok"}, nil)
}

func (a *routes) version(w http.ResponseWriter, r *http.Request) {
	a.respond(w, r, http.StatusOK, map[string]string{"version": a.opt.Version, "commit": a.opt.Commit, "go": runtime.Version()}, nil)
}

func (a *routes) openapi(w http.ResponseWriter, _ *http.Request) {
	a.writeJSON(w, http.StatusOK, openapi.JSON)
}

func (a *routes) notImplemented(w http.ResponseWriter, r *http.Request) {
	a.writeError(w, r, workflow.Errorf(workflow.CodeNotImplemented, "%s %s is promised and not served yet", r.Method, r.URL.Path))
}

// deref is what p points to, or nothing.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// nullToNil takes a null for something absent.
func nullToNil(m json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(m), []byte("null")) {
		return nil
	}
	return m
}
