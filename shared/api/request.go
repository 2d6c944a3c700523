package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// decodeBody decodes a validated body into v; an absent optional body leaves v unchanged.
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
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Code: "value", Message: workflow.JSONError(err).Error()}})
}

// deref returns what p points to, or the zero value.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// nullToNil turns a JSON null into nil.
func nullToNil(m json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(m), []byte("null")) {
		return nil
	}
	return m
}

// listDigestSize is how many bytes of a page token identify its list.
const listDigestSize = 9

// parsePage reads limit and pageToken. A token is valid only for the list that returned it, with
// the same filters and for the same tenant: with another list it would silently give the wrong
// page.
func (a *routes) parsePage(r *http.Request, limit *int, token *string) (workflow.Page, error) {
	p := workflow.Page{Limit: workflow.DefaultPageSize}
	if limit != nil {
		p.Limit = *limit
	}
	if token == nil {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*token)
	if err != nil || len(raw) <= listDigestSize || string(raw[:listDigestSize]) != a.listDigest(r, string(raw[listDigestSize:])) {
		return p, workflow.Invalid("the page token is invalid", []workflow.Issue{{
			Path: "pageToken", Code: "page_token", Message: "want the nextPageToken of the previous page, of the same list with the same filters",
		}})
	}
	p.Token = string(raw[listDigestSize:])
	return p, nil
}

// nextPageToken returns the token of the next page; nil on the last page.
func (a *routes) nextPageToken(r *http.Request, token string) *string {
	if token == "" {
		return nil
	}
	t := base64.RawURLEncoding.EncodeToString([]byte(a.listDigest(r, token) + token))
	return &t
}

// listDigest returns a digest of the list and of the token itself, so that it also detects a
// damaged token.
func (a *routes) listDigest(r *http.Request, token string) string {
	q := r.URL.Query()
	q.Del("limit")
	q.Del("pageToken")
	sum := sha256.Sum256([]byte(a.caller(r).Tenant + "\x00" + r.URL.Path + "\x00" + q.Encode() + "\x00" + token))
	return string(sum[:listDigestSize])
}
