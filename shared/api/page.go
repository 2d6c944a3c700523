package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// markSize is how much of a page token says which list it belongs to.
const markSize = 9

// page reads limit and pageToken. A token only continues the list, with the
// same filters and for the same tenant, that it was answered with: a token of
// another list would silently show the wrong part.
func (a *routes) page(r *http.Request, limit *int, token *string) (workflow.Page, error) {
	p := workflow.Page{Limit: workflow.DefaultPage}
	if limit != nil {
		p.Limit = *limit
	}
	if token == nil {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(*token)
	if err != nil || len(raw) <= markSize || string(raw[:markSize]) != a.mark(r, string(raw[markSize:])) {
		return p, workflow.Invalid("the page token is not valid", []workflow.Issue{{
			Path: "pageToken", Code: "page_token", Message: "want the nextPageToken of the page before, of the same list with the same filters",
		}})
	}
	p.Token = string(raw[markSize:])
	return p, nil
}

// next is the token of the page after, null after the last.
func (a *routes) next(r *http.Request, token string) *string {
	if token == "" {
		return nil
	}
	t := base64.RawURLEncoding.EncodeToString([]byte(a.mark(r, token) + token))
	return &t
}

// mark depends on the list and on the token itself, so that a damaged token is
// noticed too.
func (a *routes) mark(r *http.Request, token string) string {
	q := r.URL.Query()
	q.Del("limit")
	q.Del("pageToken")
	sum := sha256.Sum256([]byte(a.caller(r).Tenant + "\x00" + r.URL.Path + "\x00" + q.Encode() + "\x00" + token))
	return string(sum[:markSize])
}
